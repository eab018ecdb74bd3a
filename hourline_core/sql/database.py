"""DuckDB over a snapshot of the project's tables, and what damage does to it.

Reading needs neither Spark nor Java. The delta extension is loaded from the installed package; nothing is downloaded.
"""

from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path

import duckdb
import duckdb_extension_delta

from hourline_core.errors import TableError, UsageError
from hourline_core.ledger.layout import Layout
from hourline_core.ledger.snapshot import Snapshot
from hourline_core.model import Project
from hourline_core.model.hours import Clock, wall_clock
from hourline_core.sql.attach_on_demand import AttachedParts, Part
from hourline_core.sql.literals import literal
from hourline_core.sql.shared_snapshot import SharedSnapshot
from hourline_core.sql.tables import table_parts
from hourline_core.sql.user_functions import install_functions
from hourline_core.storage.data_files import damage_of, data_size
from hourline_core.storage.opening import open_table
from hourline_core.storage.version_retention import KEPT_HOURS

FUNCTIONS = "hourline.functions"
"""Asks ``open_database`` for the functions that sketches and the metrics of the snapshot need."""

_NEWEST = SharedSnapshot()
"""The newest snapshot, for the steps of a command. Maintenance, which deletes files that DuckDB may still read, has one
of its own.
"""


@contextmanager
def open_database(
    project: Project,
    clock: Clock = wall_clock,
    needed: AbstractSet[str] | Callable[[Snapshot], AbstractSet[str]] | None = None,
    newest: SharedSnapshot = _NEWEST,
) -> Iterator[tuple[duckdb.DuckDBPyConnection, Snapshot]]:
    """A connection with the tables of the newest snapshot, closed at the end of the block.

    Attached are those of ``needed`` that the snapshot has, such as ``hourline.metric_hours`` or ``FUNCTIONS``, with
    what they need; or all. ``needed`` may be a function of the snapshot. ``newest`` keeps what is attached for the next
    connection, unless something was committed meanwhile. Raises TableError, SetupError as ``install_functions``
    does.
    """

    def attachable(snapshot: Snapshot, taken: datetime) -> tuple[duckdb.DuckDBPyConnection, AttachedParts]:
        database = connect()
        tables = table_parts(project, snapshot, taken, snapshot.files)
        return database, AttachedParts(database, [_functions_part(database, snapshot), *tables])

    opened = newest.open(project, clock, attachable)
    snapshot, parts, connection = opened.snapshot, opened.parts, cursor_of(opened.database)
    try:
        with naming_damage(project, snapshot, opened.taken + timedelta(hours=KEPT_HOURS), clock):
            try:
                if needed is None:
                    parts.attach_all(connection)
                else:
                    parts.attach(connection, needed(snapshot) if callable(needed) else needed)
            except BaseException:
                # Functions are part of no transaction, so those that were made are still there.
                newest.forget(opened.database)
                raise
            yield connection, snapshot
    finally:
        connection.close()


def _functions_part(database: duckdb.DuckDBPyConnection, snapshot: Snapshot) -> Part:
    def install(_: duckdb.DuckDBPyConnection) -> Iterator[str]:
        # Not on the cursor that asks: DuckDB drops the functions of a connection that is closed.
        install_functions(database, (tables.metric for tables in snapshot.metrics))
        yield from ()

    return Part((FUNCTIONS,), (), install)


@contextmanager
def naming_damage(
    project: Project, snapshot: Snapshot, expires: datetime | None, clock: Clock = wall_clock
) -> Iterator[None]:
    """Turn an error of DuckDB within the block into a TableError that names the damaged file, if one explains it. From
    ``expires`` (UTC) on, files of the snapshot may be deleted. Then it is a UsageError that says so. None: the snapshot
    is an earlier one, so those that the newest one does not need may be deleted at any time.
    """
    try:
        yield
    except duckdb.Error as error:
        # DuckDB names the file, or only says what it could not decode.
        if (
            isinstance(error, duckdb.IOException) or type(error) is duckdb.Error or "parquet" in str(error).lower()
        ) and (damage := _damage(project, snapshot)):
            if (clock() >= expires) if expires else not _damage(project, snapshot, newest=True):
                raise UsageError(
                    "files of this snapshot have been deleted: those that newer versions do not need are kept for "
                    f"{KEPT_HOURS} hours; read the newest snapshot: `refresh()`, or `.refresh` in the shell"
                ) from None
            raise TableError(damage) from None
        raise


def _damage(project: Project, snapshot: Snapshot, *, newest: bool = False) -> str | None:
    """A sentence about the first damaged file, with those of small tables first, or about a version that is gone. Of
    the versions of ``snapshot``, or of the ``newest`` ones of its tables.
    """
    layout = Layout.of(project)
    pinned = [(name, None if newest else one) for name, versions in snapshot.versions.items() for one in versions]
    try:
        opened = [open_table(f"{layout.root}/{name}", layout.storage_options, version) for name, version in pinned]
    except TableError as error:
        return str(error)
    return next((damage for table in sorted(opened, key=data_size) if (damage := damage_of(table))), None)


def connect() -> duckdb.DuckDBPyConnection:
    """A DuckDB in memory, in UTC, that can read Delta tables. A name in its SQL is never a variable of the program."""
    connection = duckdb.connect(
        config={
            "allow_unsigned_extensions": "true",
            "autoinstall_known_extensions": "false",
            "python_enable_replacements": "false",
        }
    )
    connection.execute(f"LOAD {literal(str(delta_extension()))}")
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET parquet_metadata_cache = true")
    return connection


def delta_extension() -> Path:
    """The file of DuckDB's delta extension in the installed package, for this version of DuckDB."""
    folder = Path(duckdb_extension_delta.__file__).parent
    return next(folder.glob(f"extensions/v{duckdb.__version__}/delta.duckdb_extension"))


def cursor_of(database: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """A connection for one thread. The others stay open when it is closed."""
    connection = database.cursor()
    connection.execute("SET TimeZone = 'UTC'")  # which a cursor does not inherit
    return connection
