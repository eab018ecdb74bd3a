"""The sources of a running speed layer that wait for the schema registry: a note in the workspace, for whoever asks."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from hourline_core.runtime.lease import lease_holder
from hourline_core.runtime.notes import delete_note, note_file, read_note, write_note

_NOTE = "registry-away"


@dataclass(frozen=True)
class RegistryAbsence:
    """A time in which a source needs a schema that the registry does not tell."""

    since: datetime
    """When the source began to wait (UTC)."""
    reason: str
    """What is wrong, as a sentence."""


def note_registry_absences(workspace: Path, absences: Mapping[str, RegistryAbsence]) -> None:
    """Note for this process, which holds the lease "speed", which sources wait, by name."""
    if not absences:
        delete_note(note_file(workspace, _NOTE))
        return
    sources = {name: {"since": one.since.isoformat(), "reason": one.reason} for name, one in absences.items()}
    write_note(note_file(workspace, _NOTE), {"sources": sources})


def registry_absences(workspace: Path) -> dict[str, RegistryAbsence]:
    """The sources that wait, by name. Empty: none does, or the speed layer does not run."""
    noted = read_note(note_file(workspace, _NOTE))
    if noted is None or noted["pid"] != lease_holder(workspace, "speed"):
        return {}
    return {
        name: RegistryAbsence(datetime.fromisoformat(one["since"]), one["reason"])
        for name, one in noted["sources"].items()
    }
