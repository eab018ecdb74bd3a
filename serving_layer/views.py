"""The views that people query, made from the snapshot's tables."""

from collections.abc import Mapping

import duckdb

from hourline_core.aggregates import aggregate_of
from hourline_core.ledger.layout import stored_names
from hourline_core.ledger.metric_tables import MetricTables
from hourline_core.ledger.snapshot import Snapshot
from hourline_core.model import Metric, Project, Source
from hourline_core.model.scratch_columns import SCRATCH_PREFIX
from hourline_core.sql.coverage import covered_hours_sql
from hourline_core.sql.database import provisional_is_kept
from hourline_core.sql.hour_states import weakest_sql
from hourline_core.sql.literals import identifier, literal
from hourline_core.sql.merge import (
    LAYERS,
    finished_sql,
    layer_sql,
    merged_rows_sql,
    states_sql,
    stored_types,
    values_sql,
)

_DRIFT = """
    SELECT hour, source, metric, measure, c.cause AS cause, c.amount AS amount, c.cells AS cells,
           at_close, provisional, final, cutoff, published
    FROM hourline.drift LEFT JOIN UNNEST(causes) AS known(c) ON true"""

_WHY_ABSENT = "DuckDB alone cannot merge sketches; `hourline export` and `hourline query` give it"

_NO_LATE_EVENTS = """
    SELECT NULL::VARCHAR AS source, NULL::TIMESTAMPTZ AS hour, NULL::TIMESTAMPTZ AS event_time,
           NULL::BIGINT AS late_seconds, NULL::TIMESTAMPTZ AS arrived, NULL::BIGINT AS sequence,
           NULL::VARCHAR AS topic, NULL::INTEGER AS partition, NULL::BIGINT AS "offset"
    WHERE false"""


def views_sql(
    connection: duckdb.DuckDBPyConnection, project: Project, snapshot: Snapshot, functions: bool = True
) -> list[str]:
    """The statements that create the views which ``Connection`` describes. The snapshot is attached to ``connection``
    already.

    Without ``functions`` they suit a DuckDB that lacks those of sketches.py. Measures that need them are left out, and
    a comment says so.
    """
    statements: list[str] = []
    computable = {tables.name: _computable(connection, tables, functions) for tables in snapshot.metrics}
    for tables in snapshot.served:
        name = tables.metric.name
        metric, stored = computable[tables.name]
        if not functions and metric != tables.metric:
            absent = [name for name in tables.metric.measures if name not in metric.measures]
            statements.append(f"-- {name} is without {', '.join(absent)}: {_WHY_ABSENT}")
        if metric.measures:
            sequence = snapshot.progress[metric.source].sequence
            kept = provisional_is_kept(snapshot, tables)
            statements.append(merged_rows_sql(connection, tables, stored, sequence, kept))
            statements.append(f"CREATE VIEW {name}_states AS {states_sql(tables, stored)}")
            statements.append(f"CREATE VIEW {identifier(name)} AS {finished_sql(metric, f'{name}_states')}")
            for layer in LAYERS:
                of_layer = layer_sql(tables, stored, sequence, layer)
                statements.append(f"CREATE VIEW {name}_{layer} AS {finished_sql(metric, f'({of_layer})')}")
    for name, known in snapshot.progress.items():
        for view, columns in ((f"events_{name}", _event_columns(project.sources[name])), (f"rejected_{name}", "*")):
            if view not in snapshot.unreadable:
                rows = f"SELECT {columns} FROM hourline.{view} WHERE sequence <= {known.sequence}"
                statements.append(f"CREATE VIEW {view} AS {rows}")
    statements.append(f"CREATE VIEW hours AS {_hours_sql(project, snapshot)}")
    if "late_events" not in snapshot.unreadable:
        statements.append(f"CREATE VIEW late_events AS {_late_events_sql(snapshot)}")
    statements.append(f"CREATE VIEW drift AS {_DRIFT}")
    statements.append("CREATE VIEW quality AS SELECT * EXCLUDE (declaration) FROM hourline.quality")
    statements.append(f"CREATE VIEW publications AS {_publications_sql(snapshot)}")
    for tables in snapshot.recomputed:
        metric, stored = computable[tables.name]
        if metric.measures and f"{metric.name}_staged" not in snapshot.unreadable:
            statements.append(f"CREATE VIEW {metric.name}_staged AS {_staged_sql(tables, metric, stored, snapshot)}")
    return statements


def _event_columns(source: Source) -> str:
    """What to select from the archive of ``source``: a field has its declared name, and a column of the archive that
    has the same name gets a prefix.
    """
    names: dict[str, str] = {}
    for field, stored in stored_names(source).items():
        names |= {field.casefold(): f"{SCRATCH_PREFIX}{field.casefold()}", stored: field}
    renamed = ", ".join(f"{identifier(column)} AS {identifier(name)}" for column, name in names.items())
    return f"* RENAME ({renamed})" if names else "*"


def _computable(
    connection: duckdb.DuckDBPyConnection, tables: MetricTables, functions: bool
) -> tuple[Metric, dict[str, str]]:
    """The metric with its computable measures, with or without ``functions``, and its stored columns without the
    other measures' columns.
    """
    metric, stored = tables.metric, stored_types(connection, tables)
    if functions:
        return metric, stored
    absent = {name for name, measure in metric.measures.items() if aggregate_of(measure).needs_functions}
    measures = {name: measure for name, measure in metric.measures.items() if name not in absent}
    return metric.model_copy(update={"measures": measures}), {
        column: kind for column, kind in stored.items() if column not in absent
    }


def _publications_sql(snapshot: Snapshot) -> str:
    """publication, published, source, metric, hour, cutoff, current: one row for each time that an hour of a metric was
    published.

    They come from drift, which is kept for ever. Rows that only coverage has (published before there was drift) have no
    number.
    """
    return f"""
        WITH told AS (
            SELECT publication, any_value(published) AS published, source, metric, declaration, hour,
                   any_value(cutoff) AS cutoff,
                   row_number() OVER (PARTITION BY metric, declaration, hour ORDER BY publication DESC) = 1 AS newest
            FROM hourline.drift GROUP BY publication, source, metric, declaration, hour
        ), counting AS (
            SELECT *, true AS newest FROM ({covered_hours_sql(snapshot.served)})
        )
        -- A declaration is promoted with all of its hours, also those recomputed before, up to another cutoff.
        SELECT publication, coalesce(t.published, c.published) AS published, source, metric, hour,
               coalesce(c.cutoff, t.cutoff) AS cutoff, c.hour IS NOT NULL AS current
        FROM told t FULL JOIN counting c USING (source, metric, declaration, hour, newest)"""


def _staged_sql(tables: MetricTables, metric: Metric, stored: Mapping[str, str], snapshot: Snapshot) -> str:
    """hour, the dimensions, the finished measures, cutoff: the results of the last recompute of each blocked hour."""
    # If there are none, the columns come from a table that always exists.
    rows = (
        f"FROM hourline.staged_{tables.name}"
        if snapshot.staged_versions(tables)
        else f"SELECT *, NULL::BIGINT AS cutoff FROM hourline.provisional_{tables.name} WHERE false"
    )
    values = values_sql(metric, stored, rows, metric.dimensions)
    return f"SELECT * FROM ({values}) LEFT JOIN (SELECT DISTINCT hour, cutoff FROM ({rows})) USING (hour)"


def _late_events_sql(snapshot: Snapshot) -> str:
    """Every event that came after its hour had closed. late_seconds is its distance from its source's clock."""
    parts = [
        f"""SELECT {literal(source)}, e.hour, e.event_time, epoch(l.clock - e.event_time)::BIGINT, l.arrived,
                   e.sequence, e.topic, e.partition, e."offset"
            FROM hourline.events_{source} e JOIN hourline.late_{source} l ON l.hour = e.hour AND l.sequence = e.sequence
            WHERE NOT e.duplicate"""
        for source in snapshot.progress
    ]
    return " UNION ALL ".join([_NO_LATE_EVENTS, *parts])


def _hours_sql(project: Project, snapshot: Snapshot) -> str:
    """kind ('source' or 'metric'), name, hour, state, events, late, closed. A source is in the weakest state of its
    metrics.
    """
    parts = [
        "SELECT 'metric' AS kind, metric AS name, hour, state, events, late, closed FROM hourline.metric_hours WHERE "
        "served"
    ]
    for source in project.sources.values():
        if source.name in snapshot.progress:
            # A source without metrics has no state: nothing is computed of it.
            parts.append(
                f"SELECT 'source', {literal(source.name)}, h.hour, s.state, h.events, h.late, h.closed FROM "
                f"hourline.source_hours_{source.name} h "
                f"LEFT JOIN (SELECT hour, {weakest_sql()} AS state FROM hourline.metric_hours "
                f"WHERE served AND source = {literal(source.name)} GROUP BY hour) s USING (hour)"
            )
    return " UNION ALL ".join(parts)
