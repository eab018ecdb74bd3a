"""The last time without Kafka that a running speed layer has seen: a note in the workspace, for whoever asks.

<workspace>/run/kafka-away.json     written when Kafka goes, and again when it is back
"""

import json
import os
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from hourline_core.runtime.lease import lease_holder


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
    file = _file(workspace)
    if absence is None:
        file.unlink(missing_ok=True)
        return
    noted = {
        "pid": os.getpid(),
        "since": absence.since.isoformat(),
        "until": absence.until.isoformat() if absence.until else None,
        "reason": absence.reason,
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_suffix(".partial")
    partial.write_text(json.dumps(noted), encoding="utf-8")
    partial.replace(file)


def last_absence(workspace: Path) -> KafkaAbsence | None:
    """The last absence that the running speed layer has seen. None: it has seen none, or does not run."""
    try:
        noted = json.loads(_file(workspace).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    if noted["pid"] != lease_holder(workspace, "speed"):
        return None  # left over from a process that has ended
    until = datetime.fromisoformat(noted["until"]) if noted["until"] else None
    return KafkaAbsence(datetime.fromisoformat(noted["since"]), noted["reason"], until)


def _file(workspace: Path) -> Path:
    return workspace / "run" / "kafka-away.json"
