"""What Spark evaluates of events, and DuckDB folds, has the values that plain Python computes.

Each measure, each type that it accepts, each type that can be a dimension, and their edge values.
"""

import random
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import reduce
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as everywhere in Spark code)

from batch_layer.folding.plan import plan_fold
from batch_layer.folding.totals import add_up_events
from batch_layer.hour_totals import without_sketches
from batch_layer.recount.read_rows import Row, read_rows
from hourline_core.aggregates import UnsuitableArgumentError, aggregate_of
from hourline_core.compute.aggregation import plan_aggregation
from hourline_core.compute.fold_tiles import Fold, connect_for_folds
from hourline_core.compute.projection import Projection
from hourline_core.compute.resolve import empty_events, with_derived
from hourline_core.model import EventTime, Field, Measure, Metric, Project, Settings, Source
from hourline_core.model.scratch_columns import EVENT_TIME, HOUR, OFFSET, OUTCOME, PARTITION, PLACE, SEQUENCE, TOPIC_ID
from hourline_core.runtime.spark import spark_session
from hourline_core.sql.database import connect
from hourline_core.sql.sketches import install_sketch_functions
from speed_layer.intake.record_rows import with_outcome
from tests.support.examples import examples
from tests.support.recounted import find_wrong
from tests.support.user_classes import keyed_fold, user_measure
from tests.support.window_oracle import parse_window

NAN, INFINITE = float("nan"), float("inf")
DOUBLES = [0.0, -0.0, 1.5, -2.25, 1e300, -1e300, 1e-300, 1e17, NAN, INFINITE, -INFINITE]
# By field: its declared type, and its values.
FIELDS: dict[str, tuple[str, list[Any]]] = {
    "flag": ("boolean", [True, False]),
    "small": ("int", [0, 7, -(2**31), 2**31 - 1]),
    "big": ("long", [0, -5, 2**63 - 1, -(2**63)]),
    "amount": ("decimal(28,9)", [Decimal("1.234567891"), Decimal(-(10**18))]),
    "single": ("float", [0.0, -0.0, 1.5, -(2.0**99), NAN]),
    "real": ("double", DOUBLES),
    "text": ("string", ["", " ", "a", "A", "é", "e\u0301", "\x00", "a\x00b", "😀", "\uffff"]),
    "day": ("date", [date(1, 1, 3), date(1969, 12, 31), date(9999, 12, 30)]),
    "moment": ("timestamp", [datetime(1900, 1, 1, tzinfo=UTC), datetime(2024, 2, 29, 23, 59, 59, 999999, UTC)]),
    "many": ("array<double>", [[], [1.5], [0.0], [-0.0], [NAN], [None]]),
    "words": ("array<string>", [["a, b"], ["a", "b"], [None]]),
    "pair": ("struct<a: int, b: string>", [(1, "x"), (None, None), (1, None)]),
    "hour": ("int", [1, 2]),
    "event_time": ("string", ["noon"]),
    "select": ("int", [3]),
    "true": ("boolean", [False]),
}
ADDED = ("flag", "small", "big", "amount", "single", "real")
ORDERED = (*ADDED, "text", "day", "moment")
MEASURES = {
    "rows": Measure(kind="count"),
    **{f"{kind}_{name}": Measure(kind=kind, argument=name) for kind in ("sum", "mean") for name in ADDED},
    **{f"{kind}_{name}": Measure(kind=kind, argument=name) for kind in ("min", "max") for name in ORDERED},
    **{f"distinct_{name}": Measure(kind="distinct", argument=f"`{name}`") for name in FIELDS},
    "sum_of_more": Measure(kind="sum", argument="small * 2 + length(loud)"),
    "distinct_bytes": Measure(kind="distinct", argument="unhex(hex(big))"),
    **{f"variance_{name}": Measure(kind="variance", argument=name) for name in ADDED},
    **{f"{kind}_{name}": Measure(kind=kind, argument=name) for kind in ("first", "last") for name in ORDERED},
    "last_of_some": Measure(kind="last", argument="text", where="flag"),
    **{f"quantile_{name}": Measure(kind="quantile", argument=name, quantile=0.9) for name in ADDED},
    "quantile_of_some": Measure(kind="quantile", argument="real", quantile=0.5, where="flag"),
    **{f"top_{name}": Measure(kind="top", argument=name, limit=3) for name in ORDERED},
    "top_bytes": Measure(kind="top", argument="cast(unhex(hex(big)) as string)", limit=3),
    "top_of_some": Measure(kind="top", argument="text", limit=3, where="flag"),
    "stddev_of_some": Measure(kind="stddev", argument="real", where="flag"),
    "positive_rows": Measure(kind="count", where="big > 0"),
    "any": Measure(kind="any", argument="big > 0"),
    "every": Measure(kind="every", argument="flag", where="big > 0 or small is null"),
    "sum_of_some": Measure(kind="sum", argument="small", where="flag"),
    "mean_of_some": Measure(kind="mean", argument="real", where="flag"),
    "min_of_some": Measure(kind="min", argument="text", where="flag"),
    "max_of_some": Measure(kind="max", argument="amount", where="flag"),
    "distinct_of_some": Measure(kind="distinct", argument="words", where="flag"),
    "sum_of_what_raises_elsewhere": Measure(
        kind="sum", argument="if(small > 0, small, raise_error('small'))", where="small > 0"
    ),
    "distinct_of_nothing": Measure(kind="distinct", argument="cast(null as string)"),
    "spread": user_measure("spread", "small"),
    "weighted": user_measure("weighted_mean", "small, single", where="single between -2 and 2"),
    "word_counts": user_measure("word_counts", "loud"),
    "trail": keyed_fold("trail", "small"),
    "trail_of_some": keyed_fold("trail", "struct(words, `pair`, map('k', real))", where="flag"),
    "until_third": keyed_fold("until_third", "real"),
    "words": user_measure("known_words", "if(flag, text, raise_error('no flag'))", where="flag"),
}
SOURCE = Source(
    name="rows",
    topic="rows",
    fields={name: Field(type=of) for name, (of, _) in FIELDS.items()},
    event_time=EventTime(expression="moment"),
    derived={"loud": "upper(text)"},
    where="coalesce(text, '') <> 'A'",
)
METRICS = [
    Metric(name="all_measures", source="rows", measures=MEASURES, dimensions={"loud": "loud", "case": "TEXT"}),
    *(
        Metric(name=f"by_{name}", source="rows", dimensions={"key": f"`{name}`"}, measures={"rows": MEASURES["rows"]})
        for name in FIELDS
    ),
    Metric(
        name="some",
        source="rows",
        where="big > 0 or flag",
        dimensions={"order": "hour % 2", "real": "text", "bytes": "cast(text as binary)"},
        measures={"real_sum": MEASURES["sum_real"], "select": Measure(kind="max", argument="`select`")},
    ),
    Metric(
        name="by_struct",
        source="rows",
        dimensions={"key": "struct(text, 1 AS one)"},
        measures={"rows": MEASURES["rows"]},
    ),
    Metric(name="whole", source="rows", dimensions={}, measures={"rows": MEASURES["rows"]}),
    Metric(name="in_panes", source="rows", window=parse_window("20m"), measures={"rows": MEASURES["rows"]}),
    Metric(name="in_sessions", source="rows", window=parse_window("{gap: 90s}"), measures={"rows": MEASURES["rows"]}),
    Metric(
        name="with_an_expression_for_some",
        source="rows",
        where="hour = 1 and true",
        dimensions={"key": "if(hour = 1, 'one', raise_error('hour is not 1'))"},
        measures={"small": Measure(kind="max", argument="small")},
    ),
    Metric(name="all", source="rows", where="true", dimensions={}, measures={"rows": MEASURES["rows"]}),
]
HOURS = [datetime(2026, 3, 29, hour, tzinfo=UTC) for hour in range(3)]
VALUES: list[list[Any]] = [HOURS, *([None, *values] for _, values in FIELDS.values())]
"""Of a row's hour, and of each of its fields."""


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    declared = Settings.model_validate({"spark": {"master": "local[2]"}})
    session = spark_session(Project(tmp_path_factory.mktemp("fold"), declared, {"rows": SOURCE}, {}), "test")
    yield session
    session.stop()


def test_duckdb_folds_what_python_computes(spark: SparkSession) -> None:
    rand = random.Random(0)  # noqa: S311 (the same rows each time)
    compare_folds(spark, [tuple(map(rand.choice, VALUES)) for _ in range(40)])


@pytest.mark.long
@settings(max_examples=examples(4), deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(rows=st.lists(st.tuples(*map(st.sampled_from, VALUES)), min_size=1, max_size=10))
def test_duckdb_folds_what_python_computes_of_a_few_rows(spark: SparkSession, rows: list[tuple[Any, ...]]) -> None:
    compare_folds(spark, rows)


def compare_folds(spark: SparkSession, rows: list[tuple[Any, ...]]) -> None:
    """Fold the events of ``rows`` for each metric, and compare the values with those that Python recounts. Spark
    evaluates the declared arguments for both, each as it is and once more as the aggregate takes it.
    """
    events = events_of(spark, rows)
    projection = Projection(plan_aggregation(spark, SOURCE, metric) for metric in METRICS)
    accepted = with_outcome(projection.add_to(events).toArrow(), "accepted")
    archived = with_derived(events.where(F.col(OUTCOME) == "accepted"), SOURCE).withColumns(
        {SEQUENCE: F.lit(1), TOPIC_ID: F.lit("rows")}
    )
    recounted = recounted_rows(spark, archived)
    connection = connect_for_folds(METRICS)
    for name, folded in plan_fold(SOURCE, projection).metrics.items():
        metric = folded.tiles.aggregation.metric
        tiles = Fold(connection, folded.tiles).fold(accepted).tiles
        assert find_wrong(connection, metric, tiles, recounted[name]) == [], name
        counting = accepted
        for condition in folded.totals.conditions:
            counting = counting.filter(counting[condition])
        exact = {of: measure for of, measure in without_sketches(metric).measures.items() if of in metric.measures}
        totals = add_up_events(folded.totals, counting)
        by_hour = [row._replace(dimensions=()) for row in recounted[name]]
        whole = metric.model_copy(update={"dimensions": {}, "measures": exact})
        assert find_wrong(connection, whole, totals, by_hour) == [], name


def recounted_rows(spark: SparkSession, archived: DataFrame) -> dict[str, list[Row]]:
    """By metric, what is recounted of the events. Those of all metrics without a condition are read once."""
    unconditional = [metric for metric in METRICS if metric.where in (None, "true")]
    texts = sorted({text for metric in unconditional for text in metric.dimensions.values()})
    every = Metric(
        name="every", source="rows", dimensions={f"d{n}": of for n, of in enumerate(texts)}, measures=MEASURES
    )

    def read(metric: Metric) -> list[Row]:
        return [row for row in read_rows(plan_aggregation(spark, SOURCE, metric), archived) if row.fulfils]

    found = {metric.name: read(metric) for metric in METRICS if metric not in unconditional}
    rows = read(every)
    for metric in unconditional:
        places = [texts.index(text) for text in metric.dimensions.values()]
        found[metric.name] = [row._replace(dimensions=tuple(row.dimensions[at] for at in places)) for row in rows]
    return found


ZEROS = [0.0, -0.0, NAN, 1.5, None]
TIMES = [datetime(2026, 3, 29, 1, 2, 3, micros, tzinfo=UTC) for micros in (0, 1, 1000)]
NESTED: dict[str, list[Any]] = {
    "struct<a: int>": [None, (None,), (1,)],
    "struct<a: struct<b: double>>": [None, (None,), ((None,),), *(((zero,),) for zero in ZEROS)],
    "array<struct<a: float, b: string>>": [
        [],
        [None],
        [(None, None)],
        *([(zero, text)] for zero in ZEROS for text in ("-0.0", '",-0.0]', "0.0", "\\")),
    ],
    "array<array<double>>": [[[zero, other]] for zero in ZEROS for other in ZEROS],
    "array<timestamp>": [[time] for time in TIMES],
    "struct<a: timestamp_ntz>": [(time.replace(tzinfo=None),) for time in TIMES],
    "map<string, double>": [None, {}, {"a": 0.0, "b": NAN}, {"b": NAN, "a": -0.0}, {"a": 0.0}, {"a": None}],
    "map<double, timestamp>": [{zero: time} for zero in (0.0, -0.0, NAN) for time in TIMES],
    "array<decimal(28,2)>": [[Decimal("1.50")], [Decimal("1.5")], [Decimal("1.51")]],
    "double": ZEROS,
    "float": ZEROS,
    "decimal(28,2)": [Decimal("1.50"), Decimal("1.5"), Decimal(0), Decimal("-0")],
}


def test_distinct_counts_the_values_that_rows_are_grouped_by(spark: SparkSession) -> None:
    columns = [f"c{number}" for number in range(len(NESTED))]
    length = max(map(len, NESTED.values()))
    rows = [[values[number % len(values)] for values in NESTED.values()] for number in range(length)]
    events = spark.createDataFrame(rows, ", ".join(f"{name} {of}" for name, of in zip(columns, NESTED, strict=True)))
    distinct = {name: aggregate_of(Measure(kind="distinct", argument=name)) for name in columns}
    taken = [distinct[of.name].values(of.dataType.simpleString())[0] for of in events.schema]
    with connect() as database:
        install_sketch_functions(database)
        database.register(
            "taken", events.select(*(F.expr(sql).alias(f"c{n}") for n, sql in enumerate(taken))).toArrow()
        )
        folds = ", ".join(f"theta_estimate({distinct[name].folds([name])[0]})" for name in columns)
        (found,) = database.execute(f"SELECT {folds} FROM taken").fetchall()
        database.register("events", events.toArrow())
        groups = "SELECT count(*) FROM (SELECT {0} FROM events WHERE {0} IS NOT NULL GROUP BY 1)"
        groups_of = [database.execute(groups.format(name)).fetchall()[0][0] for name in columns]
    wanted = [len({repr(_comparable(value)) for value in values if value is not None}) for values in NESTED.values()]
    assert dict(zip(NESTED, found, strict=True)) == dict(zip(NESTED, wanted, strict=True))
    # No map can be grouped by.
    plain = [place for place, of in enumerate(NESTED) if not of.startswith("map")]
    assert [groups_of[place] for place in plain] == [wanted[place] for place in plain]


def test_top_counts_values_by_their_texts(spark: SparkSession) -> None:
    texts = {
        "flag": (True, "true"),
        "small": (-7, "-7"),
        "amount": (Decimal("1.5"), "1.500000000"),
        "single": (-0.0, "0.0"),
        "real": (-0.0, "0.0"),
        "text": ("a\x00b", "a\x00b"),
        "day": (date(1, 1, 3), "0001-01-03"),
        "moment": (datetime(2024, 2, 29, 23, 59, 59, 999999, UTC), "2024-02-29 23:59:59.999999"),
    }
    types = {name: SOURCE.fields[name].spark_type for name in texts}
    taken = [aggregate_of(Measure(kind="top", argument=name, limit=3)).values(of)[0] for name, of in types.items()]
    row = tuple(value for value, _ in texts.values())
    events = spark.createDataFrame([row], ", ".join(f"{name} {of}" for name, of in types.items()))
    assert list(events.select(*map(F.expr, taken)).collect()[0]) == [text for _, text in texts.values()]


def test_distinct_of_a_map_within_another_value_is_refused() -> None:
    aggregate = aggregate_of(Measure(kind="distinct", argument="m"))
    with pytest.raises(UnsuitableArgumentError, match=r"^distinct\(m\) takes no map within another value"):
        aggregate.values("array<map<string,int>>")


def _comparable(value: Any) -> Any:
    """The value, where those that are equal have the same text."""
    if isinstance(value, dict):
        return sorted((repr(_comparable(key)), _comparable(of)) for key, of in value.items())
    if isinstance(value, list | tuple):
        return [_comparable(one) for one in value]
    if isinstance(value, Decimal):
        return value.normalize() + 0
    return value + 0 if isinstance(value, float) else value


def test_a_tile_has_the_events_of_its_pane(spark: SparkSession) -> None:
    event_times = [HOURS[0] + timedelta(seconds=seconds) for seconds in (0, 1199, 1200, 2399, 2400, 3599, 3600)]
    tiles = tiles_of_times(spark, "in_panes", event_times)
    wanted = Counter(time.replace(minute=time.minute // 20 * 20, second=0) for time in event_times)
    assert {(row["hour"], row["pane"]): row["rows"] for row in tiles} == {
        (pane.replace(minute=0), pane): count for pane, count in wanted.items()
    }


def test_a_tile_of_sessions_has_its_first_and_last_event(spark: SparkSession) -> None:
    event_times = [HOURS[0] + timedelta(seconds=seconds) for seconds in (3, 5, 89.5, 90, 179, 3599)]
    tiles = tiles_of_times(spark, "in_sessions", event_times)
    found = sorted((row["session_start"], row["session_end"], row["rows"]) for row in tiles)
    assert found == [
        (event_times[first], event_times[last], last - first + 1) for first, last in ((0, 2), (3, 4), (5, 5))
    ]


def tiles_of_times(spark: SparkSession, name: str, event_times: list[datetime]) -> list[dict[str, Any]]:
    """The tiles of a metric of events that have nothing but a time."""
    rows = [(time, HOURS[time.hour], "accepted") for time in event_times]
    events = spark.createDataFrame(rows, f"{EVENT_TIME} timestamp, {HOUR} timestamp, {OUTCOME} string")
    others = [of for of in empty_events(spark, SOURCE).schema if of.name not in events.columns]
    events = events.withColumns({of.name: F.lit(None).cast(of.dataType) for of in others})
    (metric,) = (metric for metric in METRICS if metric.name == name)
    projection = Projection([plan_aggregation(spark, SOURCE, metric)])
    (projected,) = projection.metrics.values()
    fold = Fold(connect_for_folds([metric]), projected)
    found: list[dict[str, Any]] = fold.fold(projection.add_to(events).toArrow()).tiles.to_pylist()
    return found


def events_of(spark: SparkSession, rows: list[tuple[Any, ...]]) -> DataFrame:
    """Events as validation gives them, all accepted, of one record without a key."""
    fields = {name: field.spark_type for name, field in SOURCE.fields.items()}
    types = {HOUR: "timestamp", **fields, EVENT_TIME: "timestamp", PARTITION: "int", OFFSET: "bigint", PLACE: "int"}
    # Each part of the order of events has ties, but not all of them together.
    numbered = [
        (*row, row[0] + timedelta(seconds=n % 2), n // 2 % 2, n // 4 // 2, n // 4 % 2) for n, row in enumerate(rows)
    ]
    events = spark.createDataFrame(numbered, ", ".join(f"`{name}` {of}" for name, of in types.items()))
    record = empty_events(spark, SOURCE).drop(*types)
    nulls = {column.name: F.lit(None).cast(column.dataType) for column in record.schema}
    # As a rejected record: its fields are null, so it would count.
    rejected = events.limit(1).select(HOUR, *(F.lit(None).cast(of).alias(name) for name, of in events.dtypes[1:]))
    outcomes = [(events, "accepted"), (rejected, "rejected")]
    time = F.expr(f"{HOUR} + make_dt_interval(0, 0, pmod(coalesce(small, 30), 60), 7)")
    return reduce(
        DataFrame.unionByName,
        [rows.withColumns({**nulls, EVENT_TIME: time, OUTCOME: F.lit(of)}) for rows, of in outcomes],
    )
