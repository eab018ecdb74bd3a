"""The expectations about sessions: which sessions a recompute completes or changes, and what it makes of them.

A session is complete once the hours in which an event could join it are closed, and each of them is published or part
of the recompute. A session is one row, so each is judged on its own. The maximum length of a session bounds what is
read, whatever the number of hours that the metric has.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

import duckdb
import pyarrow as pa

from batch_layer.audit.declared_expectations import build_checks
from batch_layer.audit.facts import as_frame
from batch_layer.audit.findings import Finding
from batch_layer.audit.next_states import next_states_sql
from batch_layer.audit.validator import Validation, Validator
from hourline_core.ledger.metric_tables import MetricTables
from hourline_core.model import Expectation, Metric
from hourline_core.model.hours import HourRange, hour_text
from hourline_core.model.metric import WINDOW_COLUMNS
from hourline_core.model.session_window import SessionWindow
from hourline_core.sql.literals import identifier, literal
from hourline_core.sql.merge import stored_types, values_sql
from hourline_core.sql.session_windows import (
    closes_sql,
    first_hour_sql,
    last_hour_sql,
    rows_of_sessions_sql,
)
from hourline_core.sql.windows import WINDOW_SECONDS

_SESSIONS_TOLD = 3
"""The maximum number of failing sessions that the words of a finding name."""


def validate_sessions(
    validator: Validator,
    connection: duckdb.DuckDBPyConnection,
    tables: MetricTables,
    metric: Metric,
    session: SessionWindow,
    declared: Sequence[Expectation],
    hours: Sequence[datetime],
    staged: pa.Table | None,
) -> Validation:
    """Evaluate ``declared`` on the complete sessions that an event in one of ``hours`` (UTC, sorted) could join. An
    hour fails with each of its sessions. The other parameters are those of ``validate_windows``.
    """
    results = _read_complete(connection, tables, metric, session, hours, staged)
    if not len(results):
        return Validation()
    times = ("hour", *WINDOW_COLUMNS)
    frame, types = as_frame(results, metric.dimensions, times)
    found = validator.evaluate_results(
        frame,
        build_checks(declared, types, of_sessions=True),
        list(map(hour_text, hours)),
        [*times, *metric.dimensions],
    )
    return Validation([_name_sessions(finding, metric) for finding in found.findings])


def _read_complete(
    connection: duckdb.DuckDBPyConnection,
    tables: MetricTables,
    metric: Metric,
    session: SessionWindow,
    hours: Sequence[datetime],
    staged: pa.Table | None,
) -> pa.Table:
    """hour, window_start, window_end, the dimensions and the finished measures: a row for each complete session and
    each of ``hours`` in which an event could join it, sorted.
    """
    ranges = map(session.around, HourRange.stretches(hours, session.reach))
    around = " OR ".join(f"hour >= {literal(near.start)} AND hour < {literal(near.end)}" for near in ranges)
    here = f"hour IN ({', '.join(map(literal, hours))})"
    counts = "cutoff IS NOT NULL" if staged is None else f"cutoff IS NOT NULL OR {here}"
    states = next_states_sql(connection, tables, hours, staged, around)
    rows = f"""
        WITH sessions AS (
            {rows_of_sessions_sql(session, metric.dimensions, states)}
        ), closed AS (
            SELECT DISTINCT window_start, window_end FROM sessions
            WHERE {closes_sql(tables.source)}
               <= (SELECT epoch_us(max(clock)) FROM hourline.source_hours_{tables.source.name})
        ), complete AS (
            SELECT window_start, window_end, list(h.hour) FILTER (h.here) AS _hours
            FROM closed JOIN (
                SELECT hour, {here} AS here, {counts} AS counts FROM hourline.hours_{tables.name} WHERE {around}
            ) h ON epoch_us(h.hour) BETWEEN {first_hour_sql(session)} AND {last_hour_sql()}
            GROUP BY window_start, window_end HAVING bool_and(h.counts) AND bool_or(h.here)
        )
        SELECT * FROM sessions JOIN complete USING (window_start, window_end)"""
    keys = ("_hours", *WINDOW_COLUMNS)
    values = values_sql(metric, stored_types(connection, tables), rows, metric.dimensions, keys, WINDOW_SECONDS)
    order = ", ".join(map(identifier, ["hour", *WINDOW_COLUMNS, *metric.dimensions]))
    query = f"SELECT unnest(_hours) AS hour, * EXCLUDE (_hours) FROM ({values}) ORDER BY {order}"
    return connection.execute(query).to_arrow_table()


def _name_sessions(finding: Finding, metric: Metric) -> Finding:
    """``finding``, with words that name the sessions that fail, each by what identifies it."""
    if finding.success or not finding.rows:
        return finding
    words = []
    for row in map(json.loads, finding.rows[:_SESSIONS_TOLD]):
        group = "".join(f", {name} {_as_text(row[name])}" for name in metric.dimensions)
        values = ", ".join(f"{name}: {_as_text(row[name])}" for name in finding.check.columns)
        words.append(f"session {row['window_start']} to {row['window_end']}{group}: {values}")
    if (more := (finding.unexpected or 0) - len(words)) > 0:
        words.append(f"and {more:,} more {'session' if more == 1 else 'sessions'}")
    return replace(finding, found="; ".join(words))


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
