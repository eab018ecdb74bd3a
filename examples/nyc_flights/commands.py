"""Running Hourline's command line as a person would, except that whatever is started ends with the demo, however that
ends.
"""

import os
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from hourline_core.errors import HourlineError
from hourline_core.runtime.supervised import Supervised

_GRACE_SECONDS = 30


class Command:
    """One ``hourline …``, running until its end, ``stop()``, or the end of this process."""

    def __init__(
        self,
        arguments: list[str],
        folder: Path,
        workspace: Path,
        log: Path,
        fine: Collection[int] = (0,),
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """``fine`` are the exit statuses that are no failure here; ``settings`` are added to its environment."""
        self.text = " ".join(
            ["hourline", *(f'"{argument}"' if " " in argument else argument for argument in arguments)]
        )
        self._log = log
        self._read = 0
        self._fine = fine
        environment = {
            **os.environ,
            **(settings or {}),
            "HOURLINE_PROJECT": str(folder),
            "HOURLINE_WORKSPACE": str(workspace),
        }
        self._process = Supervised(
            [sys.executable, "-m", "hourline", *arguments], log=log, cwd=folder, env=environment, grace=_GRACE_SECONDS
        )

    def running(self, seconds: float) -> bool:
        """Whether it still runs, having waited for its end at most ``seconds``. Raises HourlineError when it has
        failed.
        """
        try:
            status = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return True
        if status not in self._fine:
            raise HourlineError(
                f"`{self.text}` failed with status {status}: {self._last_line()} (its output is in {self._log})"
            )
        return False

    def lines(self) -> Iterator[str]:
        """The whole lines it has written since this was last asked."""
        with self._log.open(encoding="utf-8", errors="replace") as file:
            file.seek(self._read)
            while (line := file.readline()).endswith("\n"):
                self._read = file.tell()
                yield line.rstrip()

    def stop(self) -> None:
        self._process.stop()

    def _last_line(self) -> str:
        lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines()
        return lines[-1].removeprefix("hourline: ") if lines else "it said nothing"
