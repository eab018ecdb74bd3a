"""Runs one command, and ends it on request or when its own parent process has ended. Only `supervised.py` starts it.

    watchdog.py GRACE KEEP_OPEN COMMAND...

It writes one line to its standard output: the command's process id, or the reason why it could not be started. The
command's output goes to standard error. It imports the standard library only, since it runs by its path.
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
    # The parent's id shows its end reliably; a pipe from it does not, since its forked children keep the pipe open. The
    # id is read before the answer, while the parent still waits.
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
    """The signals that request the end, and SIGCHLD. No signal is lost between checks."""

    def __init__(self, *ending: signal.Signals) -> None:
        self.asked = False
        """Whether a signal has requested the end."""
        self._woken, write = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(write, False)
        signal.set_wakeup_fd(write)
        for number in (signal.SIGCHLD, *ending):
            signal.signal(number, self._note)

    def wait(self, seconds: float) -> None:
        """Wait for a signal, at most for ``seconds``."""
        select.select([self._woken], [], [], seconds)
        with suppress(BlockingIOError):
            os.read(self._woken, 1024)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self.asked = self.asked or number != signal.SIGCHLD


def _die_with_this_process() -> Callable[[], None] | None:
    """On Linux, a function that lets the kernel kill the command when this watchdog is killed. Elsewhere, None."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl
    return lambda: prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _answer(line: str) -> None:
    with suppress(BrokenPipeError):  # the parent has already ended, which the loop notices
        os.write(sys.stdout.fileno(), f"{line}\n".encode())


def _end(child: "subprocess.Popen[bytes]", grace: float) -> int:
    """End the command if it still runs, and then the rest of its process group."""
    if child.poll() is None:
        child.terminate()
        child.send_signal(signal.SIGCONT)  # one that was stopped could not end
        with suppress(subprocess.TimeoutExpired):
            child.wait(grace)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    return child.wait()


if __name__ == "__main__":
    sys.exit(main())
