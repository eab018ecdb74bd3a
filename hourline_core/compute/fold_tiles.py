"""Folds events into the tiles of a metric.

All expressions are evaluated, so the events are columns of an Arrow table. DuckDB folds them in the task that has read
them, in a few milliseconds; a Spark job would take a hundred times as long to plan. Tiles of parts merge like all
others.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from hourline_core.aggregates import aggregate_of
from hourline_core.aggregates.user_defined import find_failed
from hourline_core.compute.projection import ProjectedMetric
from hourline_core.compute.split_off import split_off
from hourline_core.compute.worker_database import database, open_database
from hourline_core.model import Metric
from hourline_core.model.identity import user_measures_of
from hourline_core.model.scratch_columns import HOUR
from hourline_core.sql.literals import identifier
from hourline_core.sql.merge import merged_columns
from hourline_core.sql.user_functions import install_functions

_MERGED = 200_000
"""The number of tiles that are merged at once. DuckDB holds the sketches of all of them, which it cannot spill."""


def connect_for_folds(metrics: Iterable[Metric]) -> duckdb.DuckDBPyConnection:
    """A DuckDB in memory for the ``Fold`` of each of ``metrics``: that of this process, unless a metric has a class of
    the user. Its functions would stay there when the class is changed.
    """
    declared = list(metrics)
    if not any(map(user_measures_of, declared)):
        return database()
    connection = open_database()
    install_functions(connection, declared)
    return connection


@dataclass(frozen=True)
class Folded:
    """What becomes of events in one metric."""

    tiles: pa.Table
    kept: pa.Table
    """The events that no class of the metric fails for."""
    quarantined: pa.Table | None
    """The events that a class of the metric fails for, as rows of the quarantine table without their sequence. None:
    there are none.
    """


class Fold:
    """Folds events into tiles of ``metric``. Folds of one ``connection`` can run in different threads."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, metric: ProjectedMetric) -> None:
        # Functions in Python belong to the connection that has made them, and crash once that is gone.
        self._root = connection
        self._connection = connection.cursor()
        self._connection.execute("SET TimeZone = 'UTC'")  # which a cursor does not inherit
        self._schema = metric.aggregation.schema
        self._metric = metric
        types = self._types()
        self._sql, self._merge_sql = _fold_sql(metric, types), _merge_sql(metric, types)

    def fold(self, events: pa.Table) -> Folded:
        """The tiles (hour, tile columns, states) of ``events``: those that count, with HOUR and the
        columns of the metric.

        The last digits of sums of doubles depend on the order of events. Integers are added with 128 bits, so nothing
        overflows. Events that a class of the metric fails for are in no tile.
        """
        tiles = self._compute(events)
        if not find_failed(self._metric.aggregation.metric, tiles):
            return Folded(tiles, events, None)
        kept, quarantined = split_off(self._metric, events)
        return Folded(self._compute(kept), kept, quarantined) if quarantined.num_rows else Folded(tiles, events, None)

    def fold_query(self, events: str) -> pa.Table:
        """The tiles of the events that the query ``events`` gives: as ``fold``, of a metric without classes."""
        self._connection.execute(f"CREATE TEMP VIEW events AS {events}")
        try:
            return self._connection.execute(self._sql).to_arrow_table().cast(self._schema)
        finally:
            self._connection.execute("DROP VIEW events")

    def merge(self, tiles: Sequence[pa.Table]) -> pa.Table:
        """``tiles`` of several parts of the events as those of all of them. Each part has a group once at most."""
        if len(tiles) == 1:
            return tiles[0]
        together = pa.concat_tables(tiles)
        # Nearly all hours are in one part alone, if these are files of the archive. They have nothing to merge.
        hours = pa.chunked_array([pc.unique(of["hour"]) for of in tiles], self._schema.field("hour").type)
        counts = pc.value_counts(hours)
        several = pc.is_in(together["hour"], counts.field(0).filter(pc.greater(counts.field(1), 1)))
        alone, together = together.filter(pc.invert(several)), together.filter(several)
        parts = -(-len(together) // _MERGED)
        return pa.concat_tables(
            [
                alone,
                *(
                    self._query("tiles", together, self._merge_sql, {"parts": parts, "part": part})
                    for part in range(parts)
                ),
            ]
        )

    def _compute(self, events: pa.Table) -> pa.Table:
        return self._query("events", events, self._sql)

    def _query(self, name: str, rows: pa.Table, sql: str, parameters: Mapping[str, int] | None = None) -> pa.Table:
        self._connection.register(name, rows)
        try:
            return self._connection.execute(sql, parameters).to_arrow_table().cast(self._schema)
        finally:
            self._connection.unregister(name)

    def _types(self) -> dict[str, str]:
        """By column of the tiles, its type in DuckDB."""
        self._connection.register("tiles", self._schema.empty_table())
        types = {name: of for name, of, *_ in self._connection.execute("DESCRIBE tiles").fetchall()}
        self._connection.unregister("tiles")
        return types


def _fold_sql(metric: ProjectedMetric, types: dict[str, str]) -> str:
    declared = metric.aggregation.metric
    keys = {"hour": HOUR, **metric.keys}
    selected = [f"{identifier(column)} AS {identifier(name)}" for name, column in keys.items()]
    for name, measure in declared.stored_measures.items():
        aggregate = aggregate_of(measure)
        folds = aggregate.folds([identifier(column) for column in metric.values[name]])
        for column, sql in zip(aggregate.columns(name), folds, strict=True):
            selected.append(f"({sql})::{types[column]} AS {identifier(column)}")
    where = f" WHERE {' AND '.join(map(identifier, metric.conditions))}" if metric.conditions else ""
    by = ", ".join(str(number) for number in range(1, len(keys) + 1))
    return f"SELECT {', '.join(selected)} FROM events{where} GROUP BY {by}"


def _merge_sql(metric: ProjectedMetric, types: dict[str, str]) -> str:
    declared = metric.aggregation.metric
    keys = [identifier(name) for name in ("hour", *metric.keys)]
    merged = [
        f"({sql})::{types[column]} AS {identifier(column)}"
        for name, measure in declared.stored_measures.items()
        for column, sql in merged_columns(name, measure, types).items()
    ]
    by = ", ".join(str(number) for number in range(1, len(keys) + 1))
    of_part = f"hash({', '.join(keys)}) % $parts::UBIGINT = $part"
    return f"SELECT {', '.join([*keys, *merged])} FROM tiles WHERE {of_part} GROUP BY {by}"
