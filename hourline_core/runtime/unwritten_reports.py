"""Whether the reports could be written last: a note in the workspace, for whoever asks."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from hourline_core.runtime.notes import delete_note, note_file, read_note, write_note

_NOTE = "unwritten-reports"


@dataclass(frozen=True)
class UnwrittenReports:
    """Reports that could not be written."""

    since: datetime
    """Since when (UTC)."""
    reason: str
    """One sentence: why, when it was tried last."""


def note_unwritten(workspace: Path, at: datetime, reason: str) -> None:
    """Note that the reports could not be written at a moment (UTC), and why. Raises OSError."""
    earlier = last_unwritten(workspace)
    since = earlier.since if earlier else at
    write_note(note_file(workspace, _NOTE), {"since": since.isoformat(), "reason": reason})


def forget_unwritten(workspace: Path) -> None:
    """All reports are written. Raises OSError."""
    delete_note(note_file(workspace, _NOTE))


def last_unwritten(workspace: Path) -> UnwrittenReports | None:
    """The reports that are not written. None: all are. Raises OSError."""
    noted = read_note(note_file(workspace, _NOTE))
    return UnwrittenReports(datetime.fromisoformat(noted["since"]), noted["reason"]) if noted else None
