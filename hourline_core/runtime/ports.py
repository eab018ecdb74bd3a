"""TCP ports of this machine's loopback address."""

import socket
from contextlib import ExitStack

from hourline_core.errors import SetupError

LOOPBACK = "127.0.0.1"


def free_ports(count: int) -> list[int]:
    """Distinct ports that were free at the time of the call."""
    with ExitStack() as stack:  # all stay open until the last is chosen, so none is chosen twice
        listeners = [stack.enter_context(_listener(0)) for _ in range(count)]
        return [listener.getsockname()[1] for listener in listeners]


def require_free(port: int, setting: str) -> None:
    """Raise SetupError, with the name of the ``setting`` to change, when ``port`` cannot be listened on."""
    try:
        _listener(port).close()
    except (OSError, OverflowError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise SetupError(
            f"port {port} cannot be listened on: {reason}; stop what uses it, set {setting} to another port, "
            f"or remove {setting} to let Hourline choose a free port"
        ) from None


def _listener(port: int) -> socket.socket:
    listener = socket.socket()
    try:
        # Like servers, treat a port with connections in TIME_WAIT as free.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((LOOPBACK, port))
        listener.listen()
    except BaseException:
        listener.close()
        raise
    return listener
