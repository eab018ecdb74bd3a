"""Reads the table of a lookup again, and commits what is new. A refresh is taken as a whole, or not at all.

<workspace>/run/lookups/<name>.json    how the last refresh has ended
"""

from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from hourline_core.errors import ConflictError, TableError
from hourline_core.ledger.layout import Layout
from hourline_core.lookups.read_source import read_source, state_of
from hourline_core.lookups.read_table import read_table, refuse_too_many
from hourline_core.lookups.rows import LookupRows, take_rows
from hourline_core.lookups.versions import LookupVersion, commit_version, find_newest, open_versions
from hourline_core.model import Lookup, Project
from hourline_core.model.hours import Clock
from hourline_core.runtime.notes import note_file, read_note, write_note

_ATTEMPTS = 5
"""The number of times that a table is read, if other processes commit each time. Then a version of theirs counts."""


@dataclass(frozen=True)
class LookupState:
    """How a lookup is."""

    lookup: Lookup
    version: LookupVersion | None
    """The newest one, which is used. None: its table was never read."""
    refreshed: datetime | None
    """When its table was last read without a problem (UTC). None: never, or it is not known."""
    null_keys: int | None = None
    """The number of rows with a null in their key that it had then. They join nothing, and are left out."""
    problem: str | None = None
    """Why the last refresh was refused, in one sentence. None: it was not."""
    content: str | None = None
    """Of a source, what was read of it then. None: it is another kind of table, or nothing was read."""


def read_rows(project: Project, lookup: Lookup) -> LookupRows:
    """The rows of the table of a lookup, as it is now. Raises TableError."""
    if lookup.table_source:
        events, null_keys = read_source(project, lookup)
        refuse_too_many(lookup, events.num_rows)
        return take_rows(lookup, [events], project.workspace)._replace(null_keys=null_keys)
    read = read_table(lookup, project.root, project.settings.storage_options)
    found = take_rows(lookup, read, project.workspace)
    if not found.rows.num_rows and not lookup.allow_empty:
        raise TableError(
            f"{lookup.table} has no row with a key, allowed is one or more: fill it, or declare allow_empty: true"
        )
    return found


def find_unusable(project: Project) -> list[str]:
    """A line for each lookup whose table cannot be used as it is now."""
    mistakes = []
    for name, lookup in sorted(project.lookups.items()):
        try:
            read_rows(project, lookup)
        except TableError as error:
            mistakes.append(f"{project.where_declared('lookup', name, ('table',))}: table: {error}")
    return mistakes


def refresh(project: Project, lookup: Lookup, clock: Clock) -> LookupState:
    """Read the table of a lookup again. If it cannot be used, the newest version before stays, and the state says why.
    ``clock`` (UTC) dates the refresh. Raises TableError if a table of Hourline's own cannot be read.
    """
    for _ in range(_ATTEMPTS):
        try:
            state = _read_and_commit(project, lookup, clock)
            break
        except ConflictError:
            continue  # What another process has committed meanwhile may be newer than what was read here.
    else:
        state = replace(read_state(project, lookup), problem=None)
    said = {
        "declaration": lookup.declaration,
        "refreshed": state.refreshed and state.refreshed.isoformat(),
        "null_keys": state.null_keys,
        "problem": state.problem,
        "content": state.content,
    }
    with suppress(OSError):  # A full disk stops nobody for the sake of this note.
        write_note(_note(project, lookup), said)
    return state


def _read_and_commit(project: Project, lookup: Lookup, clock: Clock) -> LookupState:
    """Raises TableError, and ConflictError when another process has committed since this began."""
    layout, known = Layout.of(project), read_state(project, lookup)
    content = state_of(project, lookup) if lookup.table_source else None
    if content and content == known.content and known.version:
        return replace(known, refreshed=clock(), problem=None)
    before = open_versions(layout, lookup)
    try:
        read = read_rows(project, lookup)
    except TableError as error:
        return replace(read_state(project, lookup), problem=str(error))
    version = commit_version(layout, lookup, before, read.rows)
    return LookupState(lookup, version, clock(), read.null_keys, content=content)


def read_state(project: Project, lookup: Lookup) -> LookupState:
    """How the lookup is, by what was committed and noted last. Raises TableError."""
    version, said = find_newest(Layout.of(project), lookup), None
    with suppress(OSError):
        said = read_note(_note(project, lookup))
    if not said or said.get("declaration") != lookup.declaration:
        return LookupState(lookup, version, None)
    refreshed = said["refreshed"]
    return LookupState(
        lookup,
        version,
        refreshed and datetime.fromisoformat(refreshed),
        said["null_keys"],
        said["problem"],
        said.get("content"),
    )


def _note(project: Project, lookup: Lookup) -> Path:
    return note_file(project.workspace, f"lookups/{lookup.name}")
