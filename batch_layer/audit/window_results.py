"""The expectations about the results of windows: which windows a recompute completes, and what it makes of them.

A window is complete once each of its hours is known, and is published or part of the recompute. Its hours are known
once the clock of its source has passed its end. Its results are merged from the staged rows of the recomputed hours and
the published rows of the others: they are what readers get if these hours are published, without events from after the
cutoffs.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import duckdb
import pyarrow as pa

from batch_layer.audit.declared_expectations import build_checks
from batch_layer.audit.facts import as_frame
from batch_layer.audit.findings import ROWS_KEPT, Finding
from batch_layer.audit.next_states import next_states_sql
from batch_layer.audit.session_results import validate_sessions
from batch_layer.audit.validator import Validation, Validator
from hourline_core.ledger.layout import TIMESTAMP
from hourline_core.ledger.metric_tables import MetricTables
from hourline_core.model import Metric
from hourline_core.model.hours import HOUR, hour_text, time_text
from hourline_core.model.metric import WINDOW_COLUMNS
from hourline_core.sql.literals import identifier, literal
from hourline_core.sql.merge import stored_types, values_sql
from hourline_core.sql.windows import WINDOW_SECONDS, rows_of_windows_sql

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_HOUR = HOUR // _MICROSECOND
_SPANS = pa.schema(dict.fromkeys(WINDOW_COLUMNS, TIMESTAMP))
_WINDOWS_TOLD = 3
"""The maximum number of failing windows that the words of a finding name."""

Span = tuple[datetime, datetime]
"""The start and end (exclusive) of a window, in UTC."""


def validate_windows(
    validator: Validator,
    connection: duckdb.DuckDBPyConnection,
    tables: MetricTables,
    metric: Metric,
    hours: Sequence[datetime],
    staged: pa.Table | None = None,
) -> Validation:
    """Evaluate the expectations of ``metric`` about windows in the complete windows that touch ``hours`` (UTC, sorted).
    An hour fails with each of its windows.

    ``tables`` are those of its declaration, attached to ``connection``. ``staged`` are the recomputed tiles of
    ``hours``. None: they are published.
    """
    declared = [one for one in metric.expectations if one.about == "window"]
    if not declared:
        return Validation()
    if metric.session:
        return validate_sessions(validator, connection, tables, metric, metric.session, declared, hours, staged)
    windows = find_complete_windows(connection, tables, metric, hours, are_recomputed=staged is not None)
    if not windows:
        return Validation()
    results = _read_results(connection, tables, metric, windows, hours, staged)
    frame, types = as_frame(results, metric.dimensions, WINDOW_COLUMNS)
    starts, keys = [time_text(start) for start, _ in windows], [*WINDOW_COLUMNS, *metric.dimensions]
    found: dict[str, list[Finding]] = {}
    for finding in validator.evaluate_results(frame, build_checks(declared, types), starts, keys).findings:
        found.setdefault(finding.hour, []).append(finding)
    return Validation(list(_blame_hours(found, windows, hours)))


def find_complete_windows(
    connection: duckdb.DuckDBPyConnection,
    tables: MetricTables,
    metric: Metric,
    hours: Sequence[datetime],
    *,
    are_recomputed: bool,
) -> list[Span]:
    """The complete windows that share time with one of ``hours``, in order. ``are_recomputed``: these hours count as
    published.
    """
    touched = sorted({window for hour in hours for window in metric.windows_of(hour)})
    ((clock,),) = connection.execute(
        f"SELECT epoch_us(max(clock)) FROM hourline.source_hours_{tables.source.name}"
    ).fetchall()
    rows = connection.execute(
        f"SELECT epoch_us(hour), hour, cutoff IS NOT NULL FROM hourline.hours_{tables.name} ORDER BY hour"
    ).fetchall()
    here = set(hours) if are_recomputed else set()
    known = [micros for micros, _, _ in rows]
    lacking = [micros for micros, hour, is_published in rows if not is_published and hour not in here]

    def is_complete(start: int, end: int) -> bool:
        before = start - start % _HOUR - 1
        if bisect_left(lacking, end) > bisect_right(lacking, before):
            return False
        # All of its hours may be known before the clock has passed its end, if a person recomputes its last hour early.
        count = bisect_left(known, end) - bisect_right(known, before)
        return (clock is not None and end <= clock) or count * _HOUR >= end - before - 1

    return [
        (_EPOCH + start * _MICROSECOND, _EPOCH + end * _MICROSECOND)
        for start, end in touched
        if is_complete(start, end)
    ]


def _read_results(
    connection: duckdb.DuckDBPyConnection,
    tables: MetricTables,
    metric: Metric,
    windows: Sequence[Span],
    hours: Sequence[datetime],
    staged: pa.Table | None,
) -> pa.Table:
    """window_start, window_end, the dimensions and the finished measures of ``windows``, sorted."""
    starts, ends = zip(*windows, strict=True)
    spans = pa.table([pa.array(starts), pa.array(ends)], schema=_SPANS)
    connection.register("_complete_windows", spans)
    bounds = f"hour > {literal(windows[0][0] - HOUR)} AND hour < {literal(max(end for _, end in windows))}"
    states = next_states_sql(connection, tables, hours, staged, bounds)
    rows = rows_of_windows_sql(metric, "FROM _complete_windows", states)
    values = values_sql(
        metric, stored_types(connection, tables), rows, metric.dimensions, WINDOW_COLUMNS, WINDOW_SECONDS
    )
    keys = ", ".join(map(identifier, [*WINDOW_COLUMNS, *metric.dimensions]))
    return connection.execute(f"{values} ORDER BY {keys}").to_arrow_table()


def _blame_hours(
    found: Mapping[str, Sequence[Finding]], windows: Sequence[Span], hours: Sequence[datetime]
) -> Iterator[Finding]:
    """For each expectation and hour, one finding of all complete windows that the hour is in. ``found`` has the
    findings of each window, by its start as text.
    """
    for hour in hours:
        of_hour: dict[int, list[tuple[Span, Finding]]] = {}
        for start, end in windows:
            if start < hour + HOUR and hour < end:
                for finding in found.get(time_text(start), []):
                    of_hour.setdefault(id(finding.check), []).append(((start, end), finding))
        for of_check in of_hour.values():
            yield _fold(hour_text(hour), of_check)


def _fold(hour: str, of_windows: Sequence[tuple[Span, Finding]]) -> Finding:
    """One finding for ``hour`` of those of its windows. Its numbers are those of the first window that fails, or of the
    last window.
    """
    failing = [(window, finding) for window, finding in of_windows if not finding.success]
    applied = [finding for _, finding in of_windows if finding.applied]
    if not failing:
        return replace(applied[-1] if applied else of_windows[-1][1], hour=hour)
    words = [
        f"window {time_text(start)} to {time_text(end)}: {finding.found or 'it was not fulfilled'}"
        for (start, end), finding in failing[:_WINDOWS_TOLD]
    ]
    if (more := len(failing) - len(words)) > 0:
        words.append(f"and {more:,} more {'window' if more == 1 else 'windows'}")
    findings = [finding for _, finding in failing]
    counts = [finding.unexpected for finding in findings if finding.unexpected is not None]
    rows = [row for finding in findings for row in finding.rows]
    return replace(
        findings[0],
        hour=hour,
        found="; ".join(words),
        unexpected=sum(counts) if counts else None,
        rows=rows[:ROWS_KEPT],
    )
