"""Delta tables as this project writes them: created from a declaration, committed on the expected version or not at
all.

delta-rs commits, in this process; a handle knows the version it stands on, and ``max_commit_retries=0`` makes a commit
fail when somebody else has committed since. That is what fences a writer that lost its lease without knowing it.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from operator import attrgetter
from types import MappingProxyType
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import (
    CommitProperties,
    DeltaTable,
    PostCommitHookProperties,
    Transaction,
    WriterProperties,
    write_deltalake,
)
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import FileInfo, FileType, LocalFileSystem, PyFileSystem, SubTreeFileSystem

from hourline_core.errors import ConflictError, TableError, first_line
from hourline_core.model.hours import sql_timestamp
from hourline_core.runtime import failpoints
from hourline_core.storage.commit_log import TRANSACTIONS, WIDENED, incomplete_commit, newest_commit
from hourline_core.storage.data_files import BACKUP, damage_of, file_system, name_of, place_of, read_rows
from hourline_core.storage.table_format import FORMAT, refuse_other_format

# Files of this size are not compacted again: what is rewritten each time stays bounded.
_FILE_BYTES = 32 * 1024 * 1024

# A reader skips whole groups of rows by their least and greatest values: of a year in one file, a day is a few of
# these.
_ROWS_IN_GROUP = 8192

KEPT_HOURS = 2
"""The longest that a query may take: so long a reader goes on with the versions it began with, and nothing that they
need is deleted.
"""

STREAMED = {
    "delta.checkpointInterval": "20",
    "delta.logRetentionDuration": f"interval {KEPT_HOURS} hours",
    "delta.deletedFileRetentionDuration": f"interval {KEPT_HOURS} hours",
}
"""For tables with a commit about every second, read at their newest versions: each reader goes through all commits
since the last checkpoint, and through what a checkpoint knows of files that compaction has replaced; the log does not
grow for ever.
"""

PUBLISHED = {"delta.enableExpiredLogCleanup": "false"}
"""For tables read at a version that coverage pins: by itself, Delta's log cleanup would make an older version
unreadable in time.
"""


_LOG_KEPT = PostCommitHookProperties(cleanup_expired_logs=False)
"""For frequent commits: in a long log, looking for what has expired takes longer than the commit itself. Those of
maintenance look.
"""

NOTHING: Mapping[str, int] = MappingProxyType({})
"""No versions of other tables."""

_TRIED = 50
"""So many of its last versions are tried, where a damaged table is to be read as it was before."""

_PLACE = "hourline.table"
"""The property of a table that says where it belongs: its path below the root of the tables."""

_SEEN = "hourline-seen "
"""With a table's name behind it, the application id under which a commit to another one records at which version it
went by that table.
"""


class Table(DeltaTable):
    """A Delta table whose rows are read, or a TableError names the file that they cannot be read from; what a version
    holds is looked up once.
    """

    def __init__(self, uri: str, version: int | None, storage_options: Mapping[str, str]) -> None:
        super().__init__(uri, version=version, storage_options=dict(storage_options))
        self._looked_up: tuple[int, dict[str, int | None]] = (self.version(), {})
        self._rows: tuple[int, pa.Table] | None = None

    def transaction_version(self, app_id: str) -> int | None:
        """As delta-rs says, which goes through the log each time."""
        if self._looked_up[0] != self.version():
            self._looked_up = (self.version(), {})
        known = self._looked_up[1]
        if app_id not in known:
            known[app_id] = super().transaction_version(app_id)
        return known[app_id]

    def all_rows(self) -> pa.Table:
        """All rows, held until there is another version: of a table that is small, seldom changes, and is read each
        time. Raises TableError.
        """
        if self._rows is None or self._rows[0] != self.version():
            self._rows = (self.version(), self.to_pyarrow_table())
        return self._rows[1]

    def to_pyarrow_table(self, *arguments: Any, **options: Any) -> pa.Table:
        """As delta-rs reads it. Raises TableError."""
        try:
            return super().to_pyarrow_table(*arguments, **options)
        except (OSError, pa.ArrowInvalid) as error:
            raise TableError(
                damage_of(self) or f"the table at {self.table_uri} cannot be read: {first_line(error)}"
            ) from error


def exists(uri: str, storage_options: Mapping[str, str]) -> bool:
    """Whether a Delta table lies at ``uri``."""
    return bool(DeltaTable.is_deltatable(uri, dict(storage_options)))


def open_table(uri: str, storage_options: Mapping[str, str], version: int | None = None) -> Table:
    """The table at ``uri``, at ``version`` or its newest.

    Raises TableError when it, or that version, is not there, when its log is damaged, or when it is another table,
    copied to its place; OldWorkspaceError when Hourline 0.1 wrote it.
    """
    try:
        table = Table(uri, version, storage_options)
    except TableNotFoundError:
        raise TableError(f"there is no table at {uri}; `hourline speed` creates it") from None
    except Exception as error:
        raise TableError(f"the table at {uri} cannot be read{_at(version)}: {first_line(error)}") from error
    refuse_other_format(table, uri)
    if version is not None and table.version() != version:
        raise TableError(
            f"the table at {uri} was to be read{_at(version)}, but that version is incomplete; the last good one is {table.version()}"
        )
    refuse_damaged(table, uri)
    return table


def refuse_damaged(table: DeltaTable, uri: str) -> None:
    """Raise TableError when the log of ``table``, opened at ``uri``, is damaged, or it is another table, copied to that
    place.
    """
    place = table.metadata().configuration.get(_PLACE)
    if place is not None and not uri.rstrip("/").endswith(f"/{place}"):
        raise TableError(
            f"the table at {uri} is another one: it was made as '{place}', and has been copied or moved there; {BACKUP}"
        )
    if damaged := incomplete_commit(file_system(table), table.version()):
        raise TableError(f"the table at {uri} is damaged: {damaged} is missing, empty or cut off; {BACKUP}")


def update(table: DeltaTable) -> None:
    """Go on to the newest version. Raises TableError when it cannot be read."""
    try:
        table.update_incremental()
    except DeltaError as error:
        raise TableError(f"the table at {table.table_uri} cannot be read: {first_line(error)}") from error


def require_seen(table: DeltaTable, by: DeltaTable) -> None:
    """Raise TableError when ``table`` stands below the version that it had when ``by`` was committed, which went by it:
    commits are missing.
    """
    refuse_older(table.table_uri, table.version(), by, name_of(table))


def refuse_older(uri: str, version: int | None, by: DeltaTable, name: str) -> None:
    """The same for a table by its version (None: it is not there) and its name."""
    seen = by.transaction_version(_SEEN + name)
    if seen is not None and (version is None or version < seen):
        stands = "is gone" if version is None else f"stands at version {version}"
        raise TableError(
            f"the table at {uri.rstrip('/')} {stands}, but {name_of(by)} went by its version {seen}: "
            f"commits are missing; {BACKUP}"
        )


def readable_versions(uri: str, storage_options: Mapping[str, str]) -> Iterator[DeltaTable]:
    """The table at each version that can be read of it, the newest first; a few tens at most. Raises TableError when
    there is none.
    """
    local = "://" not in uri
    files = (
        SubTreeFileSystem(uri, LocalFileSystem())
        if local
        else PyFileSystem(DeltaStorageHandler(uri, dict(storage_options)))
    )
    newest, found = newest_commit(files), False
    for version in range(newest, max(newest - _TRIED, -1), -1):
        with suppress(TableError):
            yield open_table(uri, storage_options, version)
            found = True
    if not found:
        raise TableError(f"the table at {uri} cannot be read at any of its last {_TRIED} versions; {BACKUP}")


def seen(tables: Iterable[DeltaTable]) -> dict[str, int]:
    """By name, the versions that ``tables`` stand at, for a commit that goes by them."""
    return {name_of(table): table.version() for table in tables}


def open_or_create(
    uri: str,
    storage_options: Mapping[str, str],
    kind: str,
    schema: pa.Schema,
    configuration: Mapping[str, str],
    description: str,
) -> DeltaTable:
    """The table at ``uri``; created empty if it is not there, with ``schema``, ``configuration`` (STREAMED or
    PUBLISHED, and properties of our own), its ``kind`` (events, final…) as its name, and ``description``; catalogues
    show both.

    Columns that ``schema`` has and the table lacks are added, null in older rows. Raises TableError when a column's
    type differs.
    """
    if not exists(uri, storage_options):
        failpoints.reached(f"before create {kind}")
        # Another process may have been quicker; then it is opened as it is.
        with suppress(DeltaError):
            DeltaTable.create(
                uri,
                schema,
                name=kind,
                description=description,
                configuration={**configuration, **FORMAT, _PLACE: place_of(uri, kind)},
                storage_options=dict(storage_options),
                raise_if_key_not_exists=False,  # properties of our own
            )
        failpoints.reached(f"after create {kind}")
    table = open_table(uri, storage_options)
    there = {column.name: column for column in pa.schema(table.schema().to_arrow())}
    for column in schema:
        if column.name in there and there[column.name].type != column.type:
            raise TableError(
                f"column '{column.name}' of the table at {uri} is {there[column.name].type}, and now declared as {column.type}; "
                "give the field another name, or keep its type"
            )
    if any(column.name not in there for column in schema):
        with _step("widen", table):
            write_deltalake(
                table,
                schema.empty_table(),
                mode="append",
                schema_mode="merge",
                commit_properties=_commit({WIDENED: "columns"}),
            )
    return table


def fence(table: DeltaTable) -> None:
    """Commit nothing but a version: whoever opened the table before cannot write to it any more. Raises ConflictError
    as ``append`` does.
    """
    with _step("fence", table):
        write_deltalake(
            table,
            pa.schema(table.schema().to_arrow()).empty_table(),
            mode="append",
            commit_properties=_commit({"fenced": "a start"}),
        )


def append(
    table: DeltaTable,
    rows: pa.Table,
    metadata: Mapping[str, Any],
    writers: Sequence[str] = (),
    sequence: int = 0,
    seen: Mapping[str, int] = NOTHING,
) -> None:
    """Append ``rows``; the commit also records ``sequence`` as the newest of each of ``writers`` (an application
    transaction), and the versions of other tables that it goes by (``seen``).

    Raises ConflictError when the table has a commit that this handle has not seen.
    """
    transactions = [*(Transaction(writer, sequence) for writer in writers), *_seen(seen)]
    with _step("append", table):
        write_deltalake(
            table,
            rows,
            mode="append",
            commit_properties=_commit(metadata, transactions),
            post_commithook_properties=_LOG_KEPT,
        )


def overwrite(
    table: DeltaTable,
    rows: pa.Table,
    predicate: str | None,
    metadata: Mapping[str, Any],
    seen: Mapping[str, int] = NOTHING,
    writers: Sequence[str] = (),
    sequence: int = 0,
) -> None:
    """Replace the rows that satisfy ``predicate`` (all, if None) by ``rows``. ``seen``, ``writers``, ``sequence`` and
    errors as for ``append``.
    """
    properties = _commit(metadata, [*(Transaction(writer, sequence) for writer in writers), *_seen(seen)])
    with _step("overwrite", table):
        write_deltalake(
            table,
            rows,
            mode="overwrite",
            predicate=predicate,
            commit_properties=properties,
            writer_properties=_grouped(),
        )


def delete(
    table: DeltaTable, predicate: str | None, metadata: Mapping[str, Any], seen: Mapping[str, int] = NOTHING
) -> None:
    """Delete the rows that satisfy ``predicate`` (all, without reading them, if None). ``seen`` and errors as for
    ``append``.
    """
    with _step("delete", table):
        table.delete(predicate, commit_properties=_commit(metadata, _seen(seen)))


def drop_unpublished(kept: DeltaTable, coverage: DeltaTable) -> None:
    """Delete what was kept of a publication which never came about: the next commit to ``coverage`` would seem to be
    that one.
    """
    publication = coverage.version() + 1
    if kept.to_pyarrow_table(columns=["publication"], filters=[("publication", ">=", publication)]).num_rows:
        delete(kept, f"publication >= {publication}", {"unpublished": publication})


def compact(table: DeltaTable, by: str = "sequence", below: int = _FILE_BYTES) -> None:
    """Merge files smaller than ``below`` bytes of neighbouring values of the column ``by`` into larger ones; rows stay
    as they are. Raises TableError when they cannot be read, ConflictError as ``append`` does.

    Not by delta-rs' own OPTIMIZE: it commits whatever version it stands on, and after another's it doubles the rows.
    """
    files = _ranges(table, by)
    for run in _runs_of_small_files(files, below):
        lowest, highest = run[0].first, max(file.last for file in run)
        rows = read_rows(table, [file.path for file in files if file.first <= highest and file.last >= lowest])
        rows = rows.filter((pc.field(by) >= lowest) & (pc.field(by) <= highest)).sort_by(by)
        first, last = (f"'{sql_timestamp(end)}'" if isinstance(end, datetime) else end for end in (lowest, highest))
        # Where that is the whole table, delta-rs need not look for the rows that are replaced.
        whole = all(lowest <= file.first and file.last <= highest for file in files)
        with _step("compact", table):
            predicate = None if whole else f"{by} >= {first} AND {by} <= {last}"
            properties = _commit({"compacted": f"{first} to {last}"})
            write_deltalake(
                table,
                rows,
                mode="overwrite",
                predicate=predicate,
                commit_properties=properties,
                writer_properties=_grouped(),
            )


def compactable(table: DeltaTable, by: str = "sequence") -> int:
    """By how many files there would be less after ``compact``."""
    return sum(len(run) - 1 for run in _runs_of_small_files(_ranges(table, by), _FILE_BYTES))


def vacuum(table: DeltaTable, kept_hours: int, kept_versions: Collection[int] = ()) -> None:
    """Delete files that no version of the last ``kept_hours`` needs, nor one of ``kept_versions``; also what was
    written so long ago and never committed (a writer that wakes up fails at this commit). Raises ConflictError as
    ``append`` does, TableError when a kept version is not there.
    """
    with _step("vacuum", table), _readable(table):
        table.vacuum(
            kept_hours,
            dry_run=False,
            enforce_retention_duration=False,
            full=True,
            keep_versions=sorted(kept_versions) or None,
            commit_properties=_commit({"vacuumed": f"{kept_hours} h"}),
        )


def vacuumable(table: DeltaTable, kept_hours: int, kept_versions: Collection[int] = ()) -> list[FileInfo]:
    """The files that ``vacuum`` would delete, with their sizes. Raises TableError when a kept version is not there."""
    with _readable(table):
        listed = table.vacuum(
            kept_hours, enforce_retention_duration=False, full=True, keep_versions=sorted(kept_versions) or None
        )
    # Those of former times are among them, for as long as the log speaks of them.
    files = file_system(table).get_file_info(listed)
    return [file for file in files if file.type == FileType.File]


def rows_of(table: DeltaTable, column: str, value: Any) -> pa.Table:
    """The rows with this value of a column, read from the files that may have it. Raises TableError."""
    rows = read_rows(table, files_with(table, column, value, value))
    return rows.filter(pc.equal(rows[column], value))


def files_with(table: DeltaTable, column: str, lowest: Any, highest: Any = None) -> list[str]:
    """The data files, by their paths below the table, that may have values of a column from ``lowest`` to ``highest``
    (None: to its end), both in.
    """
    return [
        file.path
        for file in _ranges(table, column)
        if file.last >= lowest and (highest is None or file.first <= highest)
    ]


def restore(table: DeltaTable, version: int, metadata: Mapping[str, Any]) -> None:
    """Make the table's newest version equal to ``version``. Raises ConflictError as ``append`` does."""
    with _step("restore", table):
        table.restore(version, commit_properties=_commit(metadata))


class _Range(NamedTuple):
    """A data file, and the first and last value of a column in it."""

    path: str
    size: int
    first: Any
    last: Any


def _ranges(table: DeltaTable, by: str) -> list[_Range]:
    """In order."""
    files = pa.table(table.get_add_actions(flatten=True)).select(["path", "size_bytes", f"min.{by}", f"max.{by}"])
    return sorted(map(_Range._make, zip(*files.to_pydict().values(), strict=True)), key=attrgetter("first"))


def _runs_of_small_files(files: list[_Range], below: int) -> list[list[_Range]]:
    """Each run of two or more small files, between large ones."""
    runs: list[list[_Range]] = [[]]
    for file in files:
        if file.size < below:
            runs[-1].append(file)
        else:
            runs.append([])
    return [run for run in runs if len(run) > 1]


def _seen(versions: Mapping[str, int]) -> list[Transaction]:
    return [Transaction(_SEEN + name, version) for name, version in versions.items()]


@contextmanager
def _readable(table: DeltaTable) -> Iterator[None]:
    try:
        yield
    except CommitFailedError:
        raise
    except DeltaError as error:
        raise TableError(
            f"the old files of the table at {table.table_uri} cannot be told: {first_line(error)}"
        ) from error


@contextmanager
def _step(name: str, table: DeltaTable) -> Iterator[None]:
    """One durable step: a commit to ``table`` within the block, with a failpoint on either side."""
    place = f"{name} {table.metadata().name}"
    failpoints.reached(f"before {place}")
    try:
        yield
    except CommitFailedError:
        raise ConflictError(
            f"another process has written to the table at {table.table_uri} since version {table.version()}; this one stops and changes nothing"
        ) from None
    failpoints.reached(f"after {place}")


def _grouped() -> WriterProperties:
    return WriterProperties(
        compression="SNAPPY", max_row_group_size=_ROWS_IN_GROUP
    )  # without a word, it would not compress


def _commit(metadata: Mapping[str, Any], transactions: Sequence[Transaction] = ()) -> CommitProperties:
    told = {**metadata, TRANSACTIONS: len(transactions)} if transactions else metadata
    return CommitProperties(
        custom_metadata={f"hourline.{key}": str(value) for key, value in told.items()},
        max_commit_retries=0,
        app_transactions=list(transactions),
    )


def _at(version: int | None) -> str:
    return "" if version is None else f" at version {version}"
