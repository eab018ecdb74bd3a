"""The last time without Kafka that a running speed layer has seen: a note in the workspace, for whoever asks. It is
written when Kafka goes, and again when it is back.
"""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from hourline_core.runtime.lease import lease_holder
from hourline_core.runtime.notes import delete_note, note_file, read_note, write_note

_NOTE = "kafka-away"


@dataclass(frozen=True)
class KafkaAbsence:
    """A time in which Kafka did not answer, or did not allow what it must."""

    since: datetime
    """When it was asked first and did not answer (UTC)."""
    reason: str
    """What was wrong, as a sentence."""
    until: datetime | None = None
    """When it answered again (UTC). None: it is still away."""


def note_absence(workspace: Path, absence: KafkaAbsence | None) -> None:
    """Note the ``absence`` for this process, which holds the lease "speed". None: there was none yet."""
    if absence is None:
        delete_note(note_file(workspace, _NOTE))
        return
    until = absence.until.isoformat() if absence.until else None
    write_note(
        note_file(workspace, _NOTE), {"since": absence.since.isoformat(), "until": until, "reason": absence.reason}
    )


def last_absence(workspace: Path) -> KafkaAbsence | None:
    """The last absence that the running speed layer has seen. None: it has seen none, or does not run."""
    noted = read_note(note_file(workspace, _NOTE))
    if noted is None or noted["pid"] != lease_holder(workspace, "speed"):
        return None  # The second one is left over from a process that has ended.
    until = datetime.fromisoformat(noted["until"]) if noted["until"] else None
    return KafkaAbsence(datetime.fromisoformat(noted["since"]), noted["reason"], until)
