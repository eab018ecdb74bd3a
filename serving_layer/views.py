"""The views that people query, made from the snapshot's tables."""

import duckdb

from hourline.declarations import Project
from hourline.hour_states import WEAKEST_FIRST
from hourline.measures import quoted
from hourline.merged import finished_sql, merged_states_sql, stored_types, values_sql
from hourline.snapshot import MetricTables, Snapshot

_DRIFT = """
    SELECT hour, source, metric, measure, c.cause AS cause, c.amount AS amount, c.cells AS cells, settled, provisional, final, cut, published
    FROM hourline.drift LEFT JOIN UNNEST(causes) AS known(c) ON true"""

_NO_LATE_EVENTS = """
    SELECT NULL::VARCHAR AS source, NULL::TIMESTAMPTZ AS hour, NULL::TIMESTAMPTZ AS event_time, NULL::BIGINT AS late_seconds,
           NULL::TIMESTAMPTZ AS arrived, NULL::BIGINT AS sequence, NULL::VARCHAR AS topic, NULL::INTEGER AS partition, NULL::BIGINT AS "offset"
    WHERE false"""


def create_views(connection: duckdb.DuckDBPyConnection, project: Project, snapshot: Snapshot) -> None:
    """Create the views that ``Connection`` describes; the snapshot is attached already."""
    for tables in snapshot.served:
        metric = tables.metric
        states = merged_states_sql(tables, stored_types(connection, tables), snapshot.progress[metric.source].sequence)
        connection.execute(f"CREATE VIEW {metric.name}_states AS {states}")
        connection.execute(f"CREATE VIEW {quoted(metric.name)} AS {finished_sql(metric, f'{metric.name}_states')}")
    for name, known in snapshot.progress.items():
        for view in (f"events_{name}", f"rejected_{name}"):
            connection.execute(f"CREATE VIEW {view} AS FROM hourline.{view} WHERE sequence <= {known.sequence}")
    connection.execute(f"CREATE VIEW hours AS {_hours_sql(project, snapshot)}")
    connection.execute(f"CREATE VIEW late_events AS {_late_events_sql(snapshot)}")
    connection.execute(f"CREATE VIEW drift AS {_DRIFT}")
    connection.execute("CREATE VIEW quality AS SELECT * EXCLUDE (declaration) FROM hourline.quality")
    for tables in snapshot.recomputed:
        connection.execute(f"CREATE VIEW {tables.metric.name}_staged AS {_staged_sql(connection, tables)}")


def _staged_sql(connection: duckdb.DuckDBPyConnection, tables: MetricTables) -> str:
    """hour, the dimensions, the finished measures, cut: what the last recompute of each blocked hour gave."""
    staged = f"hourline.staged_{tables.name}"
    found = connection.execute("SELECT 1 FROM duckdb_views() WHERE schema_name = 'hourline' AND view_name = ?", [f"staged_{tables.name}"]).fetchone()
    # Without any, its columns come from a table that is always there.
    rows = f"FROM {staged}" if found else f"SELECT *, NULL::BIGINT AS cut FROM hourline.provisional_{tables.name} WHERE false"
    values = values_sql(tables.metric, stored_types(connection, tables), rows, tables.metric.dimensions)
    return f"SELECT * FROM ({values}) LEFT JOIN (SELECT DISTINCT hour, cut FROM ({rows})) USING (hour)"


def _late_events_sql(snapshot: Snapshot) -> str:
    """Every event that came when its hour had settled; late_seconds: how far it was behind its source's clock."""
    parts = [
        f"""SELECT '{source}', e.hour, e.event_time, epoch(l.clock - e.event_time)::BIGINT, l.arrived, e.sequence, e.topic, e.partition, e."offset"
            FROM hourline.events_{source} e JOIN hourline.late_{source} l ON l.hour = e.hour AND l.sequence = e.sequence WHERE NOT e.duplicate"""
        for source in snapshot.progress
    ]
    return " UNION ALL ".join([_NO_LATE_EVENTS, *parts])


def _hours_sql(project: Project, snapshot: Snapshot) -> str:
    """kind ('source' or 'metric'), name, hour, state, events, late, settled; a source is in the weakest state of its metrics."""
    order = ", ".join(f"'{state}'" for state in WEAKEST_FIRST)
    weakest = f"([{order}])[min(list_position([{order}], state))]"
    parts = ["SELECT 'metric' AS kind, metric AS name, hour, state, events, late, settled FROM hourline.metric_hours WHERE served"]
    for source in project.sources.values():
        if source.name in snapshot.progress:
            # A source without metrics has no state of its own: nothing is computed of it.
            parts.append(
                f"SELECT 'source', '{source.name}', h.hour, s.state, h.events, h.late, h.settled FROM hourline.source_hours_{source.name} h "
                f"LEFT JOIN (SELECT hour, {weakest} AS state FROM hourline.metric_hours "
                f"WHERE served AND source = '{source.name}' GROUP BY hour) s USING (hour)"
            )
    return " UNION ALL ".join(parts)
