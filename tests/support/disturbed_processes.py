"""The processes of a project that the soak disturbs: it starts them, and holds each to the end that it must have."""

import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from tests.support.speed_process import PATIENCE, SpeedProcess, alive, descendants, wait_until
from tests.support.stack_project import StackProject

# Few processes live for the 200 micro-batches that lie between two times of maintenance.
_OFTEN_TIDIED = (
    "-c",
    "from speed_layer.commit import maintenance; maintenance.MICRO_BATCHES = 8; maintenance.MERGED = 3; from hourline.cli import main; main()",
)

Ending = Callable[[SpeedProcess, random.Random], SpeedProcess | None]
"""What is done to a speed layer, with the random choices of its loop; the one that runs then, if one does."""


class DisturbedProcesses:
    """Those of ``project``. Nothing waits for them any more once ``over`` is set. A process that ends otherwise than it
    was made to raises AssertionError.
    """

    def __init__(self, project: StackProject, over: threading.Event) -> None:
        self.project = project
        self.over = over
        self.counts: Counter[str] = Counter()
        """What has happened, and how often."""
        self.workspaces: list[list[str]] = [[], ["--workspace", str(Path(project.root) / "other")]]
        """As options. The speed layer has the first one."""
        self._started: list[SpeedProcess] = []
        self._counting = threading.Lock()

    def note(self, what: str, about: str = "") -> None:
        """Count it, and say so."""
        with self._counting:
            self.counts[what] += 1
            say(f"{what}{about and ': '}{about}")

    def speed(self, *options: str, failpoint: str = "") -> SpeedProcess:
        """A speed layer."""
        return self.start(*options, *self.workspaces[0], failpoint=failpoint)

    def start(self, *options: str, command: str = "speed", failpoint: str = "") -> SpeedProcess:
        """A process with any command."""
        process = SpeedProcess(self.project, *options, command=command, program=_OFTEN_TIDIED, failpoint=failpoint)
        self._started.append(process)
        return process

    def has_ended(self, process: SpeedProcess, seconds: float) -> bool:
        """Whether it ends by itself within ``seconds``; its family is known up to then."""
        deadline = time.monotonic() + seconds
        while process.process.poll() is None and time.monotonic() < deadline:
            process.family = descendants(process.process.pid) or process.family
            time.sleep(0.5)
        return process.process.poll() is not None

    def lives(self, process: SpeedProcess, seconds: float) -> None:
        """It lives on for ``seconds``."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not self.over.is_set():
            assert not self.has_ended(process, 0.3), (
                f"ended by itself with status {process.process.returncode}: {last_lines(process)}"
            )

    def kill(self, process: SpeedProcess, what: str) -> None:
        """It still runs, and is killed."""
        assert process.process.poll() is None, (
            f"ended by itself with status {process.process.returncode}: {last_lines(process)}"
        )
        process.family = descendants(process.process.pid)
        process.kill()
        self.note(what)

    def stop(self, process: SpeedProcess) -> None:
        """It ends well when it is told to."""
        process.process.send_signal(signal.SIGTERM)
        assert process.wait() == 0, last_lines(process)
        wait_until(lambda: not alive(process.family), f"{process.family} outlive their parent {process.process.pid}")
        self.note("speed stopped")

    def ends_as(self, process: SpeedProcess, command: str, place: str = "", status: int = 0) -> None:
        """It ends by itself: killed at ``place`` or, when it never came there, with ``status``."""
        assert self.has_ended(process, PATIENCE), f"{command} does not end: {last_lines(process)}"
        ended = process.process.returncode
        wait_until(lambda: not alive(process.family), f"{process.family} outlive their parent {process.process.pid}")
        if place and ended == -signal.SIGKILL:
            self.note(f"{command} killed at a place", place)
            return
        assert ended == status, f"{command} ended with status {ended} (to be killed {place}): {last_lines(process)}"
        published = [line.strip() for line in process.lines if line.startswith("published")]
        self.note(f"{command} ended {'as it must' if status else 'well'}", "; ".join(published))

    def end(self) -> None:
        """End all that still runs, frozen or not, and wait until nothing of it is left."""
        for process in list(self._started):
            if process.process.poll() is None:
                process.family = descendants(process.process.pid)
                process.kill()


def say(text: str) -> None:
    """A line of the log."""
    sys.stdout.write(f"{datetime.now(UTC):%H:%M:%S} {text}\n")
    sys.stdout.flush()


def last_lines(process: SpeedProcess) -> str:
    """What it has said last."""
    return "".join(process.lines[-12:])
