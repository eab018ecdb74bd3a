"""What the README shows is what happens: its tour is run in order in a fresh folder, and its Python too."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests.support.readme import blocks

PATIENCE = 60.0
# What differs from run to run.
VOLATILE = [
    (r"127\.0\.0\.1:\d+", "ADDRESS"),
    (r"process \d+", "PROCESS"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "MOMENT"),
    (r"in \d+\.\d s: [\d,]+ records/s", "PACE"),
    (r"^(pageviews) +\d+", r"\1 SEQUENCE"),
]


def commands() -> Iterator[tuple[str, list[str]]]:
    """Each command of the tour, and the lines it is said to print."""
    for block in blocks("console"):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *output = part.splitlines()
            yield command, plain(output)


def plain(lines: list[str]) -> list[str]:
    """Without what differs from run to run, the widths of columns, and empty lines."""
    cleaned = []
    for line in lines:
        text = line
        for pattern, word in VOLATILE:
            text = re.sub(pattern, word, text)
        cleaned.append(" ".join(text.split()))
    return [line for line in cleaned if line]


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


def test_the_tour_prints_what_the_readme_says(tmp_path: Path) -> None:
    tour = Tour(tmp_path)
    try:
        for command, expected in commands():
            assert tour.type(command) == expected, command
    finally:
        tour.stop()
    for code in blocks("python"):
        done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0 and done.stdout, done.stderr
