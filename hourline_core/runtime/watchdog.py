"""Runs one command and ends it when asked to, or when the process that started this one is gone. Started by
`supervised.py` alone.

    watchdog.py GRACE KEEP_OPEN COMMAND...

Answers on its standard output with one line, the command's process id or why it could not be started; its standard
error is the command's output. Imports nothing but the standard library, since it runs by its path.
"""

import ctypes
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

_LOOK_EVERY_SECONDS = 0.2
_PR_SET_PDEATHSIG = 1


def main() -> int:
    grace, keep_open, *command = sys.argv[1:]
    # Comparing the parent's id holds where a pipe from the parent does not: a forked child of the parent keeps a pipe
    # open. It is taken before the answer, which the parent waits for.
    parent = os.getppid()
    signals = _Signals(signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    try:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr,
            pass_fds=[int(fd) for fd in keep_open.split(",") if fd],
            process_group=0,
            preexec_fn=_die_with_this_process(),  # noqa: PLW1509 - there is one thread only
        )
    except OSError as error:
        _answer(str(error))
        return 1
    _answer(str(child.pid))
    while child.poll() is None and os.getppid() == parent and not signals.asked:
        signals.wait(_LOOK_EVERY_SECONDS)
    status = _end(child, float(grace))
    return status if status >= 0 else 128 - status


class _Signals:
    """The signals that ask for the end, and SIGCHLD; nothing is lost between looking and waiting."""

    def __init__(self, *ending: signal.Signals) -> None:
        self.asked = False
        """Whether one has asked for the end."""
        self._woken, write = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(write, False)
        signal.set_wakeup_fd(write)
        for number in (signal.SIGCHLD, *ending):
            signal.signal(number, self._note)

    def wait(self, seconds: float) -> None:
        """Wait for a signal, so long at most."""
        select.select([self._woken], [], [], seconds)
        with suppress(BlockingIOError):
            os.read(self._woken, 1024)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self.asked = self.asked or number != signal.SIGCHLD


def _die_with_this_process() -> Callable[[], None] | None:
    """On Linux: has the kernel kill the command when this watchdog itself is killed. Elsewhere there is no such
    service.
    """
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl
    return lambda: prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _answer(line: str) -> None:
    with suppress(BrokenPipeError):  # the parent is gone already, which the loop will find
        os.write(sys.stdout.fileno(), f"{line}\n".encode())


def _end(child: "subprocess.Popen[bytes]", grace: float) -> int:
    """End the command if it still runs, and whatever is left of its process group in any case."""
    if child.poll() is None:
        child.terminate()
        with suppress(subprocess.TimeoutExpired):
            child.wait(grace)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    return child.wait()


if __name__ == "__main__":
    sys.exit(main())
