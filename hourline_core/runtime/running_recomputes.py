"""Recomputes that run: each leaves a note about how far it is in the workspace, for whoever asks.

<workspace>/run/recomputes/<id>.lock    held as long as the recompute runs, so that a killed one is known
<workspace>/run/recomputes/<id>.json    the note
"""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from hourline_core.runtime.file_lock import hold_lock, holder
from hourline_core.runtime.notes import delete_note, read_note, write_note


class Work(NamedTuple):
    """What a recompute has to do, or has done."""

    hours: int
    events: int
    """Over all sources; an event of several metrics counts once."""


class DecodedChunk(NamedTuple):
    """A chunk of archived records that was decoded anew, before hours are recomputed."""

    source: str
    events: int
    """The number of its events."""
    number: int
    """The first chunk is 1."""
    chunks: int
    """The number of all chunks of the source that were left."""
    left: timedelta
    """The estimated time for those that are left now."""

    @property
    def words(self) -> str:
        """How far decoding anew is: `clicks, chunk 2 of 5`."""
        return f"{self.source}, chunk {self.number:,} of {self.chunks:,}"


@dataclass(frozen=True)
class RecomputeProgress:
    """How far a recompute is."""

    at: datetime
    """When this was so (UTC)."""
    done: Work
    """Also what an interrupted backfill had done before."""
    all: Work
    left: timedelta | None
    """The estimated time that is left. None: it is not known."""
    decoding: str | None = None
    """The last chunk of records that was decoded anew, in words. None: there is none, or hours are recomputed."""


@dataclass(frozen=True)
class RunningRecompute:
    """A recompute that runs."""

    process: int
    command: str
    task: str | None
    """The task of Airflow that runs the command."""
    since: datetime
    """When it began (UTC)."""
    progress: RecomputeProgress


@contextmanager
def noting_recompute(workspace: Path, command: str, since: datetime) -> Iterator[Callable[[RecomputeProgress], None]]:
    """Yield a function that notes how far the recompute within the block is. ``since`` is its begin (UTC). No note is
    left after it. Where notes cannot be written, there are none, and the recompute goes on.
    """
    folder = _folder(workspace)
    lock = folder / f"{uuid4().hex}.lock"
    file, task = lock.with_suffix(".json"), airflow_task()

    def note(progress: RecomputeProgress) -> None:
        ends = progress.at + progress.left if progress.left else None
        said = {
            "command": command,
            "task": task,
            "since": since.isoformat(),
            "at": progress.at.isoformat(),
            "done": progress.done,
            "all": progress.all,
            "ends": ends.isoformat() if ends else None,
            "decoding": progress.decoding,
        }
        with suppress(OSError):
            write_note(file, said)

    with ExitStack() as held:
        with suppress(OSError):
            _delete_leftovers(folder)
            held.enter_context(hold_lock(lock, "has the lock of another recompute"))
        try:
            yield note
        finally:
            _delete(file)


def list_recomputes(workspace: Path, now: datetime) -> list[RunningRecompute]:
    """The recomputes that run ``now`` (UTC), the one that began first at the beginning. Raises OSError."""
    running = []
    for file in _folder(workspace).glob("*.json"):
        said = read_note(file)
        if said is None or holder(file.with_suffix(".lock")) is None:
            continue  # It has ended, or was killed.
        ends = datetime.fromisoformat(said["ends"]) if said["ends"] else None
        progress = RecomputeProgress(
            datetime.fromisoformat(said["at"]),
            Work(*said["done"]),
            Work(*said["all"]),
            ends - now if ends and ends > now else None,
            said["decoding"],
        )
        since = datetime.fromisoformat(said["since"])
        running.append(RunningRecompute(said["pid"], said["command"], said["task"], since, progress))
    return sorted(running, key=lambda one: (one.since, one.process))


def airflow_task() -> str | None:
    """The task of Airflow that runs this process, such as `shop.backfill.recompute`. Airflow tells it in the
    environment.
    """
    dag, task = (os.environ.get(f"AIRFLOW_CTX_{name}_ID") for name in ("DAG", "TASK"))
    return f"{dag}.{task}" if dag and task else None


def _delete_leftovers(folder: Path) -> None:
    """Delete the notes of recomputes that were killed."""
    for file in folder.glob("*.json"):
        if holder(file.with_suffix(".lock")) is None:
            _delete(file)


def _delete(file: Path) -> None:
    for leftover in (file, file.with_name(f"{file.name}.partial"), file.with_suffix(".lock")):
        with suppress(OSError):
            delete_note(leftover)


def _folder(workspace: Path) -> Path:
    return workspace / "run" / "recomputes"
