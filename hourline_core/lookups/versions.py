"""The table of ours with the rows of a lookup. Each content that was read is a version of it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from pyarrow.fs import FileType

from hourline_core.errors import TableError
from hourline_core.ledger.layout import Layout
from hourline_core.lookups.rows import is_same, schema_of
from hourline_core.model import Lookup
from hourline_core.model.times import duration_text
from hourline_core.storage import commits
from hourline_core.storage.creation import open_or_create
from hourline_core.storage.data_files import file_system
from hourline_core.storage.opening import exists, open_table
from hourline_core.storage.vacuum import list_vacuumable, vacuum
from hourline_core.storage.version_retention import KEPT_HOURS, PUBLISHED

_CONTENT = "hourline-lookup"
"""The application id under which a commit records its own version. Others, such as a vacuum's, change no row."""
_ROWS = "hourline.rows"
"""In the history of the table, the number of rows of a version. Other commits have none."""


@dataclass(frozen=True)
class LookupVersion:
    """A content of a lookup."""

    number: int
    """The version of the table."""
    committed: datetime
    """When it was committed (UTC)."""
    rows: int


def find_newest(layout: Layout, lookup: Lookup) -> LookupVersion | None:
    """The newest version. None: the table was never read. Raises TableError."""
    uri = layout.lookup(lookup)
    return _newest(open_table(uri, layout.storage_options)) if exists(uri, layout.storage_options) else None


def find_version_at(layout: Layout, lookup: Lookup, moment: datetime) -> LookupVersion | None:
    """The version that was the newest one at ``moment`` (UTC), as far back as the log of the table goes. None: there
    was none. Raises TableError.
    """
    uri = layout.lookup(lookup)
    if not exists(uri, layout.storage_options):
        return None
    told = (one for one in open_table(uri, layout.storage_options).history() if _ROWS in one)
    return next((found for one in told if (found := _version(one)).committed <= moment), None)


def read_version(layout: Layout, lookup: Lookup, number: int) -> pa.Table:
    """The rows of a version, sorted. Raises TableError if it is no longer kept."""
    table = open_table(layout.lookup(lookup), layout.storage_options, number)
    if not _is_whole(table):
        kept = duration_text(lookup.kept_for) if lookup.kept_for else "for ever"
        raise TableError(
            f"version {number} of lookup '{lookup.name}' is no longer kept: `keep` in lookups/{lookup.name}.yaml says "
            f"how long (now {kept}); a recompute of its hours uses the newest version"
        )
    return table.to_pyarrow_table().select(list(lookup.columns)).cast(schema_of(lookup))


def is_kept(layout: Layout, lookup: Lookup, number: int) -> bool:
    """Whether the rows of a version can be read."""
    try:
        return _is_whole(open_table(layout.lookup(lookup), layout.storage_options, number))
    except TableError:
        return False


def open_versions(layout: Layout, lookup: Lookup) -> DeltaTable:
    """The table of versions as it is now, for ``commit_version``. Raises TableError."""
    uri, options = layout.lookup(lookup), layout.storage_options
    return open_or_create(uri, options, "lookups", schema_of(lookup), PUBLISHED, f"rows of lookup {lookup.name}")


def commit_version(layout: Layout, lookup: Lookup, table: DeltaTable, rows: pa.Table) -> LookupVersion:
    """The newest version, which has the sorted ``rows``: a new one, unless the one before has the same. Versions that
    were replaced longer ago than they are kept for are deleted. ``table`` was opened before the rows were read.

    Raises TableError, and ConflictError when another process has committed since then.
    """
    newest = _newest(table)
    if newest and is_same(read_version(layout, lookup, newest.number), rows):
        return newest
    number = table.version() + 1
    commits.overwrite(table, rows, None, {"rows": rows.num_rows}, writers=[_CONTENT], sequence=number)
    committed = _newest(table)
    assert committed, "it has just been committed"
    if lookup.kept_for is not None:
        hours = max(KEPT_HOURS, math.ceil(lookup.kept_for / timedelta(hours=1)))
        if list_vacuumable(table, hours):
            vacuum(table, hours)
    return committed


def _is_whole(table: DeltaTable) -> bool:
    """Whether a vacuum has left all its files."""
    files = file_system(table).get_file_info([add["path"] for add in pa.table(table.get_add_actions()).to_pylist()])
    return all(file.type == FileType.File for file in files)


def _newest(table: DeltaTable) -> LookupVersion | None:
    number = table.transaction_version(_CONTENT)
    if number is None:
        return None
    return _version(next(one for one in table.history() if one["version"] == number))


def _version(told: Mapping[str, Any]) -> LookupVersion:
    """A version by its entry in the history of the table."""
    committed = datetime.fromtimestamp(told["timestamp"] / 1000, UTC)
    return LookupVersion(told["version"], committed, int(told[_ROWS]))
