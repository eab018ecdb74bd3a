"""A metric as a DuckDB query that merges both layers: final where an hour is covered, and provisional above the cutoff.

merged(h) = final(h), if h is covered   ⊕   provisional(h) where cutoff(h) < sequence ≤ s
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Literal

import duckdb

from hourline_core.aggregates import StateColumn, aggregate_of
from hourline_core.ledger.metric_tables import MetricTables
from hourline_core.model import Measure, Metric
from hourline_core.sql.literals import identifier
from hourline_core.sql.types import column_types

Layer = Literal["final", "provisional"]
LAYERS: tuple[Layer, ...] = ("final", "provisional")

_REVISED_KEPT = 200
"""The maximum number of hours whose rows of final, to be merged with provisional ones, are kept in memory: finding
them takes longer than merging them.
"""


def stored_types(connection: duckdb.DuckDBPyConnection, tables: MetricTables) -> dict[str, str]:
    """The DuckDB type of each column of the provisional table, as attached by database.py."""
    return column_types(connection, f"hourline.provisional_{tables.name}")


def counted_states_sql(
    tables: MetricTables,
    stored: Mapping[str, str],
    sequence: int,
    layers: Collection[Layer] = LAYERS,
    final: str | None = None,
) -> str:
    """A query: hour, the dimensions, state columns, state, sequence (null: final) of every row of ``layers`` that
    counts at progress ``sequence``.

    It reads the provisional and final tables of one declaration (``final`` instead of the latter, if given) and its
    hours, as attached by database.py. Missing hours are left out, since their answer would be incomplete.
    """
    metric = tables.metric
    columns = ", ".join(f"t.{identifier(name)}" for name in ["hour", *metric.dimensions, *_merges(metric, stored)])
    above = f"t.sequence <= {sequence} AND t.sequence >= {tables.complete_from} AND t.sequence > coalesce(h.cutoff, -1)"
    if "provisional" not in layers:
        above = "false"  # which keeps the columns
    known = f"JOIN hourline.hours_{tables.name} h USING (hour) WHERE h.state <> 'missing'"
    parts = [f"SELECT {columns}, h.state, t.sequence FROM hourline.provisional_{tables.name} t {known} AND {above}"]
    if tables.final is not None and "final" in layers:
        parts.append(
            f"SELECT {columns}, h.state, NULL FROM {final or f'hourline.final_{tables.name}'} t {known} AND h.cutoff "
            "IS NOT NULL"
        )
    return " UNION ALL ".join(parts)


def revised_rows(connection: duckdb.DuckDBPyConnection, tables: MetricTables) -> tuple[list[str], str | None]:
    """The statements that make a table or view of the rows of final in hours that both layers may have rows of
    (covered, but not final), and its name. None: there are no such hours.
    """
    if tables.final is None:
        return [], None
    hours = f"SELECT hour FROM hourline.hours_{tables.name} WHERE cutoff IS NOT NULL AND state <> 'final'"
    ((count,),) = connection.execute(f"SELECT count(*) FROM ({hours})").fetchall()
    name = f"hourline.revised_{tables.name}"
    kind = "TABLE" if count <= _REVISED_KEPT else "VIEW"
    return (
        ([f"CREATE {kind} {name} AS FROM hourline.final_{tables.name} WHERE hour IN ({hours})"], name)
        if count
        else ([], None)
    )


def merged_states_sql(
    tables: MetricTables,
    stored: Mapping[str, str],
    sequence: int,
    revised: str | None,
    layers: Collection[Layer] = LAYERS,
) -> str:
    """A query: hour, the dimensions, merged state columns, state.

    ``stored`` is as ``stored_types`` gives it, ``sequence`` is that of the progress, and ``revised`` is as
    ``revised_rows`` gives it. With one of the ``layers``, it gives what that layer alone contributes; the state is
    always that of the hour.
    """
    names = ["hour", *tables.metric.dimensions]
    keys, merges = ", ".join(map(identifier, names)), _merges(tables.metric, stored)
    merged = ", ".join(f"{sql} AS {identifier(column)}" for column, sql in merges.items())
    grouped = f"SELECT {keys}, {merged}, any_value(state) AS state FROM ({{}}) GROUP BY {keys}"
    if tables.final is None or "final" not in layers:
        return grouped.format(counted_states_sql(tables, stored, sequence, layers))
    # Nearly all hours are final, and have nothing to merge.
    columns = ", ".join(f"t.{identifier(name)}" for name in [*names, *merges])
    final = (
        f"SELECT {columns}, h.state FROM hourline.final_{tables.name} t "
        f"JOIN hourline.hours_{tables.name} h USING (hour) WHERE h.state = 'final'"
    )
    others = counted_states_sql(tables, stored, sequence, layers if revised else set(layers) - {"final"}, revised)
    return f"{grouped.format(others)} UNION ALL {final}"


def finished_sql(metric: Metric, states: str) -> str:
    """A query over the view ``states``: hour, the dimensions, the finished measures, state."""
    values = [f"{finished_value(name, measure)} AS {identifier(name)}" for name, measure in metric.measures.items()]
    return f"SELECT {', '.join(['hour', *map(identifier, metric.dimensions), *values, 'state'])} FROM {states}"


def values_sql(metric: Metric, stored: Mapping[str, str], states: str, dimensions: Iterable[str]) -> str:
    """A query over the rows of the query or table ``states``: hour, ``dimensions`` (some of the metric's), and the
    finished measures.
    """
    keys = ", ".join(["hour", *map(identifier, dimensions)])
    merged = ", ".join(f"{sql} AS {identifier(column)}" for column, sql in _merges(metric, stored).items())
    values = ", ".join(
        f"{finished_value(name, measure)} AS {identifier(name)}" for name, measure in metric.measures.items()
    )
    return f"SELECT {keys}, {values} FROM (SELECT {keys}, {merged} FROM ({states}) GROUP BY {keys})"


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


def finished_value(name: str, measure: Measure) -> str:
    """DuckDB SQL for the finished value of the measure ``name``, from its merged columns."""
    aggregate = aggregate_of(measure)
    return aggregate.finish([identifier(column) for column in aggregate.columns(name)])


def _merges(metric: Metric, stored: Mapping[str, str]) -> dict[str, str]:
    """By stored column of all measures, the aggregate that merges it."""
    columns = [merged_columns(name, measure, stored) for name, measure in metric.measures.items()]
    return {column: sql for of_measure in columns for column, sql in of_measure.items()}
