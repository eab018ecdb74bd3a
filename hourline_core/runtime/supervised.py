"""A child process that ends with its parent, even if the parent is killed with -9.

`watchdog.py` runs between the two. It starts the command, and ends it on request or when the parent has died.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from hourline_core.child_environment import child_environment
from hourline_core.errors import SetupError

_WATCHDOG = Path(__file__).with_name("watchdog.py")


class Supervised:
    """A command that runs from construction until ``stop()``, its own end, or the end of this process.

    It has its own session, so Ctrl-C in a terminal reaches this process only, which then stops its children in order.

    Its output is appended to ``log``: a path, or a file descriptor that is open for writing. ``env`` is its whole
    environment; None stands for ``child_environment``. It inherits the file descriptors ``keep_open``, for locks that
    must be held until it has ended. ``grace`` is the number of seconds between SIGTERM and SIGKILL.

    Raises SetupError when the command cannot be started.
    """

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        log: Path | int,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        keep_open: Sequence[int] = (),
        grace: float = 10.0,
    ) -> None:
        self._grace = grace
        if isinstance(log, Path):
            log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") if isinstance(log, Path) else os.fdopen(os.dup(log), "wb") as output:
            self._watchdog = subprocess.Popen(
                # Isolated and without site-packages: it starts in 20 ms, and ignores modules in its working directory.
                [sys.executable, "-I", "-S", _WATCHDOG, str(grace), ",".join(map(str, keep_open)), *command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=output,
                cwd=cwd,
                env=child_environment() if env is None else env,
                pass_fds=keep_open,
                start_new_session=True,
            )
        assert self._watchdog.stdout is not None
        with self._watchdog.stdout as answer:
            first_line = answer.readline().decode(errors="replace").strip()
        if not first_line.isdigit():
            self._watchdog.wait()
            raise SetupError(f"'{command[0]}' could not be started: {first_line or f'its output is {log}'}")
        self.pid = int(first_line)
        """The process id of the command itself."""

    def alive(self) -> bool:
        """Whether the command still runs."""
        return self._watchdog.poll() is None

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the command's end and return its exit status, -n for signal n.

        Raises subprocess.TimeoutExpired when it still runs after ``timeout`` seconds.
        """
        return _status(self._watchdog.wait(timeout))

    def stop(self) -> int:
        """End the command and its children with SIGTERM, and with SIGKILL after ``grace`` seconds.

        Returns its exit status as ``wait``.
        """
        self.ask_to_stop()
        return self.wait()

    def ask_to_stop(self) -> None:
        """Begin to stop without waiting for the end, so that several commands can end at the same time."""
        if self.alive():
            self._watchdog.send_signal(signal.SIGTERM)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _status(watchdog_status: int) -> int:
    """The command's exit status. Like a shell, the watchdog returns 128 + n for signal n."""
    return 128 - watchdog_status if watchdog_status > 128 else watchdog_status
