"""A cell: the part of a metric in one hour, with given values of some dimensions."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from hourline_core.errors import UsageError, did_you_mean
from hourline_core.ledger.metric_tables import MetricTables
from hourline_core.model import Metric
from hourline_core.model.hours import hour_text
from hourline_core.sql.literals import identifier, literal
from hourline_core.sql.merge import HOUR_SECONDS, stored_types, values_sql
from hourline_core.sql.types import is_of_type
from serving_layer.connection import Connection
from serving_layer.sql_errors import explain_absence, without_tables

_NEAREST = 8


class NotFoundError(UsageError):
    """There is no such source, metric, hour, window or row."""


@dataclass(frozen=True)
class Cell:
    """All groups of one hour of a metric that have ``values``. Dimensions that are not in it are rolled up."""

    tables: MetricTables
    hour: datetime
    values: Mapping[str, str | None]
    """By dimension, as text; None is null."""
    stored: Mapping[str, str]
    """The DuckDB types of the stored columns."""

    @property
    def metric(self) -> Metric:
        """The metric, as it is served."""
        return self.tables.metric

    def of(self, rows: str) -> str:
        """A query for the rows of the cell, out of ``rows`` (a table, or a query in brackets, with hour and the
        dimensions).
        """
        return f"SELECT * FROM {rows} WHERE {self.condition({name: name for name in self.values})}"

    def condition(self, columns: Mapping[str, str], hour: str = "hour") -> str:
        """An SQL condition for the hour and, of the dimensions in ``columns``, the values. ``columns`` gives the
        column of each dimension, and ``hour`` is the column of the hour.
        """
        return " AND ".join([f"{hour} = {literal(self.hour)}", *self.value_conditions(columns)])

    def value_conditions(self, columns: Mapping[str, str]) -> list[str]:
        """The SQL conditions for the values alone, of the dimensions in ``columns``."""
        return [self._is(name, column) for name, column in columns.items() if name in self.values]

    def _is(self, dimension: str, column: str) -> str:
        text = self.values[dimension]
        return (
            f"{identifier(column)} IS NULL"
            if text is None
            else f"{identifier(column)} = CAST({literal(text)} AS {self.stored[dimension]})"
        )


def find_cell(connection: Connection, metric: str, hour: datetime, dimensions: Mapping[str, str | None]) -> Cell:
    """The cell of ``hour`` (UTC) with these values of dimensions, as text; None is null.

    Raises NotFoundError when there is no such metric, or the hour is none of its source. Raises UsageError when there
    is no such dimension, when a value is not of its type, and when the metric is over another one.
    """
    if rollup := connection.project.rollups.get(metric):
        raise UsageError(
            f"metric '{metric}' is merged from '{rollup.base}' when it is read; its numbers are those of "
            f"'{rollup.base}', which `hourline explain {rollup.base} {hour_text(hour)}` explains"
        )
    tables, stored = find_metric(connection, metric, dimensions)
    hour = hour.astimezone(UTC)
    _refuse_unknown_hour(connection, tables, hour)
    return Cell(tables, hour, dict(dimensions), stored)


def find_metric(
    connection: Connection, metric: str, dimensions: Mapping[str, str | None]
) -> tuple[MetricTables, dict[str, str]]:
    """The tables that the metric is served from, and the DuckDB types of its stored columns.

    Raises NotFoundError when there is no such metric. Raises UsageError when one of the ``dimensions`` is not there, or
    a value is not of its dimension's type.
    """
    tables = find_tables(connection, metric)
    stored = stored_types(connection.database, tables)
    for name, text in dimensions.items():
        check_value(connection, tables.metric, name, text, stored)
    return tables, stored


def find_tables(connection: Connection, metric: str) -> MetricTables:
    """The tables that a metric is served from. Raises NotFoundError."""
    if metric not in connection.project.all_metrics:
        raise NotFoundError(f"there is no metric '{metric}'{did_you_mean(metric, connection.project.all_metrics)}")
    for tables in connection.served:
        if tables.metric.name == metric:
            return tables
    raise NotFoundError(without_tables("metric", metric))


def check_value(
    connection: Connection, metric: Metric, dimension: str, text: str | None, stored: Mapping[str, str]
) -> None:
    """Raise UsageError when ``metric`` has no such dimension, or ``text`` is no value of its type. None is null.
    ``stored`` are the DuckDB types of the stored columns.
    """
    if dimension not in metric.dimensions:
        declared = connection.project.all_metrics[metric.name]
        raise UsageError(explain_absence("dimension", dimension, metric.dimensions, declared, connection.pending))
    if text is not None and not is_of_type(connection.database, text, stored[dimension]):
        raise UsageError(f"got '{text}' for dimension '{dimension}', which is of type {stored[dimension]}")


def refuse_without_rows(connection: Connection, cell: Cell, rows: str) -> None:
    """Raise NotFoundError, with near values, if none of ``rows`` (a table with all groups of the hour) has the values
    of ``cell``.
    """
    if not cell.values or connection.database.execute(f"{cell.of(rows)} LIMIT 1").fetchone():
        return
    place = f"of '{cell.metric.name}' in {hour_text(cell.hour)}"
    for name, text in cell.values.items():
        single = Cell(cell.tables, cell.hour, {name: text}, cell.stored)
        if not connection.database.execute(f"{single.of(rows)} LIMIT 1").fetchone():
            raise NotFoundError(
                f"no row {place} has {describe_value(name, text)}{_suggest_value(connection, rows, name, text)}"
            )
    raise NotFoundError(
        f"no row {place} has {' and '.join(describe_value(*value) for value in cell.values.items())} together, "
        "although each of them exists"
    )


def finish_values(connection: Connection, cell: Cell, rows: str, seconds: str = HOUR_SECONDS) -> dict[str, Any]:
    """The measures of ``cell``, from the state rows of the query ``rows``, which stand for so many ``seconds`` (SQL).
    All are null if there are no rows.
    """
    values = values_sql(cell.metric, cell.stored, rows, [], seconds=seconds)
    found = connection.database.sql(values).to_arrow_table().to_pylist()
    return {name: found[0][name] if found else None for name in cell.metric.measures}


def describe_value(dimension: str, text: str | None) -> str:
    """One value of a dimension, as text."""
    return f"{dimension} null" if text is None else f"{dimension} '{text}'"


def _refuse_unknown_hour(connection: Connection, tables: MetricTables, hour: datetime) -> None:
    hours = f"hourline.source_hours_{tables.source.name}"
    moment = literal(hour)
    before, there, after = _one(
        connection,
        f"SELECT max(hour) FILTER (hour < {moment}), count(*) FILTER (hour = {moment}), min(hour) FILTER (hour > "
        f"{moment}) FROM {hours}",
    )
    if there:
        return
    near = " and ".join(hour_text(one) for one in (before, after) if one)
    nearest = f"; the nearest hours are {near}" if near else ", nor in any other hour yet"
    raise NotFoundError(f"source '{tables.source.name}' has accepted no event in {hour_text(hour)}{nearest}")


def _suggest_value(connection: Connection, rows: str, name: str, text: str | None) -> str:
    column = f"{identifier(name)}::VARCHAR"
    found = connection.database.execute(
        f"SELECT DISTINCT {column} AS v, jaro_winkler_similarity(v, {literal(text or '')}) AS near FROM {rows} "
        f"WHERE v IS NOT NULL ORDER BY near DESC, v LIMIT {_NEAREST + 1}"
    ).fetchall()
    values = [value for value, _ in found]
    near = did_you_mean(text or "", [*values[:_NEAREST], *(["…"] if len(values) > _NEAREST else [])])
    return (
        f"{near}; null is written {name} alone"
        if text is not None and text.casefold() in ("", "null", "none")
        else near
    )


def _one(connection: Connection, query: str) -> tuple[Any, ...]:
    (row,) = connection.database.execute(query).fetchall()
    return tuple(row)
