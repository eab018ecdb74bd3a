"""Spark's expressions beside plain Python. Every measure: however rows are split, in whatever order, Spark's partial
states merged by DuckDB are the naive answer over all of them. Windows: Spark assigns as the model does.
"""

import math
import random
import statistics
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as everywhere in Spark code)

from hourline import load_project
from hourline_core.aggregates import aggregate_of
from hourline_core.compute.check import find_unresolved
from hourline_core.compute.panes import assign_pane
from hourline_core.model import EventTime, Field, Measure, Metric, Project, Settings, Source
from hourline_core.model.scratch_columns import EVENT_TIME, OFFSET, PARTITION, PLACE, TOPIC
from hourline_core.model.windows import HOURLY, TumblingWindow
from hourline_core.runtime.spark import spark_session
from hourline_core.sql.database import connect
from hourline_core.sql.merge import finished_value, merged_columns
from hourline_core.sql.sketches import install_sketch_functions
from tests.support import oracle
from tests.support.project_files import write_project
from tests.support.user_classes import CLASSES

# By column: its Spark type, and the values that hold surprises; each column is drawn from these and from random ones.
DAY = date(2024, 2, 29)
YEARS = datetime(1900, 1, 1), datetime(9000, 1, 1)  # noqa: DTZ001 (Hypothesis adds the zone)
MOMENT = datetime(2024, 2, 29, 23, 59, 59, 999999, tzinfo=UTC)
COLUMNS: dict[str, tuple[str, st.SearchStrategy[Any]]] = {
    "flag": ("boolean", st.booleans()),
    "tiny": ("int", st.integers(-(2**31), 2**31 - 1)),
    "big": ("bigint", st.sampled_from([-(2**63), 2**63 - 1]) | st.integers(-(2**63), 2**63 - 1)),
    "amount": ("decimal(28,9)", st.decimals(-(10**18), 10**18, places=9, allow_nan=False)),
    "single": ("float", st.floats(-(2.0**99), 2.0**99, width=32)),
    "real": ("double", st.sampled_from([0.0, -0.0, 1e300]) | st.floats(-1e12, 1e12)),
    "text": (
        "string",
        st.sampled_from(["", " ", "\x00", "é", "e\u0301", "😀", "\uffff"])
        | st.text(st.characters(codec="utf-8"), max_size=5),
    ),
    "day": ("date", st.dates(date(1, 1, 3), date(9999, 12, 30)) | st.just(DAY)),
    "moment": (
        "timestamp",
        st.datetimes(*YEARS, timezones=st.just(UTC)) | st.just(MOMENT),
    ),
}
SPREADS = ("variance", "stddev", "var_pop", "stddev_pop")
NUMBERS = ("flag", "tiny", "big", "amount", "single", "real")
MEASURES = {
    "rows": Measure(kind="count"),
    **{f"{kind}_{name}": Measure(kind=kind, argument=name) for kind in ("sum", "mean") for name in NUMBERS},
    **{f"{kind}_{name}": Measure(kind=kind, argument=name) for kind in ("min", "max", "distinct") for name in COLUMNS},
    **{f"variance_{name}": Measure(kind="variance", argument=name) for name in NUMBERS},
    **{f"stddev_{name}": Measure(kind="stddev", argument=name) for name in NUMBERS},
    **{f"{kind}_{name}": Measure(kind=kind, argument=name) for kind in ("first", "last") for name in COLUMNS},
    "last_of_some": Measure(kind="last", argument="big", where="flag"),
    **{f"quantile_{name}": Measure(kind="quantile", argument=name, quantile=0.7) for name in NUMBERS},
    "quantile_of_some": Measure(kind="quantile", argument="real", quantile=1, where="flag"),
    **{f"top_{name}": Measure(kind="top", argument=name, limit=10) for name in COLUMNS},
    "top_of_some": Measure(kind="top", argument="text", limit=2, where="flag"),
    "var_pop": Measure(kind="var_pop", argument="tiny"),
    "stddev_pop": Measure(kind="stddev_pop", argument="real"),
    "any": Measure(kind="any", argument="flag"),
    "every": Measure(kind="every", argument="flag"),
    "rows_of_some": Measure(kind="count", where="flag"),
    "sum_of_some": Measure(kind="sum", argument="amount", where="flag"),
    "mean_of_some": Measure(kind="mean", argument="tiny", where="flag"),
    "min_of_some": Measure(kind="min", argument="text", where="flag"),
    "distinct_of_some": Measure(kind="distinct", argument="big", where="flag"),
    "every_of_some": Measure(kind="every", argument="flag", where="flag"),
}

ROW = st.fixed_dictionaries(
    {name: st.none() | values for name, (_, values) in COLUMNS.items()}
    | {"part": st.integers(0, 5), "second": st.integers(0, 2)}
)
# Many examples in one go, since each go costs Spark a second.
EXAMPLES = st.lists(st.lists(ROW, min_size=1, max_size=8), min_size=1, max_size=25)


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    settings = Settings.model_validate({"spark": {"master": "local[2]"}})
    source = Source(
        name="rows", topic="rows", fields={"at": Field(type="string")}, event_time=EventTime(expression="at")
    )
    session = spark_session(Project(tmp_path_factory.mktemp("measures"), settings, {"rows": source}, {}), "test")
    yield session
    session.stop()


# Shrinking would take minutes; a failing example is told with its values.
@pytest.mark.long
@settings(
    max_examples=4, deadline=None, phases=[Phase.explicit, Phase.generate], suppress_health_check=list(HealthCheck)
)
@given(examples=EXAMPLES, order=st.randoms(use_true_random=False))
def test_parts_merge_to_the_whole(
    spark: SparkSession, examples: list[list[dict[str, Any]]], order: random.Random
) -> None:
    rows = [
        {**row, "example": number, "place": place}
        for number, example in enumerate(examples)
        for place, row in enumerate(example)
    ]
    order.shuffle(rows)
    states = partial_states(spark, rows)
    answers = merged(states.take(order.sample(range(states.num_rows), states.num_rows)))
    assert len(answers) == len(examples)
    for number, example in enumerate(examples):
        for name, measure in MEASURES.items():
            # Python's sort is stable, so the place decides last.
            in_order = sorted(example, key=itemgetter("second", "part"))
            counting = [row for row in in_order if measure.where is None or row[measure.where]]
            values = [row[measure.argument] if measure.argument else 1 for row in counting]
            check(f"{name} of {values}", measure, answers[number][name], values)


def test_a_spread_that_is_small_beside_the_mean_keeps_its_digits(spark: SparkSession) -> None:
    values = [1.7e9 + (number * 7919) % 1000 / 1000 for number in range(2000)]
    variance = aggregate_of(Measure(kind="variance", argument="x"))
    partials = variance.partials(variance.values("double"))
    columns = zip(variance.columns("v"), partials, strict=True)
    rows = spark.createDataFrame([(x, number % 7) for number, x in enumerate(values)], "x double, part int")
    states = rows.groupBy("part").agg(*(F.expr(sql).alias(column) for column, sql in columns)).toArrow()
    with connect() as database:
        database.register("states", states)
        merged = ", ".join(
            merged_columns("v", variance.measure, {"v__n": "BIGINT", "v__mean": "DOUBLE", "v__m2": "DOUBLE"}).values()
        )
        ((n, mean, m2),) = database.sql(f"SELECT {merged} FROM states").fetchall()
        ((found,),) = database.sql(f"SELECT {variance.finish([str(n), repr(mean), repr(m2)])}").fetchall()
    assert found == pytest.approx(float(statistics.variance(map(Fraction, values))), rel=1e-6)


def test_distinct_counts_stay_near_the_truth_when_they_are_many(spark: SparkSession) -> None:
    events = spark.range(40_000).select(F.col("id").alias("big"), (F.col("id") % 7).alias("part"))
    distinct = aggregate_of(Measure(kind="distinct", argument="big"))
    (sql,) = distinct.partials(distinct.values("bigint"))
    states = events.groupBy("part").agg(F.expr(sql).alias("n")).toArrow()
    with connect() as database:
        install_sketch_functions(database)
        database.register("states", states)
        ((one_way,),) = database.sql("SELECT distinct_count(n) FROM (FROM states ORDER BY part)").fetchall()
        ((other_way,),) = database.sql(
            "SELECT distinct_count(n) FROM (SELECT distinct_merge(n) AS n FROM states GROUP BY part % 2 ORDER BY part % 2 DESC)"
        ).fetchall()
    assert one_way == other_way
    assert one_way == pytest.approx(40_000, rel=0.05)


def test_frequent_values_of_many_are_within_the_told_error_in_each_layer_and_in_both(spark: SparkSession) -> None:
    counts = {n: 20_000 // n for n in range(1, 3_000)}
    values = pa.table({"x": [str(n) for n, times in counts.items() for _ in range(times)]})
    top = aggregate_of(Measure(kind="top", argument="x", limit=20))
    events = spark.createDataFrame(values.append_column("part", pa.array([n % 7 for n in range(len(values))])))
    of_spark = zip(top.columns("t"), top.partials(top.values("string")), strict=True)
    states = events.groupBy("part").agg(*(F.expr(sql).alias(column) for column, sql in of_spark)).toArrow()
    with connect() as database:
        install_sketch_functions(database)
        database.register("of_spark", states)
        database.register("events", events.toArrow())
        folds = ", ".join(f"{sql} AS {name}" for name, sql in zip(top.columns("t"), top.folds(["x"]), strict=True))
        database.execute(f"CREATE TABLE of_duckdb AS SELECT part, {folds} FROM events GROUP BY part")
        both = "FROM of_spark WHERE part < 4 UNION ALL FROM of_duckdb WHERE part >= 4"
        for states_of in ("FROM of_spark", "FROM of_duckdb", both):
            ((found,),) = database.sql(f"SELECT top_values(t, t__n, 20) FROM ({states_of})").fetchall()
            assert {int(one["value"]) for one in found[:10]} == set(range(1, 11))
            for one in found:
                assert one["count"] <= counts[int(one["value"])] <= one["count"] + one["error"]
                assert 0 < one["error"] < 0.002 * len(values)


def test_spark_assigns_the_windows_of_the_model(spark: SparkSession) -> None:
    moments = [datetime(1969, 12, 31, 23, 59, 59, 999999, UTC), datetime(1970, 1, 1, tzinfo=UTC), MOMENT]
    moments += [MOMENT - timedelta(microseconds=number * 987_654_321_987) for number in range(3000)]
    for window in (HOURLY, TumblingWindow(timedelta(minutes=7)), TumblingWindow(timedelta(days=1))):
        frame = spark.createDataFrame([(moment,) for moment in [*moments, None]], "moment timestamp")
        rows = frame.select("moment", F.expr(assign_pane("moment", window.pane)).alias("pane")).toArrow().to_pylist()
        assert rows == [{"moment": moment, "pane": moment and window.assign(moment)} for moment in [*moments, None]]


def test_a_mistake_in_a_condition_is_told_with_its_line(spark: SparkSession, tmp_path: Path) -> None:
    said = {
        "sum(big) where big": ".where: 'big' is of type bigint; a condition is boolean",
        "count where bgi > 0": ".where: there is no field 'bgi' — did you mean 'big'?",
        "max(big) where rand() < 0.5": ".where: 'rand' gives another value each time",
        "ratio(n, y)\n  y: max(at)": ": 'y' is max(at) of type timestamp; ratio(n, y) needs two numbers",
        "top(array(big), 3)": ": top(array(big), 3) needs a number, text, date or time; got array<bigint>",
        "every(big)": ": every(big) needs a condition, such as x > 0; got bigint",
    }
    files = {"sources/s.yaml": "topic: t\nfields: {big: long, at: timestamp}\nevent_time: at\n", "hourline.yaml": ""}
    for number, measure in enumerate(said):
        files[f"metrics/m{number}.yaml"] = f"source: s\nmeasures:\n  n: count where big > 0\n  x: {measure}\n"
    mistakes = find_unresolved(spark, load_project(write_project(tmp_path, files)))
    for number, (words, mistake) in enumerate(zip(said.values(), mistakes, strict=True)):
        assert mistake.startswith(f"metrics/m{number}.yaml:4: measures.x{words}")


def test_a_class_that_does_not_merge_is_told_with_its_line(spark: SparkSession, tmp_path: Path) -> None:
    files = {
        "hourline.yaml": "",
        "sources/s.yaml": "topic: t\nfields: {big: long, at: timestamp}\nevent_time: at\n",
        "metrics/m.yaml": "source: s\nmeasures:\n  x: spread(big)\n  y: spread(big, 1)\n  z: ratio(w, x)\n  w: known_words(cast(at as string))\n",
        "measures/spread.py": CLASSES["spread"],
        "measures/known_words.py": CLASSES["known_words"],
    }
    assert find_unresolved(spark, load_project(write_project(tmp_path, files))) == [
        "metrics/m.yaml:4: measures.y: measures/spread.py:16: got the arguments big, 1, add takes x",
        "metrics/m.yaml:5: measures.z: 'w' is known_words(cast(at as string)) of type string; ratio(w, x) needs two numbers",
    ]
    files["metrics/m.yaml"] = files["metrics/m.yaml"].replace("  y: spread(big, 1)\n", "")
    assert find_unresolved(spark, load_project(write_project(tmp_path, files))) == [
        "metrics/m.yaml:4: measures.z: 'w' is known_words(cast(at as string)) of type string; ratio(w, x) needs two numbers"
    ]
    files["metrics/m.yaml"] = files["metrics/m.yaml"].replace("ratio(w, x)", "count")
    assert find_unresolved(spark, load_project(write_project(tmp_path, files))) == []
    files["measures/known_words.py"] = CLASSES["known_words"].replace("sorted({*one, *other})", "one + other")
    assert find_unresolved(spark, load_project(write_project(tmp_path, files))) == [
        "metrics/m.yaml:5: measures.w: measures/known_words.py:16: merge(a, b) and merge(b, a) differ: with the states a of [''], b of ['ab'], they give ',ab' and 'ab,'; parts of the events are merged in any order, so both have to be equal"
    ]


def partial_states(spark: SparkSession, rows: list[dict[str, Any]]) -> pa.Table:
    own = ("example", "part", "second", "place")
    schema = ", ".join([*(f"{name} int" for name in own), *(f"{name} {kind}" for name, (kind, _) in COLUMNS.items())])
    frame = spark.createDataFrame([tuple(row[name] for name in (*own, *COLUMNS)) for row in rows], schema)
    order = {EVENT_TIME: "timestamp_seconds(second)", PARTITION: "part", OFFSET: "7L", PLACE: "place", TOPIC: "'t'"}
    frame = frame.withColumns({name: F.expr(sql) for name, sql in order.items()})
    columns: dict[str, str] = {}
    for name, measure in MEASURES.items():
        aggregate = aggregate_of(measure)
        argument_type = COLUMNS[measure.argument][0] if measure.argument else ""
        columns |= zip(aggregate.columns(name), aggregate.partials(aggregate.values(argument_type)), strict=True)
    return (
        frame.groupBy("example", "part").agg(*(F.expr(sql).alias(column) for column, sql in columns.items())).toArrow()
    )


def merged(states: pa.Table) -> dict[int, dict[str, Any]]:
    """By example, the finished measures, merged twice: some parts first, then what came of them."""
    with connect() as database:
        install_sketch_functions(database)
        database.register("states", states)
        stored = {name: kind for name, kind, *_ in database.execute("DESCRIBE states").fetchall()}
        columns = ", ".join(
            f"{sql} AS {column}"
            for name, measure in MEASURES.items()
            for column, sql in merged_columns(name, measure, stored).items()
        )
        metric = Metric(name="rows", source="rows", measures=MEASURES)
        values = ", ".join(f"{finished_value(name, metric)} AS {name}" for name in MEASURES)
        rows = database.sql(f"""
            WITH partly AS (SELECT example, {columns} FROM states GROUP BY example, part % 2),
                 whole AS (SELECT example, {columns} FROM partly GROUP BY example)
            SELECT example, {values} FROM whole""").to_arrow_table()
    return {row["example"]: row for row in rows.to_pylist()}


_READ: dict[str | None, Callable[[str], Any]] = {
    "flag": {"true": True, "false": False}.__getitem__,
    "tiny": int,
    "big": int,
    "amount": Decimal,
    "single": np.float32,
    "real": float,
    "text": str,
    "day": date.fromisoformat,
    "moment": lambda text: datetime.fromisoformat(text).replace(tzinfo=UTC),
}
"""By column, how Python reads Spark's text of a value."""


def check_top(what: str, measure: Measure, got: Any, want: Counter[Any]) -> None:
    found = got or []
    assert (got is None) == (not want), what
    assert len(found) == min(len(want), measure.limit or 0), what
    assert found == sorted(found, key=lambda one: (-one["count"], one["value"])), what
    assert not any(one["error"] for one in found), what
    counts = {_READ[measure.argument](one["value"]): one["count"] for one in found}
    assert counts.items() <= want.items(), f"{what}: got {counts}"
    assert sorted(counts.values()) == sorted(want.values())[-len(counts) or len(want) :], f"{what}: got {counts}"


def check(what: str, measure: Measure, got: Any, values: list[Any]) -> None:
    if measure.kind == "distinct":
        values = [0.0 if value == 0 and isinstance(value, float) else value for value in values]
    if measure.kind == "top":
        check_top(what, measure, got, Counter(value for value in values if value is not None))
        return
    if measure.kind == "quantile":
        values = [None if value is None else max(-1e18, min(float(value), 1e18)) for value in values]
    want = oracle.value(measure.kind, values, measure.quantile or 0)
    known = [float(value) for value in values if isinstance(value, int | float | Decimal)]
    if measure.kind in ("sum", "mean") and want is not None and (measure.kind == "mean" or isinstance(want, float)):
        # Of doubles that cancel each other out, the error is relative to what was added, not to what is left.
        assert math.isclose(got, want, rel_tol=1e-9, abs_tol=1e-9 * math.fsum(map(abs, known))), (
            f"{what}: got {got!r}, want {want!r}"
        )
    elif measure.kind == "quantile":
        assert oracle.same(got, want, "quantile"), f"{what}: got {got!r}, want {want!r}"
    elif measure.kind in SPREADS and want is not None and got is not None:
        largest = max(map(abs, known))
        size = largest if measure.kind.startswith("stddev") else largest * largest
        near = math.isclose(got, want, rel_tol=1e-9, abs_tol=1e-9 * size) or (math.isnan(got) and math.isnan(want))
        assert near, f"{what}: got {got!r}, want {want!r}"
    else:
        assert got == want, f"{what}: got {got!r}, want {want!r}"
        assert (got is None) == (want is None)
