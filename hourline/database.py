"""DuckDB over a snapshot of the project's tables: each table attached at its version, and the state of every hour as a view.

Reading needs neither Spark nor Java; the delta extension is loaded from the installed package, nothing is downloaded.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import duckdb
import duckdb_extension_delta

from hourline.declarations import Project
from hourline.hour_states import late_sql, metric_hours_sql, source_hours_sql
from hourline.hours import Clock, wall_clock
from hourline.layout import DRIFT_SCHEMA, QUALITY_SCHEMA, Layout
from hourline.snapshot import MetricTables, Snapshot, take_snapshot
from hourline.tables import exists

_NO_HOURS = """
    SELECT NULL::VARCHAR AS source, NULL::VARCHAR AS metric, NULL::VARCHAR AS declaration, NULL::BOOLEAN AS served, NULL::TIMESTAMPTZ AS hour,
           NULL::VARCHAR AS state, NULL::BIGINT AS events, NULL::BIGINT AS late, NULL::BIGINT AS cut, NULL::BOOLEAN AS settled,
           NULL::BIGINT AS blocked_cut, NULL::VARCHAR AS expectations, NULL::BOOLEAN AS fresh
    WHERE false"""


@contextmanager
def open_database(project: Project, clock: Clock = wall_clock) -> Iterator[tuple[duckdb.DuckDBPyConnection, Snapshot]]:
    """A connection with the tables of the newest snapshot attached, closed at the end of the block. Raises TableError."""
    connection = connect()
    try:
        snapshot = take_snapshot(project)
        attach(connection, project, snapshot, clock())
        yield connection, snapshot
    finally:
        connection.close()


def connect() -> duckdb.DuckDBPyConnection:
    """A DuckDB in memory, in UTC, that can read Delta tables."""
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true", "autoinstall_known_extensions": "false"})
    folder = Path(duckdb_extension_delta.__file__).parent
    extension = next(folder.glob(f"extensions/v{duckdb.__version__}/delta.duckdb_extension"))
    connection.execute(f"LOAD '{extension}'")
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def attach(connection: duckdb.DuckDBPyConnection, project: Project, snapshot: Snapshot, now: datetime) -> None:
    """Attach the snapshot's tables and make the views below in schema ``hourline``; ``now`` (UTC) settles hours that go by wall time.

    - ``progress_<source>``, ``provisional_<metric>_<declaration>``, ``final_<metric>_<declaration>`` (where pinned), ``coverage``: the tables
    - ``events_<source>``, ``rejected_<source>``: the newest rows, also beyond the snapshot's progress
    - ``source_hours_<source>``: hour, events, late, clock, settled
    - ``late_<source>``: hour, sequence, events, arrived, clock
    - ``drift``, ``quality``: what was kept of each publication (DRIFT_SCHEMA, QUALITY_SCHEMA)
    - ``hours_<metric>_<declaration>``: see ``metric_hours_sql``; ``metric_hours``: all of these together
    - ``staged_<metric>_<declaration>``: the rows of its blocked hours, which did not pass their audit, with ``cut`` (absent, if there are none)
    """
    layout = Layout.of(project)
    connection.execute("CREATE SCHEMA hourline")
    connection.register("_coverage", snapshot.coverage)
    connection.execute("CREATE VIEW hourline.coverage AS FROM _coverage")
    for source in project.sources.values():
        if known := snapshot.progress.get(source.name):
            _attach(connection, f"progress_{source.name}", layout.progress(source), known.version)
            connection.execute(f"CREATE VIEW hourline.source_hours_{source.name} AS {source_hours_sql(source, known.sequence, now)}")
            connection.execute(f"CREATE VIEW hourline.late_{source.name} AS {late_sql(source, known.sequence)}")
            _attach(connection, f"events_{source.name}", layout.events(source))
            _attach(connection, f"rejected_{source.name}", layout.rejected(source))
    for kept, uri, schema in (("drift", layout.drift, DRIFT_SCHEMA), ("quality", layout.quality, QUALITY_SCHEMA)):
        if exists(uri, layout.storage_options):
            # Its rows are only ever added to; those of a publication that did not come about have a number that none has reached.
            _attach(connection, f"all_{kept}", uri)
            connection.execute(f"CREATE VIEW hourline.{kept} AS FROM hourline.all_{kept} WHERE publication <= {snapshot.publication}")
        else:
            connection.register(f"_{kept}", schema.empty_table())
            connection.execute(f"CREATE VIEW hourline.{kept} AS FROM _{kept}")
    parts = [_NO_HOURS]
    for tables in snapshot.metrics:
        _attach(connection, f"provisional_{tables.name}", layout.provisional(tables.source, tables.metric), tables.provisional)
        if tables.final is not None:
            _attach(connection, f"final_{tables.name}", layout.final(tables.source, tables.metric), tables.final)
        _attach_staged(connection, layout, tables, snapshot)
        hours = metric_hours_sql(tables, snapshot.progress[tables.source.name].sequence)
        connection.execute(f"CREATE VIEW hourline.hours_{tables.name} AS {hours}")
        parts.append(f"FROM hourline.hours_{tables.name}")
    connection.execute(f"CREATE VIEW hourline.metric_hours AS {' UNION ALL '.join(f'({part})' for part in parts)}")


def _attach_staged(connection: duckdb.DuckDBPyConnection, layout: Layout, tables: MetricTables, snapshot: Snapshot) -> None:
    """Each blocked hour at the version of the staged table that holds its rows: one that was staged later may not have come to its end."""
    named = f"metric = '{tables.metric.name}' AND declaration = '{tables.declaration}'"
    marks = f"SELECT hour, staged, blocked_cut FROM hourline.coverage WHERE {named} AND staged IS NOT NULL"
    parts = []
    for (version,) in connection.execute(f"SELECT DISTINCT staged FROM ({marks}) ORDER BY staged").fetchall():
        name = f"staged_{tables.name}_{version}"
        _attach(connection, name, layout.staged(tables.source, tables.metric), version)
        parts.append(f"SELECT s.*, m.blocked_cut AS cut FROM hourline.{name} s JOIN ({marks} AND staged = {version}) m USING (hour)")
    if parts:
        connection.execute(f"CREATE VIEW hourline.staged_{tables.name} AS {' UNION ALL '.join(parts)}")


def _attach(connection: duckdb.DuckDBPyConnection, name: str, uri: str, version: int | None = None) -> None:
    quoted = uri.replace("'", "''")
    pinned = "" if version is None else f", VERSION {version}"
    connection.execute(f"ATTACH '{quoted}' AS _{name} (TYPE delta, PIN_SNAPSHOT{pinned})")
    connection.execute(f"CREATE VIEW hourline.{name} AS FROM _{name}")
