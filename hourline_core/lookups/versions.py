"""The table of ours with the rows of a lookup. Each content that was read is a version of it."""

import hashlib
import json
import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable
from pyarrow.fs import FileType

from hourline_core.errors import ConflictError, TableError
from hourline_core.ledger.layout import Layout
from hourline_core.lookups.rows import schema_of
from hourline_core.lookups.version_files import find_changed, read_rows, scan_rows, write_files
from hourline_core.model import Lookup
from hourline_core.model.times import duration_text
from hourline_core.storage.commit_log import removed_files
from hourline_core.storage.creation import open_or_create
from hourline_core.storage.data_files import damage_of, data_files, file_system
from hourline_core.storage.new_files import NewFile, delete_files, exchange_files, overwrite_files
from hourline_core.storage.opening import Table, exists, open_table
from hourline_core.storage.vacuum import list_vacuumable, vacuum
from hourline_core.storage.version_retention import KEPT_HOURS, PUBLISHED

_CONTENT = "hourline-lookup"
"""With a hash of what a declaration says of rows, the application id under which a commit records its own version.
Commits of other declarations, and a vacuum's, have none of it.
"""
_MEANING = "hourline-lookup-rows"
"""The same, with a hash of what it says of keys and validity."""
_ROWS = "hourline.rows"
"""In the history of the table, the number of rows of a version. Other commits have none."""
_DECLARATION = "hourline.declaration"
"""In the history of the table, the hash of the declaration that has read a version."""


@dataclass(frozen=True)
class LookupVersion:
    """A content of a lookup."""

    number: int
    """The version of the table."""
    committed: datetime
    """When it was committed (UTC)."""
    rows: int


def find_newest(layout: Layout, lookup: Lookup) -> LookupVersion | None:
    """The newest version as it is declared. None: the table was never read so, or that version is no longer kept.
    Raises TableError.
    """
    uri, options = layout.lookup(lookup), layout.storage_options
    if not exists(uri, options):
        return None
    newest = _newest(open_table(uri, options), lookup)
    # Another declaration may have replaced it long ago.
    return newest if newest and is_kept(layout, lookup, newest.number) else None


def find_version_at(layout: Layout, lookup: Lookup, moment: datetime) -> LookupVersion | None:
    """The version that was the newest one at ``moment`` (UTC) as it is declared, as far back as the log of the table
    goes. None: there was none. Raises TableError.
    """
    uri = layout.lookup(lookup)
    if not exists(uri, layout.storage_options):
        return None
    history = open_table(uri, layout.storage_options).history()
    told = (one for one in history if one.get(_DECLARATION) == lookup.declaration)
    return next((found for one in told if (found := _version(one)).committed <= moment), None)


def read_version(layout: Layout, lookup: Lookup, number: int) -> pa.Table:
    """The rows of a version. A column that was declared since is null. Raises TableError as ``open_version``
    does.
    """
    return read_rows(open_version(layout, lookup, number), lookup)


@contextmanager
def scan_differing(layout: Layout, lookup: Lookup, numbers: tuple[int, int]) -> Iterator[tuple[ds.Dataset, ds.Dataset]]:
    """The rows of two versions, without those of files that both have. They are read within the block. Raises
    TableError as ``open_version`` and ``naming_damage`` do.
    """
    first, second = (open_version(layout, lookup, number) for number in numbers)
    both = set(data_files(first)) & set(data_files(second))
    with naming_damage(first, lookup), naming_damage(second, lookup):
        yield scan_rows(first, lookup, without=both), scan_rows(second, lookup, without=both)


def open_version(layout: Layout, lookup: Lookup, number: int) -> Table:
    """The table at a version. Raises TableError if its rows are no longer kept, or were read by a declaration with
    other keys or types.
    """
    table = open_table(layout.lookup(lookup), layout.storage_options, number)
    if not _is_readable(table, lookup, number):
        raise TableError(
            f"version {number} of lookup '{lookup.name}' was read by another declaration: its key, validity or types "
            f"are not those of lookups/{lookup.name}.yaml"
        )
    refuse_deleted(table, lookup)
    return table


def refuse_deleted(table: DeltaTable, lookup: Lookup) -> None:
    """Raise TableError if a vacuum has deleted files of the version that ``table`` is open at."""
    if not _is_whole(table):
        kept = duration_text(lookup.kept_for) if lookup.kept_for else "for ever"
        raise TableError(
            f"version {table.version()} of lookup '{lookup.name}' is no longer kept: `keep` in "
            f"lookups/{lookup.name}.yaml says how long (now {kept}); a recompute of its hours uses the newest version"
        )


@contextmanager
def naming_damage(table: Table, lookup: Lookup) -> Iterator[None]:
    """Within the block, raise TableError if files of the version that ``table`` is open at were deleted, or cannot be
    read.
    """
    try:
        yield
    except duckdb.OutOfMemoryException:
        raise
    except (duckdb.Error, OSError, pa.ArrowInvalid) as error:
        refuse_deleted(table, lookup)
        if damage := damage_of(table):
            raise TableError(damage) from error
        raise


def is_kept(layout: Layout, lookup: Lookup, number: int) -> bool:
    """Whether the rows of a version can be read as the lookup is declared."""
    try:
        table = open_table(layout.lookup(lookup), layout.storage_options, number)
        return _is_readable(table, lookup, number) and _is_whole(table)
    except TableError:
        return False


def find_kept(layout: Layout, lookup: Lookup, numbers: Collection[int]) -> set[int]:
    """Those of these versions that ``is_kept`` tells, as if the oldest ones were deleted first. Raises TableError."""
    if not numbers:
        return set()
    history = open_table(layout.lookup(lookup), layout.storage_options).history()
    declared = {one["version"]: one.get(_DECLARATION) for one in history}
    by_declaration = defaultdict[str | None, list[int]](list)
    for number in sorted(numbers):
        by_declaration[declared.get(number)].append(number)
    kept = set[int]()
    # To ask for each costs about 10 ms. Versions of one declaration differ by their age alone.
    for those in by_declaration.values():
        kept.update(those[bisect_left(those, True, key=lambda number: is_kept(layout, lookup, number)) :])
    return kept


def open_versions(layout: Layout, lookup: Lookup) -> DeltaTable:
    """The table of versions as it is now, for ``commit_version``. Raises TableError."""
    uri, options = layout.lookup(lookup), layout.storage_options
    if not exists(uri, options):
        open_or_create(uri, options, "lookups", schema_of(lookup), PUBLISHED, f"rows of lookup {lookup.name}")
    return open_table(uri, options)


def commit_version(layout: Layout, lookup: Lookup, table: DeltaTable, rows: pa.Table) -> LookupVersion:
    """The newest version, which has the sorted ``rows``: a new one, unless the last one of the table is of this
    declaration and has the same. Versions that were replaced longer ago than they are kept for are deleted. ``table``
    was opened before the rows were read.

    All declarations of a lookup have one table, so no number comes twice. Raises TableError, and ConflictError when
    another process has committed since then.
    """
    newest = _newest(table, lookup)
    # Files that another declaration has replaced count as unused since then, so a vacuum would delete them.
    is_last = newest is not None and newest.number == _last_content(table)
    number = table.version() + 1
    said = {"rows": rows.num_rows, "declaration": lookup.declaration}
    writers = [_content(lookup), _meaning(lookup)]
    if newest and is_last and is_kept(layout, lookup, newest.number):
        before = open_version(layout, lookup, newest.number)
        with naming_damage(before, lookup):
            changed = find_changed(before, lookup, rows)
        if not changed:
            return newest
        files = [file for one in changed for file in write_files(layout, lookup, one.rows)]
        with _deleting_on_conflict(layout, lookup, files):
            exchange_files(table, [one.path for one in changed if one.path], files, said, writers, number)
    else:
        files = list(write_files(layout, lookup, rows))
        with _deleting_on_conflict(layout, lookup, files):
            overwrite_files(table, files, rows.schema, said, writers, number)
    committed = _newest(table, lookup)
    assert committed, "it has just been committed"
    if lookup.kept_for is not None:
        _delete_replaced(table, max(KEPT_HOURS, math.ceil(lookup.kept_for / timedelta(hours=1))), committed.committed)
    return committed


@contextmanager
def _deleting_on_conflict(layout: Layout, lookup: Lookup, files: Collection[NewFile]) -> Iterator[None]:
    """Delete ``files`` if their commit within the block loses against that of another process."""
    try:
        yield
    except ConflictError:
        with suppress(OSError, TableError):  # A vacuum deletes them in time.
            newest = open_table(layout.lookup(lookup), layout.storage_options)
            # An object store may have taken the commit before it refused it.
            named = set(data_files(newest))
            delete_files(newest, [file for file in files if file.path not in named])
        raise


def _delete_replaced(table: DeltaTable, hours: int, now: datetime) -> None:
    """Delete the files that were replaced more than ``hours`` before ``now`` (UTC)."""
    # A checkpoint forgets files that were replaced a week ago. A vacuum then knows only when they were written.
    if old := {file.path for file in list_vacuumable(table, hours)}:
        vacuum(table, hours, _find_versions_with(table, old, now - timedelta(hours=hours)))


def _find_versions_with(table: DeltaTable, paths: Collection[str], since: datetime) -> set[int]:
    """The last versions with those of the data files ``paths`` that were replaced after ``since`` (UTC)."""
    files = file_system(table)
    commits = (one["version"] for one in table.history() if _time_of(one) > since)
    return {number - 1 for number in commits if not removed_files(files, number).isdisjoint(paths)}


def _content(lookup: Lookup) -> str:
    return f"{_CONTENT}-{lookup.declaration}"


def _meaning(lookup: Lookup) -> str:
    said = json.dumps([lookup.key, lookup.valid_from, lookup.valid_to])
    return f"{_MEANING}-{hashlib.sha256(said.encode()).hexdigest()[:12]}"


def _is_readable(table: DeltaTable, lookup: Lookup, number: int) -> bool:
    """Whether the version ``number``, which ``table`` is open at, has the keys and types of ``lookup``."""
    types = {column.name: column.type for column in pa.schema(table.schema().to_arrow())}
    same = all(types.get(of.name, of.type) == of.type for of in schema_of(lookup))
    return same and table.transaction_version(_meaning(lookup)) == number


def _is_whole(table: DeltaTable) -> bool:
    """Whether a vacuum has left all its files."""
    files = file_system(table).get_file_info([add["path"] for add in pa.table(table.get_add_actions()).to_pylist()])
    return all(file.type == FileType.File for file in files)


def _newest(table: DeltaTable, lookup: Lookup) -> LookupVersion | None:
    number = table.transaction_version(_content(lookup))
    if number is None:
        return None
    return _version(next(one for one in table.history() if one["version"] == number))


def _last_content(table: DeltaTable) -> int | None:
    """The number of the last version that any declaration has read."""
    return next((one["version"] for one in table.history() if _ROWS in one), None)


def _version(told: Mapping[str, Any]) -> LookupVersion:
    """A version by its entry in the history of the table."""
    return LookupVersion(told["version"], _time_of(told), int(told[_ROWS]))


def _time_of(told: Mapping[str, Any]) -> datetime:
    return datetime.fromtimestamp(told["timestamp"] / 1000, UTC)
