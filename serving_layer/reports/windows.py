"""Reports what a window's numbers are made of: `hourline explain METRIC TIME --window`."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from hourline_core.errors import UsageError
from hourline_core.ledger.metric_tables import MetricTables
from hourline_core.model import Metric
from hourline_core.model.hour_state import HourStateName
from hourline_core.model.hours import hour_text, moment_text
from hourline_core.sql.literals import literal
from hourline_core.sql.merge import values_sql
from hourline_core.sql.session_windows import Starts, longest_sql, session_rows_sql
from hourline_core.sql.windows import hours_of_windows_sql
from serving_layer.connection import Connection
from serving_layer.described import Described
from serving_layer.reports.cell import (
    Cell,
    NotFoundError,
    describe_value,
    find_metric,
    finish_values,
    refuse_without_rows,
)
from serving_layer.reports.lineage import Declared, describe_declaration


class HourOfWindow(Described):
    """One hour of a window."""

    hour: datetime
    """The hour (UTC)."""
    state: HourStateName
    """The state of the hour."""
    measures: dict[str, Any]
    """The values of what this hour alone contributes. All null: no event of it counts, or it is missing."""


class WindowExplanation(Described):
    """The measures of one window, and those of its hours. They are merged by states: hours do not add up to a mean or
    a distinct count.
    """

    metric: str
    """The name of the metric."""
    merged_from: str
    """The name of the metric whose hours are merged: its own, or for a rollup, the metric that it reads."""
    description: str | None
    """Its description."""
    window: str
    """Its windows, as they are declared."""
    window_start: datetime
    """The start of the window (UTC)."""
    window_end: datetime
    """The end of the window (UTC, exclusive)."""
    dimensions: dict[str, str | None]
    """The dimensions that were asked for, as text. The others are rolled up."""
    state: HourStateName
    """The state of the window: the weakest of its hours, and at most `provisional` until the clock passes its end. An
    hour that is `revised` by late events of other windows does not count.
    """
    closed: bool
    """Whether the window has closed."""
    measures: dict[str, Any]
    """The values of the window. All null: no event of it counts, or it is missing."""
    hours: list[HourOfWindow]
    """Its hours, oldest first. Those that are still to come are not among them."""
    declared: Declared
    """The declaration."""


def explain_window(
    connection: Connection, metric: str, start: datetime, dimensions: Mapping[str, str | None] | None = None
) -> WindowExplanation:
    """What the numbers of ``metric`` are made of in the window that starts at ``start`` (UTC), in the groups with these
    ``dimensions`` (as text; None: null). Of sessions, it is the one that contains ``start``.

    Raises NotFoundError when there is no such metric, window or row. Raises UsageError when there is no such dimension,
    when a value is not of its type, and when a dimension of a session is left out.
    """
    database = connection.database
    tables, stored = find_metric(connection, metric, dimensions or {})
    cell = Cell(tables, start, dimensions or {}, stored)
    rows = f"hourline.windowed_{tables.name}"
    if tables.metric.session:
        start, end, state, closed = _find_session(connection, cell)
        cell, rows = replace(cell, hour=start), f"({session_rows_sql(tables, Starts.of(start, start))})"
    else:
        end, state, closed = _find_window(connection, tables, start)
    windowed = f"SELECT * REPLACE (window_start AS hour) FROM {rows}"
    bounds = f"window_start = {literal(start)} AND window_end = {literal(end)}"
    database.execute(f"CREATE OR REPLACE TEMP TABLE _window AS {windowed} WHERE {bounds}")
    if state != "missing":
        refuse_without_rows(connection, cell, "_window")
    return WindowExplanation(
        metric=metric,
        merged_from=connection.project.base_of(metric),
        description=tables.metric.description,
        window=str(tables.metric.window),
        window_start=start,
        window_end=end,
        dimensions=dict(cell.values),
        state=state,
        closed=closed,
        measures=finish_values(connection, cell, cell.of("_window"), f"{(end - start).total_seconds()}"),
        hours=_hours(connection, cell, end),
        declared=describe_declaration(connection, cell),
    )


def _require_group(metric: Metric, dimensions: Mapping[str, str | None]) -> None:
    """Raise UsageError when a metric has sessions, and ``dimensions`` leave out one of those that it has them by."""
    left_out = [name for name in metric.dimensions if name not in dimensions]
    if metric.session and left_out:
        raise UsageError(
            f"a session of '{metric.name}' has the events of one group; give a value of {' and '.join(left_out)}, too"
        )


def _find_window(connection: Connection, tables: MetricTables, start: datetime) -> tuple[datetime, HourStateName, bool]:
    """The end, state, and whether it has closed."""
    metric, moment = tables.metric, literal(start)
    if metric.window.is_hour:
        raise NotFoundError(
            f"metric '{metric.name}' has no windows besides hours; leave out --window to explain an hour"
        )
    table = f"hourline.windows_{tables.name}"
    found = connection.database.execute(
        f"SELECT window_end, state, closed FROM {table} WHERE window_start = {moment}"
    ).fetchone()
    if found:
        return found[0], found[1], found[2]
    ((before, after),) = connection.database.execute(
        f"SELECT max(window_start) FILTER (window_start < {moment}), "
        f"min(window_start) FILTER (window_start > {moment}) FROM {table}"
    ).fetchall()
    near = " and ".join(hour_text(one) for one in (before, after) if one)
    nearest = f"; the nearest windows start at {near}" if near else ", nor at any other time yet"
    raise NotFoundError(f"no window of '{metric.name}' ({metric.window}) starts at {hour_text(start)}{nearest}")


def _find_session(connection: Connection, cell: Cell) -> tuple[datetime, datetime, HourStateName, bool]:
    """The start, the end, the state, and whether it has closed, of the session of a group at the time of ``cell``."""
    tables, moment = cell.tables, literal(cell.hour)
    _require_group(cell.metric, cell.values)
    of_group = cell.value_conditions({name: name for name in cell.values})
    rows = session_rows_sql(tables, Starts(f"{moment} - {longest_sql(tables)}", moment))
    conditions = [f"window_start <= {moment}", f"window_end > {moment}", *of_group]
    found = connection.database.execute(
        f"SELECT window_start, window_end, state, _closed FROM ({rows}) WHERE {' AND '.join(conditions)} LIMIT 1"
    ).fetchone()
    if found is None:
        group = "".join(f", {describe_value(*value)}" for value in cell.values.items())
        nearest = _nearest_sessions(connection, cell, of_group)
        raise NotFoundError(
            f"no session of '{cell.metric.name}'{group} contains {moment_text(cell.hour)} UTC; {nearest}"
        )
    return found[0], found[1], found[2], found[3]


def _nearest_sessions(connection: Connection, cell: Cell, of_group: Iterable[str]) -> str:
    """The last session of a group before the time of ``cell``, and the first one after it, in words."""
    moment = literal(cell.hour)
    ((before, after),) = connection.database.execute(
        f"SELECT arg_max([window_start, window_end], window_start) FILTER (window_start < {moment}), "
        f"arg_min([window_start, window_end], window_start) FILTER (window_start > {moment}) "
        f"FROM hourline.windowed_{cell.tables.name} WHERE {' AND '.join(['true', *of_group])}"
    ).fetchall()
    near = [f"from {moment_text(one[0])} to {moment_text(one[1])}" for one in (before, after) if one]
    return f"the nearest {'is' if len(near) == 1 else 'are'} {' and '.join(near)}" if near else "it has none yet"


def _hours(connection: Connection, cell: Cell, end: datetime) -> list[HourOfWindow]:
    database, tables, measures = connection.database, cell.tables, list(cell.metric.measures)
    start, after = literal(cell.hour), literal(end)
    begins = "session_start" if cell.metric.session else "pane" if cell.metric.pane else None
    window = f"SELECT {start} AS window_start, {after} AS window_end"
    states = hours_of_windows_sql(f"hourline.hours_{tables.name}", window)
    conditions = [
        f"hour + INTERVAL 1 HOUR > {start} AND hour < {after}",
        *([f"{begins} >= {start} AND {begins} < {after}"] if begins else []),
        *cell.value_conditions({name: name for name in cell.values}),
    ]
    rows = f"FROM {cell.metric.name}_states WHERE {' AND '.join(conditions)}"
    seconds = f"(epoch(least(hour + INTERVAL 1 HOUR, {after})) - epoch(greatest(hour, {start})))"
    values = values_sql(cell.metric, cell.stored, rows, [], seconds=seconds)
    found = database.sql(f"FROM ({states}) LEFT JOIN ({values}) USING (hour) ORDER BY hour").to_arrow_table()
    return [
        HourOfWindow(hour=row["hour"], state=row["state"], measures={name: row[name] for name in measures})
        for row in found.to_pylist()
    ]
