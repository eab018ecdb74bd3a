"""TCP ports of this machine's loopback address."""

import random
import socket
from contextlib import ExitStack, suppress

from hourline_core.errors import SetupError

LOOPBACK = "127.0.0.1"

# Linux and macOS give outgoing connections higher ports. One of those may be taken while its server starts again.
_FOR_SERVERS = range(20_000, 32_000)


def free_ports(count: int) -> list[int]:
    """Distinct ports that were free at the time of the call. Only a server that asks for one of them takes it.

    Raises SetupError if there are fewer.
    """
    found: list[int] = []
    with ExitStack() as stack:
        for port in random.SystemRandom().sample(_FOR_SERVERS, len(_FOR_SERVERS)):
            with suppress(OSError):
                stack.enter_context(_listener(port))
                found.append(port)
            if len(found) == count:
                return found
    raise SetupError(
        f"only {len(found)} of {count} ports from {_FOR_SERVERS.start} to {_FOR_SERVERS.stop - 1} are free; "
        "stop what uses them"
    )


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
