"""TCP ports of this machine's loopback address."""

import socket
from contextlib import ExitStack

from hourline_core.errors import SetupError

LOOPBACK = "127.0.0.1"


def free_ports(count: int) -> list[int]:
    """Different ports that nothing listened on a moment ago."""
    with ExitStack() as stack:  # all are held until the last is chosen, so none is chosen twice
        listeners = [stack.enter_context(_listener(0)) for _ in range(count)]
        return [listener.getsockname()[1] for listener in listeners]


def require_free(port: int, setting: str) -> None:
    """Raises SetupError, with the name of the ``setting`` to change, when ``port`` cannot be listened on."""
    try:
        _listener(port).close()
    except (OSError, OverflowError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise SetupError(
            f"port {port} cannot be listened on: {reason}; stop what uses it, set {setting} to another port, "
            f"or leave {setting} out to have a free one chosen"
        ) from None


def _listener(port: int) -> socket.socket:
    listener = socket.socket()
    try:
        # As servers do: a port whose last connections are only timing out is free.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((LOOPBACK, port))
        listener.listen()
    except BaseException:
        listener.close()
        raise
    return listener
