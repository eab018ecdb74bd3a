"""Each measure over each type: in whatever parts DuckDB folds and merges events, the answer is that of plain Python.

Spark evaluates what a measure takes of an event. Here, Python does; tests/stack/test_fold_tiles.py has Spark do it.
"""

import math
import random
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import cache
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from batch_layer.folding.plan import FoldedMetric, plan_fold
from batch_layer.folding.totals import add_up_events, add_up_states
from batch_layer.recount.read_rows import Row
from hourline_core.aggregates import aggregate_of
from hourline_core.aggregates.user_classes.fold_class import ORDER
from hourline_core.compute.aggregation import AggregationPlan
from hourline_core.compute.fold_tiles import Fold, connect_for_folds
from hourline_core.compute.projection import Projection
from hourline_core.ledger.layout import TIMESTAMP
from hourline_core.model import EventTime, Field, Measure, MeasureKind, Metric, Source
from hourline_core.model.scratch_columns import EVENT_TIME, HOUR, OFFSET, PARTITION, PLACE, TOPIC
from hourline_core.sql.database import connect
from hourline_core.sql.sketches import install_sketch_functions
from tests.support.examples import examples
from tests.support.recounted import find_wrong
from tests.support.user_classes import keyed_fold, user_measure

NAN, INFINITE = math.nan, math.inf
HOURS = [datetime(2026, 3, 29, hour, tzinfo=UTC) for hour in range(2)]
# By field: its declared type, that of its column, and values that hold surprises. Doubles are small enough for any sum.
FIELDS: dict[str, tuple[str, pa.DataType, list[Any]]] = {
    "flag": ("boolean", pa.bool_(), [True, False]),
    "small": ("int", pa.int32(), [0, 7, -(2**31), 2**31 - 1]),
    "big": ("long", pa.int64(), [0, -5, 2**63 - 1, -(2**63)]),
    "amount": ("decimal(28,9)", pa.decimal128(28, 9), [Decimal("1.234567891"), Decimal(-(10**18)), Decimal(0)]),
    "single": ("float", pa.float32(), [0.0, -0.0, 1.5, -(2.0**99), NAN]),
    "real": ("double", pa.float64(), [0.0, -0.0, 1.5, -2.25, 1e300, -1e300, 1e-300, 1e17, NAN, INFINITE, -INFINITE]),
    "text": ("string", pa.string(), ["", " ", "a", "A", "é", "e\u0301", "\x00", "a\x00b", "😀", "\uffff"]),
    "day": ("date", pa.date32(), [date(1, 1, 3), date(1969, 12, 31), date(9999, 12, 30)]),
    "moment": (
        "timestamp",
        TIMESTAMP,
        [datetime(1900, 1, 1, tzinfo=UTC), datetime(2024, 2, 29, 23, 59, 59, 999999, UTC)],
    ),
    "many": ("array<double>", pa.list_(pa.float64()), [[], [1.5], [0.0], [-0.0], [NAN], [None]]),
    "pair": (
        "struct<a: int, b: string>",
        pa.struct({"a": pa.int32(), "b": pa.string()}),
        [{"a": 1, "b": "x"}, {"a": None, "b": None}, {"a": 1, "b": None}],
    ),
}
SOURCE = Source(
    name="rows",
    topic="rows",
    fields={name: Field(type=of) for name, (of, *_) in FIELDS.items()},
    event_time=EventTime(expression="moment"),
)
NUMBERS = ("flag", "small", "big", "amount", "single", "real")
ORDERED = (*NUMBERS, "text", "day", "moment")
SPREADS: tuple[MeasureKind, ...] = ("variance", "stddev", "var_pop", "stddev_pop")
MEASURES = {
    "rows": Measure(kind="count"),
    "rows_of_some": Measure(kind="count", where="flag"),
    **{f"{kind}_{name}": Measure(kind=kind, argument=name) for kind in ("sum", "mean", *SPREADS) for name in NUMBERS},
    **{
        f"{kind}_{name}": Measure(kind=kind, argument=name)
        for kind in ("min", "max", "first", "last")
        for name in ORDERED
    },
    **{f"distinct_{name}": Measure(kind="distinct", argument=name) for name in ORDERED},
    **{f"quantile_{name}": Measure(kind="quantile", argument=name, quantile=0.7) for name in NUMBERS},
    **{f"top_{name}": Measure(kind="top", argument=name, limit=3) for name in ORDERED},
    **{kind: Measure(kind=kind, argument="flag") for kind in ("any", "every")},
    **{
        f"{kind}_of_some": Measure(kind=kind, argument="real", where="flag")
        for kind in ("sum", "mean", "min", "last", "distinct", "stddev")
    },
    "quantile_of_some": Measure(kind="quantile", argument="real", quantile=1, where="flag"),
    "top_of_some": Measure(kind="top", argument="text", limit=2, where="flag"),
    "every_of_some": Measure(kind="every", argument="flag", where="flag"),
    "spread": user_measure("spread", "small"),
    "weighted": user_measure("weighted_mean", "small, single", where="flag"),
    "word_counts": user_measure("word_counts", "text"),
    "trail": keyed_fold("trail", "small"),
    "trail_of_some": keyed_fold("trail", "day", where="flag"),
    "until_third": keyed_fold("until_third", "real"),
}
METRICS = [
    Metric(name="whole", source="rows", measures=MEASURES),
    *(
        Metric(name=f"by_{name}", source="rows", dimensions={"key": f"`{name}`"}, measures={"n": MEASURES["rows"]})
        for name in FIELDS
    ),
]
ROW = st.fixed_dictionaries(
    {name: st.none() | st.sampled_from(values) for name, (*_, values) in FIELDS.items()}
    | {"hour": st.sampled_from(HOURS), "part": st.integers(0, 3)}
)
GAMMA = 1.01 / 0.99
"""The quotient of the bounds of a quantile's bucket."""


@settings(max_examples=examples(5), deadline=None, phases=[Phase.generate])
@given(rows=st.lists(ROW, min_size=1, max_size=30), together=st.integers(1, 4))
def test_events_in_parts_are_folded_and_merged_to_the_answer_over_all(
    rows: list[dict[str, Any]], together: int
) -> None:
    compare(METRICS[0], rows, together)


def test_events_are_grouped_by_values_of_each_type() -> None:
    rand = random.Random(0)  # noqa: S311 (the same rows each time)
    values = {name: [None, *of] for name, (*_, of) in FIELDS.items()} | {"hour": HOURS, "part": range(4)}
    rows = [{name: rand.choice(of) for name, of in values.items()} for _ in range(60)]
    for metric in METRICS[1:]:
        compare(metric, rows, 2)


def compare(metric: Metric, rows: list[dict[str, Any]], together: int) -> None:
    """Fold the parts of ``rows``, and merge some of them before the others. Add them up by Arrow, too."""
    events = [with_address(row, number) for number, row in enumerate(rows)]
    folded = folded_metrics()[metric.name]
    fold = Fold(connection(), folded.tiles)
    tables = [table(folded, [event for event in events if event["part"] == part]) for part in range(4)]
    tiles = [fold.fold(one).tiles for one in tables]
    merged = pa.concat_tables([fold.merge(tiles[:together]), *tiles[together:]])
    assert find_wrong(connection(), metric, merged, [as_row(metric, event) for event in events]) == []
    totals = [add_up_events(folded.totals, one) for one in tables]
    exact = folded.totals.aggregation.metric
    added = add_up_states(folded.totals, totals)
    assert find_wrong(connection(), exact, added, [as_row(exact, event) for event in events]) == []


@cache
def connection() -> duckdb.DuckDBPyConnection:
    """One for all examples: to open it takes longer than to ask it."""
    return connect_for_folds(METRICS)


@cache
def folded_metrics() -> dict[str, FoldedMetric]:
    return {metric.name: plan(metric) for metric in METRICS}


def plan(metric: Metric) -> FoldedMetric:
    states: dict[str, pa.DataType] = {}
    for name, measure in metric.measures.items():
        aggregate = aggregate_of(measure)
        states |= zip(aggregate.columns(name), aggregate.state_types(argument_type(measure)), strict=True)
    keys = {name: FIELDS[text.strip("`")][1] for name, text in metric.dimensions.items()}
    values = {name: aggregate_of(measure).values(spark_type(measure)) for name, measure in metric.measures.items()}
    aggregation = AggregationPlan(SOURCE, metric, pa.schema({"hour": TIMESTAMP, **keys, **states}), values)
    return plan_fold(SOURCE, Projection([aggregation])).metrics[metric.name]


def argument_type(measure: Measure) -> pa.DataType:
    if measure.user_measure:
        return pa.struct([pa.field(name, FIELDS[name][1]) for name in measure.arguments])
    return FIELDS[measure.argument][1] if measure.argument else pa.null()


def spark_type(measure: Measure) -> str:
    types = [SOURCE.fields[name].spark_type for name in measure.arguments] if measure.argument else []
    return f"struct<{','.join(types)}>" if measure.user_measure else "".join(types)


def with_address(row: dict[str, Any], number: int) -> dict[str, Any]:
    """An event. Each part of the order of events has ties, but not all of them together."""
    address = {PARTITION: number // 2 % 2, OFFSET: number // 4 // 2, PLACE: number // 4 % 2, TOPIC: "t"}
    return {**row, EVENT_TIME: row["hour"] + timedelta(seconds=number % 2), **address}


def as_row(metric: Metric, event: dict[str, Any]) -> Row:
    dimensions = tuple(event[text.strip("`")] for text in metric.dimensions.values())
    arguments = {name: recounted(measure, event) for name, measure in metric.measures.items()}
    address = (event[PARTITION], event[OFFSET], event[PLACE], event[TOPIC])
    return Row(event[EVENT_TIME], 1, "t", *address, None, True, True, dimensions, arguments)


def recounted(measure: Measure, event: dict[str, Any]) -> tuple[Any, ...]:
    """What is recounted of an event: the arguments, but for what has another form anyway."""
    if measure.kind == "count":
        return (event[measure.where],) if measure.where else ()
    if measure.kind in ("distinct", "top"):
        return (taken(measure, event),)
    return arguments_of(measure, event)


def arguments_of(measure: Measure, event: dict[str, Any]) -> tuple[Any, ...]:
    """All of them are null, or none is, for a class."""
    arguments = tuple(event[name] for name in measure.arguments)
    counts = (measure.where is None or event[measure.where]) and None not in arguments
    return arguments if counts else (None,) * len(arguments)


def taken(measure: Measure, event: dict[str, Any]) -> Any:
    """What the measure takes of an event, as ``Aggregate.values`` declares it."""
    if measure.kind == "count":
        return measure.where and event[measure.where]
    (value,) = arguments_of(measure, event)
    if value is None:
        return None
    if measure.kind in ("first", "last"):
        order = dict(zip(ORDER, (event[name] for name in (EVENT_TIME, PARTITION, OFFSET, PLACE, TOPIC)), strict=True))
        return {**order, "value": value}
    return TAKEN.get(measure.kind, unsigned)(value)


def unsigned(value: Any) -> Any:
    """The value, where -0.0 is 0.0."""
    return value + 0.0 if isinstance(value, float) else value


def double(value: Any) -> float:
    return NAN if isinstance(value, float) and not abs(value) < 1e144 else float(value)


def bucket(value: Any) -> int | None:
    if math.isnan(x := float(value)):
        return None
    zero, largest = math.ceil(math.log(1e-9, GAMMA)) - 1, math.ceil(math.log(1e18, GAMMA))
    magnitude = min(abs(x), 1e18)
    exponent = min(math.ceil(math.log(magnitude, GAMMA)), largest) if magnitude else zero
    return int(math.copysign(max(exponent - zero, 0), x))


def counted(value: Any) -> Any:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else f".{value}"


TAKEN: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("sum", "mean"), lambda value: int(value) if isinstance(value, bool) else value),
    **dict.fromkeys(SPREADS, double),
    "quantile": bucket,
    "distinct": counted,
    "top": lambda value: str(unsigned(value)),
}
"""By kind, what it takes of the value of its argument. The others take the value itself."""


def taken_type(measure: Measure) -> pa.DataType:
    of = argument_type(measure)
    if measure.kind in ("first", "last"):
        return aggregate_of(measure).state_types(of)[0]
    exact = pa.decimal128(19, 0) if pa.types.is_int64(of) else of if pa.types.is_decimal(of) else pa.int64()
    number = pa.float64() if pa.types.is_floating(of) else exact
    types = {
        "count": pa.bool_(),
        **dict.fromkeys(("sum", "mean"), number),
        **dict.fromkeys(SPREADS, pa.float64()),
        "quantile": pa.int32(),
        "distinct": pa.int64() if pa.types.is_integer(of) else number if pa.types.is_floating(of) else pa.string(),
        "top": pa.string(),
    }
    return types.get(measure.kind, of)


def table(folded: FoldedMetric, events: list[dict[str, Any]]) -> pa.Table:
    """The events with the columns of a metric, as Spark projects them."""
    own: Mapping[str, pa.DataType] = {
        HOUR: TIMESTAMP,
        EVENT_TIME: TIMESTAMP,
        PARTITION: pa.int32(),
        OFFSET: pa.int64(),
        PLACE: pa.int32(),
        TOPIC: pa.string(),
        **{name: of for name, (_, of, _) in FIELDS.items()},
    }
    columns = {
        name: pa.array([{**event, HOUR: event["hour"]}[name] for event in events], of) for name, of in own.items()
    }
    for name, names in folded.tiles.values.items():
        measure = folded.tiles.aggregation.metric.measures[name]
        if measure.user_measure:
            types = [FIELDS[argument][1] for argument in measure.arguments]
            rows = [arguments_of(measure, event) for event in events]
        else:
            types, rows = [taken_type(measure)], [(taken(measure, event),) for event in events]
        for place, (column, of) in enumerate(zip(names, types, strict=False)):
            if column not in own:
                columns[column] = pa.array([row[place] for row in rows], of)
    return pa.table(columns)


def test_distinct_counts_stay_near_the_truth_when_they_are_many() -> None:
    (fold,) = aggregate_of(Measure(kind="distinct", argument="x")).folds(["i"])
    with connect() as database:
        install_sketch_functions(database)
        database.execute(
            f"CREATE TABLE states AS SELECT i % 7 AS part, {fold} AS n FROM range(40000) AS t(i) GROUP BY 1"
        )
        ((one_way,),) = database.sql("SELECT distinct_count(n) FROM (FROM states ORDER BY part)").fetchall()
        ((other_way,),) = database.sql(
            "SELECT distinct_count(n) FROM (SELECT distinct_merge(n) AS n FROM states GROUP BY part % 2 ORDER BY part % 2 DESC)"
        ).fetchall()
    assert one_way == other_way
    assert one_way == pytest.approx(40_000, rel=0.05)


def test_frequent_values_of_many_are_within_the_told_error() -> None:
    counts = {n: 20_000 // n for n in range(1, 3_000)}
    events = pa.table({"x": [str(n) for n, times in counts.items() for _ in range(times)]})
    events = events.append_column("part", pa.array([n % 7 for n in range(len(events))]))
    top = aggregate_of(Measure(kind="top", argument="x", limit=20))
    folds = ", ".join(f"{sql} AS {name}" for name, sql in zip(top.columns("t"), top.folds(["x"]), strict=True))
    with connect() as database:
        install_sketch_functions(database)
        database.register("events", events)
        database.execute(f"CREATE TABLE states AS SELECT part, {folds} FROM events GROUP BY part")
        merged = "SELECT top_merge(t) AS t, sum(t__n) AS t__n FROM states GROUP BY part % 2"
        for states in ("FROM states", merged):
            ((found,),) = database.sql(f"SELECT top_values(t, t__n, 20) FROM ({states})").fetchall()
            assert {int(one["value"]) for one in found[:10]} == set(range(1, 11))
            for one in found:
                assert one["count"] <= counts[int(one["value"])] <= one["count"] + one["error"]
                assert 0 < one["error"] < 0.002 * len(events)
