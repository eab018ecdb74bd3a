"""A metric as a DuckDB query that merges both layers: final where an hour is covered, and provisional above the cutoff.

merged(h) = final(h), if h is covered   ⊕   provisional(h) where cutoff(h) < sequence ≤ s
"""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Literal

import duckdb

from hourline_core.aggregates import StateColumn, aggregate_of
from hourline_core.ledger.coverage_rows import NO_CUTOFF
from hourline_core.ledger.metric_tables import MetricTables
from hourline_core.model import Measure, Metric
from hourline_core.sql.literals import identifier, literal
from hourline_core.sql.types import column_types

HOUR_SECONDS = "3600"
"""SQL for the length of an hour in seconds."""

Layer = Literal["final", "provisional"]
LAYERS: tuple[Layer, ...] = ("final", "provisional")

_FEW_HOURS = 200
"""The maximum number of revised hours that are listed in a view, and whose merged rows are kept in memory."""


def stored_types(connection: duckdb.DuckDBPyConnection, tables: MetricTables) -> dict[str, str]:
    """The DuckDB type of each column of the provisional table, as attached by tables.py."""
    return column_types(connection, f"hourline.provisional_{tables.name}")


def counted_states_sql(
    tables: MetricTables,
    stored: Mapping[str, str],
    sequence: int,
    layers: Collection[Layer] = LAYERS,
    hours: str = "h.state <> 'missing'",
) -> str:
    """A query: hour, tile columns, state columns, state, sequence (null: final) of every row of ``layers`` that
    counts at progress ``sequence``, in ``hours`` (a condition on the states ``h``).

    It reads the provisional and final tables of one declaration and its hours, as attached by tables.py. Missing
    hours are left out, since their answer would be incomplete.
    """
    metric = tables.metric
    columns = ", ".join(f"t.{identifier(name)}" for name in ["hour", *metric.tile_columns, *_merges(metric, stored)])
    above = (
        f"t.sequence <= {sequence} AND t.sequence >= {tables.complete_from} "
        f"AND t.sequence > coalesce(h.cutoff, {NO_CUTOFF})"
    )
    if "provisional" not in layers:
        above = "false"  # which keeps the columns
    known = f"JOIN hourline.hours_{tables.name} h USING (hour) WHERE {hours}"
    parts = [f"SELECT {columns}, h.state, t.sequence FROM hourline.provisional_{tables.name} t {known} AND {above}"]
    if tables.final is not None and "final" in layers:
        final = f"FROM hourline.final_{tables.name} t {known} AND h.cutoff IS NOT NULL"
        parts.append(f"SELECT {columns}, h.state, NULL {final}")
    return " UNION ALL ".join(parts)


def revised_hours(connection: duckdb.DuckDBPyConnection, tables: MetricTables) -> list[datetime]:
    """The hours that are covered, but not final: both layers may have rows of them."""
    rows = connection.execute(f"{_revised_sql(tables)} ORDER BY hour").fetchall()
    return [hour for (hour,) in rows]


def revised_share(connection: duckdb.DuckDBPyConnection, tables: MetricTables, revised: Collection[datetime]) -> float:
    """The share, from 0 to 1, of the rows of final that are in the ``revised`` hours."""
    if tables.final is None or not revised:
        return 0.0
    final, hours = f"SELECT count(*) FROM hourline.final_{tables.name}", ", ".join(map(literal, revised))
    ((some, every),) = connection.execute(f"SELECT ({final} WHERE hour IN ({hours})), ({final})").fetchall()
    return float(some / max(every, 1))


def merged_rows_sql(
    tables: MetricTables, stored: Mapping[str, str], sequence: int, revised: Collection[datetime], kept: bool
) -> str:
    """The statement that makes ``hourline.merged_<metric>_<declaration>``: hour, tile columns, merged state columns
    and state of all hours that are not final.

    ``stored`` is as ``stored_types`` gives it, ``sequence`` is that of the progress, and ``revised`` is as
    ``revised_hours`` gives it. It is a table if its rows are to be ``kept`` in memory and few hours are revised.
    Otherwise each query merges what it needs.
    """
    kind = "TABLE" if kept and len(revised) <= _FEW_HOURS else "VIEW"
    return f"CREATE {kind} hourline.merged_{tables.name} AS {_merged_sql(tables, stored, sequence, LAYERS)}"


def merged_states_sql(tables: MetricTables, stored: Mapping[str, str], revised: Collection[datetime]) -> str:
    """A query over the merged rows and the final table: hour, tile columns, merged state columns, state."""
    merged = f"FROM hourline.merged_{tables.name}"
    return merged if tables.final is None else f"{merged} UNION ALL {_final_sql(tables, stored, revised)}"


def layer_sql(
    tables: MetricTables, stored: Mapping[str, str], sequence: int, revised: Collection[datetime], layer: Layer
) -> str:
    """A query: hour, tile columns, merged state columns of what one layer contributes, and the state of the hour."""
    merged = _merged_sql(tables, stored, sequence, [layer])
    if tables.final is None or layer != "final":
        return merged
    return f"{merged} UNION ALL {_final_sql(tables, stored, revised)}"


def _merged_sql(tables: MetricTables, stored: Mapping[str, str], sequence: int, layers: Collection[Layer]) -> str:
    """The merged rows of ``layers`` in all hours that are not final."""
    keys = ", ".join(map(identifier, ["hour", *tables.metric.tile_columns]))
    merged = ", ".join(f"{sql} AS {identifier(column)}" for column, sql in _merges(tables.metric, stored).items())
    counted = counted_states_sql(tables, stored, sequence, layers, "h.state NOT IN ('missing', 'final')")
    return f"SELECT {keys}, {merged}, any_value(state) AS state FROM ({counted}) GROUP BY {keys}"


def _final_sql(tables: MetricTables, stored: Mapping[str, str], revised: Collection[datetime]) -> str:
    """The rows of all hours that are final. They have nothing to merge."""
    columns = ", ".join(map(identifier, ["hour", *tables.metric.tile_columns, *_merges(tables.metric, stored)]))
    rows = f"SELECT {columns}, 'final' AS state FROM hourline.final_{tables.name}"
    # Every hour with rows in final is covered. Nearly all of them are final, so the others are left out. Joining final
    # with the states of hours would take a third of the time of a small query.
    hours = ", ".join(map(literal, revised)) if len(revised) <= _FEW_HOURS else _revised_sql(tables)
    return f"{rows} WHERE hour NOT IN ({hours})" if revised else rows


def _revised_sql(tables: MetricTables) -> str:
    return f"SELECT hour FROM hourline.hours_{tables.name} WHERE cutoff IS NOT NULL AND state <> 'final'"


def rolled_up_sql(metric: Metric, stored: Mapping[str, str], states: str) -> str:
    """A query over the view ``states`` of another metric, which has more dimensions: hour, the dimensions, merged state
    columns, state.
    """
    keys = ", ".join(map(identifier, ["hour", *metric.tile_columns]))
    merged = ", ".join(f"{sql} AS {identifier(column)}" for column, sql in _merges(metric, stored).items())
    return f"SELECT {keys}, {merged}, any_value(state) AS state FROM {states} GROUP BY {keys}"


def finished_sql(metric: Metric, stored: Mapping[str, str], states: str) -> str:
    """A query over the view or query ``states``, whose rows are merged by hour, pane and dimensions: hour, the
    dimensions, the finished measures, state.
    """
    if metric.pane:
        # The state is that of the hour.
        columns = ["hour", *map(identifier, [*metric.dimensions, *metric.measures]), "state"]
        rows = values_sql(metric, stored, f"FROM {states}", metric.dimensions, ("hour", "state"))
        return f"SELECT {', '.join(columns)} FROM ({rows})"
    values = [f"{finished_value(name, metric)} AS {identifier(name)}" for name in metric.measures]
    return f"SELECT {', '.join(['hour', *map(identifier, metric.dimensions), *values, 'state'])} FROM {states}"


def values_sql(
    metric: Metric,
    stored: Mapping[str, str],
    states: str,
    dimensions: Iterable[str],
    times: Iterable[str] = ("hour",),
    seconds: str = HOUR_SECONDS,
) -> str:
    """A query over the rows of the query or table ``states``: ``times`` (its columns that rows are merged by, without
    regard to dimensions), ``dimensions`` (some of the metric's), and the finished measures. ``seconds`` is SQL over
    ``times`` for the time that a row stands for.
    """
    keys = [*times, *map(identifier, dimensions)]
    values = ", ".join(f"{finished_value(name, metric, seconds)} AS {identifier(name)}" for name in metric.measures)
    return f"SELECT {', '.join(keys)}, {values} FROM ({merge_sql(metric, stored, states, keys)})"


def merge_sql(metric: Metric, stored: Mapping[str, str], states: str, keys: Collection[str]) -> str:
    """A query over the rows of the query or table ``states``: ``keys`` (SQL for the columns that rows are merged by),
    and the merged state columns.
    """
    merged = [f"{sql} AS {identifier(column)}" for column, sql in _merges(metric, stored).items()]
    return f"SELECT {', '.join([*keys, *merged])} FROM ({states}) GROUP BY {', '.join(keys)}"


def without_lists(metric: Metric) -> Metric:
    """The metric without the measures whose values are lists. Merging them over many groups takes much memory."""
    numbers = {name: measure for name, measure in metric.measures.items() if measure.kind != "top"}
    return metric.model_copy(update={"measures": numbers})


def merged_columns(name: str, measure: Measure, stored: Mapping[str, str]) -> dict[str, str]:
    """The stored columns of the measure ``name``, each with the DuckDB SQL aggregate that merges it.

    ``stored`` gives the DuckDB type of each stored column. A measure without columns in it has none.
    """
    aggregate = aggregate_of(measure)
    columns = aggregate.columns(name)
    if not all(column in stored for column in columns):
        return {}
    states = [StateColumn(identifier(column), stored[column]) for column in columns]
    return dict(zip(columns, aggregate.merges(states), strict=True))


def finished_value(name: str, metric: Metric, seconds: str = HOUR_SECONDS) -> str:
    """DuckDB SQL for the finished value of the measure ``name``, from the merged columns of the metric. ``seconds`` is
    SQL for the time that it stands for.
    """
    measure = metric.measures[name]
    aggregate = aggregate_of(measure)
    columns = [identifier(column) for column in aggregate.columns(name)]
    operands = [finished_value(operand, metric) for operand in measure.operands]
    return aggregate.finish([*columns, *operands, *([seconds] if measure.kind == "rate" else [])])


def _merges(metric: Metric, stored: Mapping[str, str]) -> dict[str, str]:
    """By stored column of all measures, the aggregate that merges it."""
    columns = [merged_columns(name, measure, stored) for name, measure in metric.stored_measures.items()]
    return {column: sql for of_measure in columns for column, sql in of_measure.items()}
