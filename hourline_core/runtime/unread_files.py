"""The files that a running speed layer has not read, by source: a note in the workspace, for whoever asks.

<workspace>/run/files/<source>.json
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

from hourline_core.runtime.lease import lease_holder
from hourline_core.runtime.notes import note_file, read_note, write_note

MOST_TOLD = 100
"""The maximum number of files that are named."""


@dataclass(frozen=True)
class HeldFile:
    """A file, a folder or a commit that is not read as it is."""

    name: str
    reason: str
    """Why, as a sentence."""
    since: datetime
    """Since when (UTC)."""


@dataclass(frozen=True)
class UnreadFiles:
    """What a source has not read of the files that have arrived."""

    waiting: int = 0
    """The number of files that are not read yet."""
    left_out: int = 0
    """The number of files that have the bytes of another one, which was read."""
    held_files: int = 0
    """The number of files that are not read as they are."""
    held: Sequence[HeldFile] = ()
    """The first of them, at most MOST_TOLD."""


def note_unread_files(workspace: Path, source: str, unread: UnreadFiles) -> None:
    """Note them for this process, which holds the lease "speed". A full disk stops nobody for the sake of this note."""
    held = [{**asdict(one), "since": one.since.isoformat()} for one in unread.held]
    with suppress(OSError):
        write_note(_file(workspace, source), {**vars(unread), "held": held})


def find_unread_files(workspace: Path, source: str) -> UnreadFiles | None:
    """What was noted last. None: the speed layer does not run, or has not looked yet."""
    noted = read_note(_file(workspace, source))
    if noted is None or noted["pid"] != lease_holder(workspace, "speed"):
        return None
    held = [HeldFile(one["name"], one["reason"], datetime.fromisoformat(one["since"])) for one in noted["held"]]
    return UnreadFiles(noted["waiting"], noted["left_out"], noted["held_files"], held)


def _file(workspace: Path, source: str) -> Path:
    return note_file(workspace, f"files/{source}")
