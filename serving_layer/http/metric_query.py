"""Turns the parameters of a request about a metric into SQL. Names are checked against the declaration, values are
bound.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from hourline_core.errors import UsageError, did_you_mean
from hourline_core.ledger.metric_tables import MetricTables
from hourline_core.model import Metric
from hourline_core.model.hours import HourRange, parse_hour, range_between
from hourline_core.model.metric import WINDOW_COLUMNS
from hourline_core.sql.hour_states import weakest_sql
from hourline_core.sql.literals import identifier, literal
from hourline_core.sql.merge import HOUR_SECONDS, stored_types, values_sql
from hourline_core.sql.session_windows import Starts, listed_sessions_sql, session_rows_sql
from hourline_core.sql.windows import WINDOW_SECONDS, hours_of_windows_sql
from serving_layer.connection import Connection
from serving_layer.query_scope import HourState
from serving_layer.reports.cell import check_value
from serving_layer.sql_errors import explain_absence

Grain = Literal["window", "hour", "day", "month", "total"]

_TIMES: Mapping[Grain, str] = {
    "hour": "hour",
    "day": "date_trunc('day', hour)",
    "month": "date_trunc('month', hour)",
    "total": "NULL::TIMESTAMPTZ",
}
"""What replaces the hour: the first one of the day or month (UTC). Windows are merged as they are declared."""
_MOST_VALUES = 200
_FIRST, _LAST = parse_hour("0002-01-01"), parse_hour("9998-12-31T23")


@dataclass(frozen=True)
class MetricQuestion:
    """The parameters of a request. Names are not checked yet."""

    hours: HourRange
    """The hours; of windows, those that one starts with."""
    grain: Grain = "window"
    dimensions: list[str] | None = None
    """The dimensions to keep; the others are rolled up. None: all."""
    measures: list[str] | None = None
    """The measures. None: all."""
    where: Mapping[str, list[str | None]] | None = None
    """By dimension, the values as text, one of which a row must have. None is null."""
    order: str = ""
    """Column names with commas between them. A ``-`` before a name sorts the largest values first."""
    limit: int = 1_000
    page: int = 1


@dataclass(frozen=True)
class MetricSql:
    """SQL and its bound values."""

    query: str
    values: list[object]


def parse_hours(start: str | None, end: str | None) -> HourRange:
    """The hours of ``from`` and ``to``. If one of them is missing, that side is open. Raises UsageError when one is
    no hour, or the range is reversed or empty.
    """
    return range_between(parse_hour(start) if start else _FIRST, parse_hour(end) if end else _LAST)


def parse_where(texts: Iterable[str]) -> dict[str, list[str | None]]:
    """The filter of ``carrier:AA``, or of ``carrier`` alone for null. Several values of one dimension are
    alternatives. Raises UsageError.
    """
    found: dict[str, list[str | None]] = {}
    given = list(dict.fromkeys(texts))
    if len(given) > _MOST_VALUES:
        raise UsageError(
            f"got {len(given):,} values in where, allowed are {_MOST_VALUES}; ask without, and choose from the answer"
        )
    for text in given:
        if "\0" in text:
            raise UsageError("got a NUL in where, which no value has")
        name, colon, value = text.partition(":")
        if not name:
            raise UsageError(
                f"got where '{text}', allowed is DIMENSION:VALUE, such as origin:JFK (`origin` alone means null)"
            )
        found.setdefault(name, []).append(value if colon else None)
    return found


def parse_cell(texts: Iterable[str]) -> dict[str, str | None]:
    """The values of ``parse_where``, of which each dimension has one. Raises UsageError."""
    where = parse_where(texts)
    if twice := [name for name, values in where.items() if len(values) > 1]:
        raise UsageError(
            f"got dimension '{twice[0]}' twice; a cell has one value of each, "
            "and a dimension that is left out is rolled up"
        )
    return {name: values[0] for name, values in where.items()}


def _check_where(connection: Connection, tables: MetricTables, where: Mapping[str, list[str | None]]) -> None:
    """Raises UsageError when a dimension is not there, or a value is not of its type."""
    stored = stored_types(connection.database, tables)
    for name, texts in where.items():
        for text in texts:
            check_value(connection, tables.metric, name, text, stored)


def states_in(connection: Connection, tables: MetricTables, hours: HourRange, grain: Grain = "hour") -> list[HourState]:
    """The states of the hours that an answer about ``hours`` uses: those hours, or those of the windows that start in
    them.
    """
    table = f"hourline.hours_{tables.name}"
    query = f"SELECT hour, state FROM {table} WHERE hour >= ? AND hour < ?"
    if grain == "window" and not tables.metric.window.is_hour:
        listed = f"hourline.windows_{tables.name}"
        if tables.metric.session:
            listed = f"({listed_sessions_sql(tables, Starts.of(hours.start, hours.end))})"
        windows = f"FROM {listed} WHERE window_start >= ? AND window_start < ?"
        query = hours_of_windows_sql(table, windows)
    rows = connection.database.execute(f"{query} ORDER BY hour", [hours.start, hours.end]).fetchall()
    return [HourState(connection.project.base_of(tables.metric.name), *row) for row in rows]


def metric_sql(connection: Connection, tables: MetricTables, question: MetricQuestion) -> MetricSql:
    """The query. It gives one row more than the limit if there is another page. Raises UsageError.

    Columns: hour (the first of the day or month, by the grain; absent in a total) or window_start and window_end, the
    dimensions, the finished measures, and state, the weakest of the hours that the row uses.
    """
    metric, where = tables.metric, question.where or {}
    by_window = question.grain == "window" and not metric.window.is_hour
    dimensions = _choose(question.dimensions, list(metric.dimensions), "dimension", metric, connection)
    measures = _choose(question.measures, list(metric.measures), "measure", metric, connection)
    _check_where(connection, tables, where)
    stored = stored_types(connection.database, tables)
    first = "window_start" if by_window else "hour"
    conditions, values = [f"{first} >= ?", f"{first} < ?"], list[object]([question.hours.start, question.hours.end])
    for name, texts in where.items():
        conditions.append(_is_any_sql(identifier(name), texts, stored[name]))
        values += [text for text in texts if text is not None]
    operands = [operand for name in measures for operand in metric.measures[name].operands]
    needed = {name: metric.measures[name] for name in [*measures, *operands]}
    asked = metric.model_copy(update={"measures": needed})
    if by_window and metric.session and dimensions != list(metric.dimensions):
        raise UsageError(
            f"'{metric.name}' has a session for each group of all its dimensions; leave `dimension` out, ask with "
            f"`grain=hour`, or declare a metric `from: {metric.name}` with fewer dimensions, which has sessions of "
            "its own"
        )
    if by_window:
        keys = [*WINDOW_COLUMNS, *dimensions]
        windowed = f"hourline.windowed_{tables.name}"
        if metric.session:
            windowed = f"({session_rows_sql(tables, Starts.of(question.hours.start, question.hours.end))})"
        rows = f"FROM {windowed} WHERE {' AND '.join(conditions)}"
        answer = values_sql(asked, stored, rows, dimensions, (*WINDOW_COLUMNS, "state"), WINDOW_SECONDS)
    else:
        time = "hour" if question.grain == "window" else _TIMES[question.grain]
        keys = [*([] if question.grain == "total" else ["hour"]), *dimensions]
        rows = f"SELECT * REPLACE ({time} AS hour) FROM {metric.name}_states WHERE {' AND '.join(conditions)}"
        states = (
            f"SELECT {time} AS hour, {weakest_sql()} AS state FROM hourline.hours_{tables.name} "
            "WHERE hour >= ? AND hour < ? GROUP BY 1"
        )
        values += [question.hours.start, question.hours.end]
        seconds = (
            f"(SELECT {HOUR_SECONDS} * count(*) FROM (SELECT {time} AS _time FROM hourline.hours_{tables.name} "
            f"WHERE hour >= {literal(question.hours.start)} AND hour < {literal(question.hours.end)}) "
            "WHERE _time IS NOT DISTINCT FROM hour)"
        )
        answer = f"""
            SELECT v.*, s.state FROM ({values_sql(asked, stored, rows, dimensions, seconds=seconds)}) v
            LEFT JOIN ({states}) s ON s.hour IS NOT DISTINCT FROM v.hour"""
    columns = [*keys, *measures, "state"]
    query = f"""
        SELECT {", ".join(map(identifier, columns))} FROM ({answer})
        {_order_sql(question.order, keys, columns)} LIMIT ? OFFSET ?"""
    return MetricSql(query, [*values, question.limit + 1, (question.page - 1) * question.limit])


def _is_any_sql(column: str, texts: list[str | None], kind: str) -> str:
    """The condition that ``column``, of the DuckDB type ``kind``, has one of the values ``texts``. Those that are not
    null are to be bound, in their order.
    """
    parts = [f"{column} = CAST(? AS {kind})" for text in texts if text is not None]
    return f"({' OR '.join([*parts, *([f'{column} IS NULL'] if None in texts else [])])})"


def _order_sql(order: str, keys: list[str], columns: list[str]) -> str:
    """The sort order. The keys always come last, so that the order is the same each time and pages fit together.
    Without keys there is one row.
    """
    wanted = [part.strip() for part in order.split(",") if part.strip()]
    parts = []
    for part in wanted:
        name = part.removeprefix("-")
        if name not in columns:
            raise UsageError(f"order: there is no column '{name}'{did_you_mean(name, columns)}")
        parts.append(f"{identifier(name)} {'DESC' if part.startswith('-') else 'ASC'} NULLS LAST")
    parts += [f"{identifier(key)} NULLS LAST" for key in keys]
    return f"ORDER BY {', '.join(parts)}" if parts else ""


def _choose(asked: list[str] | None, there: list[str], kind: str, metric: Metric, connection: Connection) -> list[str]:
    """The chosen names, each once, in the order of the declaration."""
    if asked is None:
        return there
    for name in asked:
        if name not in there:
            declared = connection.project.all_metrics[metric.name]
            raise UsageError(explain_absence(kind, name, there, declared, connection.pending))
    return [name for name in there if name in asked]
