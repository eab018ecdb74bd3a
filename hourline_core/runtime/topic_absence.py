"""The deleted topics that a running speed layer waits for: a note in the workspace, for whoever asks."""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from hourline_core.runtime.lease import lease_holder
from hourline_core.runtime.notes import delete_note, note_file, read_note, write_note

_NOTE = "topics-away"


def note_absent_topics(workspace: Path, since: Mapping[str, datetime]) -> None:
    """Note for this process, which holds the lease "speed", by topic when it was found to be deleted (UTC)."""
    if not since:
        delete_note(note_file(workspace, _NOTE))
        return
    write_note(note_file(workspace, _NOTE), {"since": {topic: moment.isoformat() for topic, moment in since.items()}})


def absent_topics(workspace: Path) -> dict[str, datetime]:
    """By topic, since when (UTC) the running speed layer waits for it. Empty: it waits for none, or does not run."""
    noted = read_note(note_file(workspace, _NOTE))
    if noted is None or noted["pid"] != lease_holder(workspace, "speed"):
        return {}
    return {topic: datetime.fromisoformat(moment) for topic, moment in noted["since"].items()}
