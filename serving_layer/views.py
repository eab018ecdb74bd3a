"""The views that people query, made from the snapshot's tables."""

import duckdb

from hourline.declarations import Project
from hourline.hour_states import WEAKEST_FIRST
from hourline.measures import quoted
from hourline.merged import finished_sql, merged_states_sql
from hourline.snapshot import Snapshot


def create_views(connection: duckdb.DuckDBPyConnection, project: Project, snapshot: Snapshot) -> None:
    """Create ``<metric>``, ``<metric>_states``, ``events_<source>``, ``rejected_<source>`` and ``hours``; the snapshot is attached already."""
    for tables in snapshot.served:
        metric = tables.metric
        described = connection.execute(f"DESCRIBE hourline.provisional_{tables.name}").fetchall()
        stored = {name: kind for name, kind, *_ in described}
        states = merged_states_sql(tables, stored, snapshot.progress[metric.source].sequence)
        connection.execute(f"CREATE VIEW {metric.name}_states AS {states}")
        connection.execute(f"CREATE VIEW {quoted(metric.name)} AS {finished_sql(metric, f'{metric.name}_states')}")
    for name, known in snapshot.progress.items():
        for view in (f"events_{name}", f"rejected_{name}"):
            connection.execute(f"CREATE VIEW {view} AS FROM hourline.{view} WHERE sequence <= {known.sequence}")
    connection.execute(f"CREATE VIEW hours AS {_hours_sql(project, snapshot)}")


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
