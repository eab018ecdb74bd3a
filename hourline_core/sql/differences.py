"""The differences of an hour's values between two stages of one metric, such as before and after its late events: by
how much, and in how many groups.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

import duckdb
import pyarrow as pa

from hourline_core.aggregates import TOLERANCE, aggregate_of
from hourline_core.ledger.metric_tables import MetricTables
from hourline_core.model import Metric
from hourline_core.sql.literals import identifier, literal
from hourline_core.sql.merge import merge_sql, values_sql, without_lists
from hourline_core.sql.types import column_types

MERGED_ROWS = 200_000
"""The number of state rows with sketches that are merged at once. DuckDB holds all of them, and cannot spill them."""

_NUMBERS = ("DOUBLE", "FLOAT", "DECIMAL", "HUGEINT", "BIGINT", "INTEGER", "SMALLINT", "TINYINT")


@dataclass(frozen=True)
class Stage:
    """The values of one metric at one stage, as two temporary tables: per hour and dimensions, and per hour."""

    metric: Metric
    cells: str
    totals: str


@dataclass(frozen=True)
class Difference:
    """The change of one measure of one hour from one stage to the next."""

    hour: datetime
    measure: str
    amount: float | None
    """The change over all dimensions. None: the measure is no number, or had no value before."""
    cells: int
    """The number of groups with another value."""
    beyond_rounding: bool


def make_stage(
    connection: duckdb.DuckDBPyConnection,
    name: str,
    metric: Metric,
    stored: Mapping[str, str],
    states: str,
    *,
    compared: str = "",
    with_lists: bool = False,
) -> Stage:
    """Compute a stage from the state rows of the query ``states`` (hour, dimensions, stored columns). Sketch
    functions are installed.

    Groups are there of the rows that fulfil ``compared``, a join or condition; empty: of all. ``with_lists``: measures
    whose value is a list have one over all dimensions, since the stage is compared with one of other dimensions.
    """
    stage, merged = Stage(metric, f"_cells_{name}", f"_totals_{name}"), f"_merged_{name}"
    whole = metric if with_lists else without_lists(metric)
    parts = _split(connection, metric, states)
    for number, part in enumerate(parts):
        into = "INSERT INTO {}" if number else "CREATE OR REPLACE TEMP TABLE {} AS"
        cells = values_sql(metric, stored, f"FROM ({part}) {compared}", metric.dimensions)
        connection.execute(f"{into.format(stage.cells)} {cells}")
        if len(parts) > 1:
            connection.execute(f"{into.format(merged)} {merge_sql(whole, stored, part, ['hour'])}")
    totals = values_sql(whole, stored, states if len(parts) == 1 else f"FROM {merged}", [])
    connection.execute(f"CREATE OR REPLACE TEMP TABLE {stage.totals} AS {totals}")
    return stage


def _split(connection: duckdb.DuckDBPyConnection, metric: Metric, states: str) -> list[str]:
    """Queries for the rows of the query ``states``, each with all rows of some groups. One, if there are few rows, or
    none has a sketch.
    """
    if not any(aggregate_of(measure).needs_functions for measure in metric.measures.values()):
        return [states]
    ((rows,),) = connection.execute(f"SELECT count(*) FROM ({states})").fetchall()
    count, keys = -(-rows // MERGED_ROWS), ", ".join(map(identifier, ["hour", *metric.dimensions]))
    if count <= 1:
        return [states]
    return [f"FROM ({states}) WHERE hash({keys}) % {count} = {number}" for number in range(count)]


def only_late_events(counted: str, tables: MetricTables) -> str:
    """The rows of the query ``counted`` (see ``counted_states_sql``) that came from late events."""
    return f"FROM ({counted}) t SEMI JOIN {_late(tables)}"


def without_late_events(counted: str, tables: MetricTables) -> str:
    """The rows of the query ``counted`` without those that came from late events."""
    return f"FROM ({counted}) t ANTI JOIN {_late(tables)}"


def _late(tables: MetricTables) -> str:
    return f"hourline.late_{tables.source.name} l ON l.hour = t.hour AND l.sequence = t.sequence"


def read_totals(connection: duckdb.DuckDBPyConnection, stage: Stage) -> dict[tuple[datetime, str], float | None]:
    """By hour and measure, the value over all dimensions. None if it is no number."""
    kinds = _kinds(connection, stage)
    columns = ", ".join(_as_number(name, kinds) for name in stage.metric.measures)
    rows = connection.execute(f"SELECT hour, {columns} FROM {stage.totals}").fetchall()
    return {
        (hour, name): value for hour, *values in rows for name, value in zip(stage.metric.measures, values, strict=True)
    }


def compare_stages(
    connection: duckdb.DuckDBPyConnection,
    before: Stage,
    after: Stage,
    magnitudes: Mapping[tuple[datetime, str], float] | None = None,
) -> Iterator[Difference]:
    """The changes of the measures that both stages have. ``magnitudes`` are the sizes of what was added up, if
    known. A ratio is beyond rounding where one of its operands is: that of sums that cancel out may be any number.
    """
    kinds, older = _kinds(connection, after), _kinds(connection, before)
    if [*kinds.items()] == [*older.items()] and _are_equal(connection, before, after):
        return
    known = [{"hour": hour, "measure": measure, "size": size} for (hour, measure), size in (magnitudes or {}).items()]
    columns = pa.schema({"hour": pa.timestamp("us", tz="UTC"), "measure": pa.string(), "size": pa.float64()})
    connection.register("_magnitudes", pa.Table.from_pylist(known, columns))
    declared = {name: measure for name, measure in after.metric.measures.items() if name in before.metric.measures}
    beyond: dict[str, set[datetime]] = {name: set() for name in declared}
    for name, measure in sorted(declared.items(), key=lambda item: bool(item[1].operands)):
        operands = measure.operands if measure == before.metric.measures[name] else []
        rows = connection.execute(_changes_sql(before, after, name, kinds, older)).fetchall()
        for hour, amount, cells, is_beyond in rows:
            counts = any(hour in beyond[operand] for operand in operands) if operands else is_beyond
            if counts:
                beyond[name].add(hour)
            yield Difference(hour, name, amount, cells, counts)


def _are_equal(connection: duckdb.DuckDBPyConnection, before: Stage, after: Stage) -> bool:
    """Whether two stages with the same columns have the same rows. It takes as long as the changes of one measure."""
    pairs = ((before.cells, after.cells), (before.totals, after.totals))
    equal = [
        f"(SELECT count(*) FROM {one}) = (SELECT count(*) FROM {other}) "
        f"AND NOT EXISTS (FROM {one} EXCEPT ALL FROM {other})"
        for one, other in pairs
    ]
    return connection.execute(f"SELECT {' AND '.join(equal)}").fetchone() == (True,)


def _changes_sql(before: Stage, after: Stage, measure: str, kinds: Mapping[str, str], older: Mapping[str, str]) -> str:
    """hour, amount (double), cells (bigint), beyond_rounding (boolean). Hours without a change are left out. ``kinds``
    are the types of ``after``, ``older`` those of ``before``.
    """
    together = list(before.metric.dimensions) == list(after.metric.dimensions)
    # With other dimensions the groups differ, so only the hours can be compared.
    tables, keys = (
        ((before.cells, after.cells), ["hour", *before.metric.dimensions])
        if together
        else ((before.totals, after.totals), ["hour"])
    )
    a, b = f"a.{identifier(measure)}", f"b.{identifier(measure)}"
    comparable = kinds[measure] == older[measure] or (_is_number(measure, kinds) and _is_number(measure, older))
    if not comparable:  # A measure may be declared anew, such as `last(carrier)` as `count`.
        a, b, kinds = f"{a}::VARCHAR", f"{b}::VARCHAR", {measure: "VARCHAR"}
    aggregate = aggregate_of(after.metric.measures[measure])
    same_cell = " AND ".join(f"b.{identifier(key)} IS NOT DISTINCT FROM a.{identifier(key)}" for key in keys)
    differs = f"({b} IS DISTINCT FROM {a} OR b.hour IS NULL OR a.hour IS NULL)"
    agree = aggregate.agrees(a, b) if comparable else "false"
    close = _close(a, b) if kinds[measure] in ("DOUBLE", "FLOAT") else agree
    value = _as_number(measure, kinds)
    total = f"(a.v IS DISTINCT FROM b.v AND NOT {_close('a.v', 'b.v')})"
    from_nothing = aggregate.starts_at_zero and not value.startswith("NULL")
    amount = "coalesce(a.v, 0) - coalesce(b.v, 0)" if from_nothing else "a.v - b.v"
    return f"""
        WITH m AS (SELECT hour, size FROM _magnitudes WHERE measure = {literal(measure)}), cells AS (
            SELECT coalesce(a.hour, b.hour) AS hour, count(*) FILTER ({differs}) AS cells,
                   coalesce(bool_or({differs} AND NOT {close}), false) AS beyond
            FROM {tables[0]} b FULL JOIN {tables[1]} a ON {same_cell}
            LEFT JOIN m ON m.hour = coalesce(a.hour, b.hour) GROUP BY ALL
        ), b AS (SELECT hour, {value} AS v FROM {before.totals}), a AS (SELECT hour, {value} AS v FROM {after.totals})
        -- A group that weighs more than before has the same mean, and the mean of all another one.
        SELECT hour, {amount}, cells, beyond OR {total}
        FROM cells LEFT JOIN b USING (hour) LEFT JOIN a USING (hour) LEFT JOIN m USING (hour)
        WHERE cells > 0 OR {total} ORDER BY hour"""


def _close(a: str, b: str) -> str:
    return f"coalesce(abs({a} - {b}) <= {TOLERANCE} * greatest(abs({a}), abs({b}), coalesce(m.size, 0)), false)"


def _kinds(connection: duckdb.DuckDBPyConnection, stage: Stage) -> dict[str, str]:
    return column_types(connection, stage.cells)


def _is_number(measure: str, kinds: Mapping[str, str]) -> bool:
    return kinds[measure].startswith(_NUMBERS)


def _as_number(measure: str, kinds: Mapping[str, str]) -> str:
    return f"{identifier(measure)}::DOUBLE" if _is_number(measure, kinds) else "NULL::DOUBLE"
