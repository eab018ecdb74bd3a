"""The facts that the audit knows of each hour, counted of the archived events and of the tiles separately, to be
compared.

The events of all metrics of a source are counted in one pass, over the whole hour and not by dimensions. So the counts
come about in another way than the tiles.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (as everywhere in Spark code)

from hourline_core.aggregates import aggregate_of
from hourline_core.compute.aggregation import AggregationPlan
from hourline_core.model import Metric, Source
from hourline_core.model.hours import hour_text
from hourline_core.model.scratch_columns import COUNTS, DUPLICATE, EVENT_TIME, HOUR
from hourline_core.model.windows import HOURLY
from hourline_core.sql.literals import identifier, literal
from hourline_core.sql.merge import values_sql


@dataclass(frozen=True)
class EventFacts:
    """One row for each hour that has events, from one pass over them."""

    rows: Mapping[datetime, Mapping[str, Any]]

    def count(self, hour: datetime, name: str) -> int:
        """A count of ``hour``: ``archived``, ``duplicates``, ``counted``, ``strays``, ``known of …`` or
        ``of <metric>``. It is 0 if the hour has no events.
        """
        return int(self.rows.get(hour, {}).get(name) or 0)

    def states(self, aggregation: AggregationPlan) -> pa.Table:
        """The metric's states per hour, over all dimensions. An hour without events that count is left out."""
        rows = [
            {"hour": hour, **{column: row[f"{aggregation.metric.name}.{column}"] for column in added_up(aggregation)}}
            for hour, row in self.rows.items()
            if self.count(hour, f"of {aggregation.metric.name}")
        ]
        return pa.Table.from_pylist(
            rows,
            pa.schema(
                [aggregation.schema.field("hour"), *(aggregation.schema.field(name) for name in added_up(aggregation))]
            ),
        )

    def size(self, hour: datetime, metric: str, measure: str) -> float:
        """The magnitude of what a double measure adds up. It bounds the error of adding in another order."""
        return float(self.rows.get(hour, {}).get(f"{metric}.{measure} size") or 0.0)


def event_facts(
    events: DataFrame, source: Source, aggregations: Sequence[AggregationPlan], columns: Iterable[str]
) -> EventFacts:
    """Count ``events``: the archived ones with derived fields, and COUNTS that says which of them count. For each of
    ``columns``, its values that are not null are counted.
    """
    seconds = HOURLY.pane // timedelta(seconds=1)
    outside = f"{EVENT_TIME} < {HOUR} OR {EVENT_TIME} >= {HOUR} + INTERVAL {seconds} SECONDS"
    aggregates = [
        F.expr(f"count_if(NOT {DUPLICATE})").alias("archived"),
        F.expr(f"count_if({DUPLICATE})").alias("duplicates"),
        F.expr(f"count_if({COUNTS})").alias("counted"),
        F.expr(f"count_if({outside} OR {EVENT_TIME} IS NULL)").alias("strays"),
        *(F.expr(f"count(`{name}`) FILTER (WHERE {COUNTS})").alias(f"known of {name}") for name in columns),
        *(F.expr(f"count_if(`{name}` IS NULL)").alias(f"null of {name}") for name in source.required_fields),
    ]
    for aggregation in aggregations:
        metric = aggregation.metric
        counts = f"{COUNTS} AND ({metric.where})" if metric.where else COUNTS
        aggregates.append(F.expr(f"count_if({counts})").alias(f"of {metric.name}"))
        aggregates += [
            F.expr(f"{aggregation.states[c]} FILTER (WHERE {counts})").alias(f"{metric.name}.{c}")
            for c in added_up(aggregation)
        ]
        aggregates += [
            F.expr(f"{size} FILTER (WHERE {counts})").alias(f"{metric.name}.{name} size")
            for name, size in doubles(aggregation).items()
        ]
    rows = events.groupBy(HOUR).agg(*aggregates).toArrow().to_pylist()
    return EventFacts({row[HOUR]: row for row in rows})


def archived_facts(
    connection: duckdb.DuckDBPyConnection, source: Source, hours: Sequence[datetime], cutoff: int
) -> EventFacts:
    """Only the numbers of archived events in ``hours``, up to the sequence ``cutoff``. Spark is not needed for them."""
    chosen = ", ".join(map(literal, hours))
    rows = connection.execute(
        f"SELECT hour, count(*) FROM hourline.events_{source.name} WHERE hour IN ({chosen}) AND sequence <= {cutoff} "
        "AND NOT duplicate GROUP BY hour"
    ).fetchall()
    return EventFacts({hour: {"archived": count} for hour, count in rows})


def added_up(aggregation: AggregationPlan) -> list[str]:
    """The state columns of the measures whose value over an hour can be computed in two ways."""
    measures = without_sketches(aggregation.metric).measures
    return [column for name, measure in measures.items() for column in aggregate_of(measure).columns(name)]


def doubles(aggregation: AggregationPlan) -> dict[str, str]:
    """The measures whose last digits depend on the order of addition, each with its magnitude (Spark SQL)."""
    return {
        name: magnitude
        for name, measure in aggregation.metric.measures.items()
        if (magnitude := (aggregate := aggregate_of(measure)).magnitude)
        and any(pa.types.is_floating(aggregation.schema.field(column).type) for column in aggregate.columns(name))
    }


def without_sketches(metric: Metric) -> Metric:
    """The metric with only those measures whose value over an hour can be computed in two ways."""
    exact = {name: measure for name, measure in metric.measures.items() if aggregate_of(measure).is_exact}
    return metric.model_copy(update={"measures": exact, "dimensions": {}})


def result_frame(
    connection: duckdb.DuckDBPyConnection, aggregation: AggregationPlan, tiles: pa.Table
) -> tuple[pd.DataFrame, dict[str, str]]:
    """The finished results of the tiles (hour as text, the dimensions, the measures), and the Arrow types of the
    columns.
    """
    dimensions = aggregation.metric.dimensions
    results = _values(connection, aggregation.metric, tiles, dimensions)
    table = pa.table({name: _plain_numbers(results[name]) for name in results.column_names})
    frame: pd.DataFrame = table.to_pandas()
    frame["hour"] = [hour_text(moment) for moment in table["hour"].to_pylist()]
    for name in dimensions:
        if pa.types.is_nested(table.schema.field(name).type):  # which cannot be compared for being unique
            frame[name] = frame[name].map(lambda value: None if value is None else str(value))
        elif (
            pa.types.is_integer(table.schema.field(name).type) and table[name].null_count
        ):  # which pandas would make doubles
            frame[name] = pd.array(table[name].to_pylist(), dtype="Int64")
    return frame, {"hour": "string", **{field.name: str(field.type) for field in table.schema if field.name != "hour"}}


def rows_and_groups(
    connection: duckdb.DuckDBPyConnection, aggregation: AggregationPlan, tiles: pa.Table
) -> dict[datetime, tuple[int, int]]:
    """By hour, the number of rows and the number of distinct groups in the tiles."""
    connection.register("_audited", tiles)
    keys = ", ".join(identifier(name) for name in ["hour", *aggregation.metric.dimensions])
    rows = connection.execute(
        f"SELECT hour, count(*), count(DISTINCT row({keys})) FROM _audited GROUP BY hour"
    ).fetchall()
    return {hour: (rows, groups) for hour, rows, groups in rows}


def totals(connection: duckdb.DuckDBPyConnection, metric: Metric, states: pa.Table) -> dict[datetime, dict[str, Any]]:
    """By hour, the measures over all dimensions."""
    if not metric.measures:
        return {}
    return {row.pop("hour"): row for row in _values(connection, metric, states, []).to_pylist()}


def _values(
    connection: duckdb.DuckDBPyConnection, metric: Metric, states: pa.Table, dimensions: Iterable[str]
) -> pa.Table:
    connection.register("_audited", states)
    stored = {column: kind for column, kind, *_ in connection.execute("DESCRIBE _audited").fetchall()}
    keys = ", ".join(identifier(name) for name in ["hour", *dimensions])
    rows: pa.Table = connection.execute(
        f"{values_sql(metric, stored, 'FROM _audited', dimensions)} ORDER BY {keys}"
    ).to_arrow_table()
    return rows


def _plain_numbers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Decimals as whole numbers where that is exact, else as doubles. pandas has no decimals of its own."""
    if not pa.types.is_decimal(column.type):
        return column
    if column.type.scale == 0:
        with suppress(pa.ArrowInvalid):  # beyond 64 bits
            return column.cast(pa.int64())
    return column.cast(pa.float64())
