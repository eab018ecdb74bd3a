"""Runs Hourline's command line as a user would. All commands end with the demo, even if it is killed."""

import os
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from hourline_core.errors import HourlineError
from hourline_core.runtime.supervised import Supervised

_GRACE_SECONDS = 30


class Command:
    """One ``hourline …``, which runs until its end, ``stop()``, or the end of this process."""

    def __init__(
        self,
        arguments: list[str],
        folder: Path,
        workspace: Path,
        log: Path,
        fine: Collection[int] = (0,),
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """``fine`` are the exit statuses that are no failure. ``settings`` are added to its environment."""
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
        """Wait at most ``seconds`` for its end. Returns whether it still runs. Raises HourlineError when it failed."""
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
        """The complete lines that it has written since the last call."""
        with self._log.open(encoding="utf-8", errors="replace") as file:
            file.seek(self._read)
            while (line := file.readline()).endswith("\n"):
                self._read = file.tell()
                yield line.rstrip()

    def stop(self) -> None:
        self._process.stop()

    def _last_line(self) -> str:
        lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines()
        return lines[-1].removeprefix("hourline: ") if lines else "there was no output"
