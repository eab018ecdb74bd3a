"""DuckDB over a snapshot of the project's tables: each table attached at its version, and the state of every hour.

Reading needs neither Spark nor Java. The delta extension is loaded from the installed package; nothing is downloaded.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import duckdb
import duckdb_extension_delta
import pyarrow as pa

from hourline_core.errors import TableError
from hourline_core.ledger.coverage_rows import COVERAGE_SCHEMA
from hourline_core.ledger.layout import DRIFT_SCHEMA, QUALITY_SCHEMA, TIMESTAMP, Layout
from hourline_core.ledger.metric_tables import MetricTables
from hourline_core.ledger.progress_rows import PROGRESS_SCHEMA
from hourline_core.ledger.snapshot import Snapshot, take_snapshot
from hourline_core.model import Project
from hourline_core.model.hours import Clock, wall_clock
from hourline_core.sql.coverage import staged_sql
from hourline_core.sql.hour_states import metric_hours_sql
from hourline_core.sql.literals import identifier, literal
from hourline_core.sql.progress import late_sql, source_hours_sql
from hourline_core.storage.data_files import DataFiles, damage_of, data_size
from hourline_core.storage.opening import open_table

Files = Mapping[tuple[str, int], DataFiles]
NO_FILES: Files = {}

_KEPT_BYTES = 8 << 20
"""The maximum size in bytes of all provisional files that are kept in memory."""

_NO_HOURS = """
    SELECT NULL::VARCHAR AS source, NULL::VARCHAR AS metric, NULL::VARCHAR AS declaration, NULL::BOOLEAN AS served,
           NULL::TIMESTAMPTZ AS hour, NULL::VARCHAR AS state, NULL::BIGINT AS events, NULL::BIGINT AS late,
           NULL::BIGINT AS cutoff, NULL::BOOLEAN AS closed,
           NULL::BIGINT AS blocked_cutoff, NULL::VARCHAR AS expectations, NULL::BOOLEAN AS fresh
    WHERE false"""

_TYPES = {
    pa.string(): "VARCHAR",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.float64(): "DOUBLE",
    pa.bool_(): "BOOLEAN",
    TIMESTAMP: "TIMESTAMPTZ",
}


@contextmanager
def open_database(project: Project, clock: Clock = wall_clock) -> Iterator[tuple[duckdb.DuckDBPyConnection, Snapshot]]:
    """A connection with the tables of the newest snapshot, closed at the end of the block. Raises TableError."""
    connection = connect()
    try:
        snapshot = take_snapshot(project)
        with naming_damage(project, snapshot):
            attach(connection, project, snapshot, clock())
            yield connection, snapshot
    finally:
        connection.close()


@contextmanager
def naming_damage(project: Project, snapshot: Snapshot) -> Iterator[None]:
    """Turn an error of DuckDB within the block into a TableError that names the damaged file, if one explains it."""
    try:
        yield
    except duckdb.Error as error:
        # DuckDB names the file, or only says what it could not decode.
        if (
            isinstance(error, duckdb.IOException) or type(error) is duckdb.Error or "parquet" in str(error).lower()
        ) and (damage := _damage(project, snapshot)):
            raise TableError(damage) from None
        raise


def _damage(project: Project, snapshot: Snapshot) -> str | None:
    """The first damaged file, with those of small tables first."""
    layout = Layout.of(project)
    pinned = [(name, version) for name, versions in snapshot.versions.items() for version in versions]
    opened = [open_table(f"{layout.root}/{name}", layout.storage_options, version) for name, version in pinned]
    return next((damage for table in sorted(opened, key=data_size) if (damage := damage_of(table))), None)


def connect() -> duckdb.DuckDBPyConnection:
    """A DuckDB in memory, in UTC, that can read Delta tables."""
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true", "autoinstall_known_extensions": "false"})
    folder = Path(duckdb_extension_delta.__file__).parent
    extension = next(folder.glob(f"extensions/v{duckdb.__version__}/delta.duckdb_extension"))
    connection.execute(f"LOAD {literal(str(extension))}")
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET parquet_metadata_cache = true")
    return connection


def attach(connection: duckdb.DuckDBPyConnection, project: Project, snapshot: Snapshot, now: datetime) -> None:
    """Attach the snapshot's tables, by the statements of ``tables_sql``. Tables that every answer uses are read by
    their files, if these are known.
    """
    for statement in tables_sql(project, snapshot, now, snapshot.files):
        connection.execute(statement)


def tables_sql(project: Project, snapshot: Snapshot, now: datetime, files: Files = NO_FILES) -> list[str]:
    """The statements that attach the snapshot's tables and make the views below in schema ``hourline``, for any DuckDB
    that has the delta extension.

    ``now`` (UTC) closes hours that go by wall time. Tables of which ``files`` are given are read without that
    extension, which would read the log of the table again at each question.

    - ``progress_<source>``, ``provisional_<metric>_<declaration>``, ``final_<metric>_<declaration>`` (where pinned),
      ``coverage``: the tables
    - ``events_<source>``, ``rejected_<source>``: all rows, also beyond the snapshot's progress
    - ``source_hours_<source>`` (a table): hour, events, late, clock, closed
    - ``late_<source>``: hour, sequence, events, arrived, clock
    - ``drift``, ``quality``: what was kept of each publication (DRIFT_SCHEMA, QUALITY_SCHEMA)
    - ``hours_<metric>_<declaration>`` (a table): see ``metric_hours_sql``; ``metric_hours``: all of these together
    - ``staged_<metric>_<declaration>``: the rows of its blocked hours, which did not pass their audit, with ``cutoff``
      (absent, if there are none)
    """
    layout = Layout.of(project)
    statements = ["CREATE SCHEMA hourline"]
    coverage = _no_rows(COVERAGE_SCHEMA)
    if snapshot.publication is not None:
        statements += _attached("all_coverage", layout, layout.coverage, snapshot.publication, files)
        coverage += " UNION ALL BY NAME FROM hourline.all_coverage"
    # These, and the states of hours, are tables, since nearly every query reads them, and most of them several times.
    statements.append(f"CREATE TABLE hourline.coverage AS {coverage}")
    for source in project.sources.values():
        if known := snapshot.progress.get(source.name):
            statements += [
                *_attached(f"progress_{source.name}", layout, layout.progress(source), known.version, files),
                f"CREATE TABLE hourline.source_hours_{source.name} AS {source_hours_sql(source, known.sequence, now)}",
                f"CREATE VIEW hourline.late_{source.name} AS {late_sql(source, known.sequence)}",
            ]
            for kind, uri in (("events", layout.events(source)), ("rejected", layout.rejected(source))):
                if (version := snapshot.other_tables.get(f"{kind}/{source.name}")) is not None:
                    statements += _attached(f"{kind}_{source.name}", layout, uri, version)
    for kept, uri, schema in (("drift", layout.drift, DRIFT_SCHEMA), ("quality", layout.quality, QUALITY_SCHEMA)):
        rows = _no_rows(schema)
        if kept in snapshot.other_tables and snapshot.publication is not None:
            # Rows are only ever appended. Those of an unfinished publication have a number that no publication has
            # reached.
            statements.append(_attach_sql(kept, uri, snapshot.other_tables[kept]))
            rows += f" UNION ALL BY NAME SELECT * FROM _{kept} WHERE publication <= {snapshot.publication}"
        statements.append(f"CREATE VIEW hourline.{kept} AS {rows}")
    parts = [_NO_HOURS]
    for tables in snapshot.metrics:
        statements += _attached(
            f"provisional_{tables.name}",
            layout,
            layout.provisional(tables.source, tables.metric),
            tables.provisional,
            files,
        )
        if tables.final is not None:
            statements += _attached(
                f"final_{tables.name}", layout, layout.final(tables.source, tables.metric), tables.final, files
            )
        statements += _staged_sql(layout, tables, snapshot)
        hours = metric_hours_sql(tables, snapshot.progress[tables.source.name].sequence)
        statements.append(f"CREATE TABLE hourline.hours_{tables.name} AS {hours}")
        parts.append(f"FROM hourline.hours_{tables.name}")
    statements.append(f"CREATE VIEW hourline.metric_hours AS {' UNION ALL '.join(f'({part})' for part in parts)}")
    return statements


def provisional_is_kept(snapshot: Snapshot, tables: MetricTables) -> bool:
    """Whether the provisional rows of a metric are kept in memory. Their many small files are known, and not large."""
    files = snapshot.files.get((f"provisional/{tables.metric.name}/{tables.declaration}", tables.provisional))
    return files is not None and files.size < _KEPT_BYTES


def _staged_sql(layout: Layout, tables: MetricTables, snapshot: Snapshot) -> list[str]:
    """Each blocked hour at the version of the staged table that holds its rows. A later version may be unfinished."""
    statements: list[str] = []
    parts = []
    for version in snapshot.staged_versions(tables):
        name = f"staged_{tables.name}_{version}"
        statements += _attached(name, layout, layout.staged(tables.source, tables.metric), version)
        parts.append(
            f"SELECT s.*, m.blocked_cutoff AS cutoff FROM hourline.{name} s JOIN ({staged_sql(tables, version)}) m "
            "USING (hour)"
        )
    if parts:
        statements.append(f"CREATE VIEW hourline.staged_{tables.name} AS {' UNION ALL '.join(parts)}")
    return statements


def _attached(name: str, layout: Layout, uri: str, version: int, files: Files = NO_FILES) -> list[str]:
    known = files.get((uri.removeprefix(f"{layout.root}/"), version))
    if known:
        paths = ", ".join(map(literal, known.paths))
        # Streamed rows are in many small files, and every query would open each of them.
        kind = "TABLE" if name.startswith("provisional") and known.size < _KEPT_BYTES else "VIEW"
        # An older version of Hourline may have written fewer columns of progress and coverage. Those of a metric are as
        # declared.
        by_name = not name.startswith(("provisional", "final"))
        rows = f"FROM read_parquet([{paths}], union_by_name = {by_name}, hive_partitioning = false)"
        return [f"CREATE {kind} hourline.{name} AS {_widened(name, rows)}"]
    return [_attach_sql(name, uri, version), f"CREATE VIEW hourline.{name} AS {_widened(name, f'FROM _{name}')}"]


def _widened(name: str, rows: str) -> str:
    """The query ``rows`` with all columns of progress, if it is progress, which an older version of Hourline wrote with
    fewer.
    """
    return f"{_no_rows(PROGRESS_SCHEMA)} UNION ALL BY NAME {rows}" if name.startswith("progress_") else rows


def _attach_sql(name: str, uri: str, version: int) -> str:
    return f"ATTACH {literal(uri)} AS _{name} (TYPE delta, PIN_SNAPSHOT, VERSION {version})"


def _no_rows(schema: pa.Schema) -> str:
    """A query for no rows, with the columns of ``schema``. An older table may have fewer columns, and before the
    first publication there is none.
    """
    return (
        f"SELECT {', '.join(f'NULL::{_type(field.type)} AS {identifier(field.name)}' for field in schema)} WHERE false"
    )


def _type(arrow: pa.DataType) -> str:
    """DuckDB's name of a type of the layout."""
    if pa.types.is_list(arrow):
        return f"{_type(arrow.value_type)}[]"
    if pa.types.is_struct(arrow):
        return f"STRUCT({', '.join(f'{identifier(field.name)} {_type(field.type)}' for field in arrow)})"
    return _TYPES[arrow]
