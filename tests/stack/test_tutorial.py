"""What the tutorial shows is what happens: its commands are run in order in a fresh folder, and its Python too."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from tests.support.shown import TUTORIAL, blocks, commands, plain

PATIENCE = 600.0


class Tour:
    """Somebody who types the commands, and waits for events to arrive as a person would."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self.environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("HOURLINE_PRO", "HOURLINE_WORK", "KAFKA"))
        }
        self.environment["PATH"] = path

    def type(self, command: str) -> list[str]:
        if command.startswith("cd "):
            self.folder /= command.removeprefix("cd ")
            return []
        done = self._run(["bash", "-c", command])
        assert done.returncode == 0, done.stdout
        if " replay " in f" {command} ":
            self._await_arrival()
        return plain(done.stdout.splitlines())

    def stop(self) -> None:
        self._run(["hourline", "down"])

    def _await_arrival(self) -> None:
        deadline = time.monotonic() + PATIENCE
        while any(
            source["lag"]
            for source in json.loads(self._run(["hourline", "status", "--format", "json"]).stdout)["sources"]
        ):
            assert time.monotonic() < deadline, "the speed layer does not catch up"

    def _run(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )


def test_each_command_prints_what_the_tutorial_says(tmp_path: Path) -> None:
    tour = Tour(tmp_path)
    try:
        for command, expected in commands(TUTORIAL):
            assert tour.type(command) == expected, command
    finally:
        tour.stop()
    for code in blocks(TUTORIAL, "python"):
        done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0 and done.stdout, done.stderr
