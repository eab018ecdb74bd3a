"""How the last speed layer has ended: a note in the workspace, for whoever asks. It is written at a start, gets the
reason of an end that nobody wanted, and is deleted at any other end.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from hourline_core.runtime.lease import lease_holder
from hourline_core.runtime.notes import delete_note, note_file, read_note, write_note

_NOTE = "speed-end"


@dataclass(frozen=True)
class SpeedEnd:
    """An end of the speed layer that nobody wanted."""

    at: datetime | None
    """When it was (UTC). None: the process was killed, and could not note it."""
    reason: str | None
    """The sentence that it ended with. None, as ``at``."""


@contextmanager
def noting_end(workspace: Path) -> Iterator[None]:
    """Within the block, this process is the speed layer, and holds the lease "speed". If the block raises an error,
    ``note_end`` is to note it.
    """
    with suppress(OSError):  # The disk may be full. Whatever else is written there says so.
        write_note(note_file(workspace, _NOTE), {"at": None, "reason": None})
    is_wanted = True
    try:
        yield
    except KeyboardInterrupt:
        raise
    except BaseException:
        is_wanted = False
        raise
    finally:
        if is_wanted:
            with suppress(OSError):
                delete_note(note_file(workspace, _NOTE))


def note_end(workspace: Path, at: datetime, reason: str) -> None:
    """Note when (UTC) this process ends with the sentence ``reason``, if it was the last speed layer."""
    with suppress(OSError):
        noted = read_note(note_file(workspace, _NOTE))
        if noted and noted["pid"] == os.getpid():
            write_note(note_file(workspace, _NOTE), {"at": at.isoformat(), "reason": reason})


def last_end(workspace: Path) -> SpeedEnd | None:
    """The end of the last speed layer. None: it was told to stop, still runs, or has never run."""
    noted = read_note(note_file(workspace, _NOTE))
    if noted is None or noted["pid"] == lease_holder(workspace, "speed"):
        return None
    return SpeedEnd(datetime.fromisoformat(noted["at"]) if noted["at"] else None, noted["reason"])
