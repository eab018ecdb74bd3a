"""Expressions that DuckDB computes where the records are have the results of Spark, in every combination."""

from collections.abc import Iterator
from datetime import timedelta

import duckdb
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as everywhere in Spark code)

from hourline_core.compute.aggregation import plan_aggregation, plan_native_aggregation
from hourline_core.compute.native_expressions import translate
from hourline_core.compute.panes import assign_pane
from hourline_core.compute.resolve import UnresolvedError, empty_events, type_of
from hourline_core.model import Field, Measure, Metric, Project, Settings
from hourline_core.model.scratch_columns import EVENT_TIME, OFFSET
from hourline_core.runtime.spark import spark_session
from tests.support.examples import examples
from tests.support.native_rows import SOURCE, edge_rows

TEXTS = st.sampled_from(["text", "TEXT", "`other`", "part", "'a'", "''", "'10'", "' a'"])
WHOLES = st.sampled_from(["whole", "long", "0", "1", "7", "2147483647"])
DOUBLES = st.sampled_from(["double", "product", "cast(single as double)"])
FLOATS = st.sampled_from(["single", "cast(0 as float)", "cast(16777216 as float)"])
DECIMALS = st.sampled_from(["0.1", "1.5", "3.0", "123456.789012345", "0.000000000000001"])
PARTS_OF_DAY = st.sampled_from(["year", "month", "day", "dayofmonth", "dayofweek"])
PATTERNS = st.sampled_from(["a%", "%", "", "_", "a_", "%b_ ", "__z"])
MOMENTS = st.sampled_from(["moment", f"`{EVENT_TIME}`"])


def texts() -> st.SearchStrategy[str]:
    return st.recursive(
        TEXTS,
        lambda inner: st.one_of(
            st.builds("substring({}, {}, {})".format, inner, st.integers(1, 4), st.integers(0, 3)),
            st.builds("substr({}, {})".format, inner, st.integers(1, 4)),
            st.builds("concat({}, {})".format, inner, st.one_of(inner, WHOLES)),
            st.builds("({} || {})".format, inner, inner),
            st.builds("make_valid_utf8({})".format, inner),
            st.builds("coalesce({}, {})".format, inner, inner),
            st.builds("split_part({}, '{}', {})".format, inner, st.sampled_from("a1/"), st.integers(1, 3)),
            st.builds("if(is_valid_utf8({0}), concat('.', {0}), hex({0}))".format, inner),
            st.builds("cast({} as string)".format, st.one_of(inner, WHOLES)),
            st.builds("{}trim({})".format, st.sampled_from(["", "l", "r"]), inner),
            st.builds("nullif({}, {})".format, inner, inner),
            st.builds("if(truth, {}, {})".format, inner, inner),
        ),
        max_leaves=3,
    )


def numbers() -> st.SearchStrategy[str]:
    whole = st.one_of(
        WHOLES,
        st.sampled_from(["-1", "nvl(whole, 7)", "coalesce(long, long)"]),
        st.builds("length({})".format, TEXTS),
        st.builds("({} {} {})".format, WHOLES, st.sampled_from("+-*"), st.one_of(WHOLES, st.just("(long * whole)"))),
        st.builds("{}({})".format, st.sampled_from(["-", "abs"]), st.sampled_from(["whole", "long", "long - whole"])),
        st.builds(
            "{}({})".format, st.sampled_from(["floor", "ceil"]), st.one_of(DOUBLES, st.just("product - product"))
        ),
        st.builds("{}({})".format, PARTS_OF_DAY, st.one_of(MOMENTS, st.just("day"))),
        st.builds("{}({})".format, st.sampled_from(["hour", "minute"]), MOMENTS),
        st.builds("{} % {}".format, WHOLES, st.sampled_from(["1", "7", "100"])),
        st.builds("cast({} as bigint)".format, WHOLES),
    )
    double = st.recursive(
        DOUBLES,
        lambda inner: st.one_of(
            st.builds("({} {} {})".format, inner, st.sampled_from("+-*"), st.one_of(inner, WHOLES, DECIMALS)),
            st.builds("({} / {})".format, inner, DECIMALS),
            st.builds("({} / {})".format, WHOLES, st.sampled_from(["1", "7", "1000"])),
            st.builds("-{}".format, inner),
            st.builds("abs({})".format, inner),
        ),
        max_leaves=3,
    )
    return st.one_of(whole, double, st.builds("cast({} as double)".format, WHOLES))


def floats() -> st.SearchStrategy[str]:
    return st.builds("({} {} {})".format, FLOATS, st.sampled_from("+-*"), FLOATS)


def conditions() -> st.SearchStrategy[str]:
    signs = st.sampled_from(["=", "==", "<=>", "<>", "!=", "<", "<=", ">", ">="])
    days = st.sampled_from(["day", "date(moment)", "cast(moment as date)"])
    of_one_kind = [texts(), numbers(), MOMENTS, st.just("truth"), days]
    within = st.one_of(
        st.builds("{} {}LIKE '{}'".format, texts(), st.sampled_from(["", "NOT "]), PATTERNS),
        st.builds("{}({}, {})".format, st.sampled_from(["startswith", "endswith", "contains"]), texts(), texts()),
    )
    beside = st.builds("double {} {}".format, signs, st.one_of(DECIMALS, st.builds("-{}".format, DECIMALS)))
    compared = st.one_of(beside, *[st.builds("{} {} {}".format, kind, signs, kind) for kind in of_one_kind])
    listed = st.one_of([st.builds("{} IN ({}, {})".format, kind, kind, kind) for kind in of_one_kind[:3]])
    between = st.one_of([st.builds("{} BETWEEN {} AND {}".format, kind, kind, kind) for kind in of_one_kind[:3]])
    missing = st.builds("{} IS {}NULL".format, st.one_of(of_one_kind), st.sampled_from(["", "NOT "]))
    return st.recursive(
        st.one_of(compared, listed, between, missing, within, st.sampled_from(["truth", "true", "false"])),
        # Without parentheses, too: both must have the same order of operators.
        lambda inner: st.one_of(
            st.builds("{} {} {}".format, inner, st.sampled_from(["AND", "OR"]), inner),
            st.builds("NOT {}".format, inner),
            st.builds("({})".format, inner),
        ),
        max_leaves=4,
    )


def values() -> st.SearchStrategy[str]:
    of_kind = [texts(), st.sampled_from(["double", "product"]), st.just("whole")]
    cases = [
        st.one_of(
            st.builds("CASE WHEN {} THEN {} END".format, conditions(), kind),
            st.builds(
                "CASE WHEN {} THEN {} WHEN {} THEN {} ELSE {} END".format, conditions(), kind, conditions(), kind, kind
            ),
        )
        for kind in of_kind
    ]
    pane = st.sampled_from([1, 5, 30]).map(lambda size: assign_pane(f"`{EVENT_TIME}`", timedelta(minutes=size)))
    decimal = st.builds("cast({} as decimal(19,0))".format, WHOLES)
    return st.one_of(texts(), numbers(), floats(), conditions(), *cases, pane, decimal)


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    declared = Settings.model_validate({"spark": {"master": "local[2]"}})
    session = spark_session(Project(tmp_path_factory.mktemp("native"), declared, {}, {}), "test")
    yield session
    session.stop()


@settings(max_examples=examples(4), deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(expressions=st.lists(values(), min_size=60, max_size=60))
def test_native_expressions_have_the_results_of_spark(spark: SparkSession, expressions: list[str]) -> None:
    translated = {text: found for text in expressions if (found := translate(SOURCE, text))}
    assert len(translated) > 0.9 * len(set(expressions)), sorted(set(expressions) - set(translated))
    rows = edge_rows()
    derived = {name: F.expr(text) for name, text in SOURCE.derived.items()}
    events = spark.createDataFrame(rows.combine_chunks()).withColumns(derived)
    names = [f"c{number}" for number in range(len(translated))]
    columns = [F.expr(text).alias(name) for name, text in zip(names, translated, strict=True)]
    by_spark = events.select(OFFSET, *columns)
    connection = duckdb.connect(config={"threads": 1})
    connection.execute("SET TimeZone = 'UTC'")
    connection.register("rows", rows)
    native = ", ".join(f"{found.sql} AS {name}" for name, found in zip(names, translated.values(), strict=True))
    by_duckdb = connection.execute(f"SELECT {native} FROM rows").to_arrow_table()
    expected = by_spark.toArrow().sort_by(OFFSET)
    types = dict(by_spark.dtypes)
    for name, (text, found) in zip(names, translated.items(), strict=True):
        assert types[name].replace(" ", "") == found.type.replace(" ", ""), text
        assert list(map(repr, expected[name].to_pylist())) == list(map(repr, by_duckdb[name].to_pylist())), text


AGGREGATES = ["sum({})", "mean({})", "min({})", "max({})", "distinct({})", "first({})", "last({})", "any({})"]
AGGREGATES += ["top({}, 2)", "quantile({}, 0.5)", "variance({})", "count where {}", "sum(double) where {}"]
WITH_DECIMAL = SOURCE.model_copy(update={"fields": SOURCE.fields | {"price": Field(type="decimal(28, 2)")}})
NATIVE = st.one_of(st.sampled_from(["price", "listed"]), texts(), numbers(), floats(), conditions()).filter(
    lambda text: translate(WITH_DECIMAL, text) is not None
)


@settings(max_examples=examples(4), deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(
    dimensions=st.lists(NATIVE, max_size=2),
    where=st.none() | conditions().filter(lambda text: translate(WITH_DECIMAL, text) is not None),
    measures=st.lists(st.one_of([st.builds(of.format, NATIVE) for of in AGGREGATES]), min_size=8, max_size=8),
)
def test_a_metric_of_native_expressions_is_planned_as_spark_resolves_it(
    spark: SparkSession, dimensions: list[str], where: str | None, measures: list[str]
) -> None:
    """A metric with one of the measures, for each of them: some do not suit their aggregate."""
    for measure in ["count where true", *measures]:
        metric = Metric(
            name="m",
            source=SOURCE.name,
            where=where,
            dimensions={f"d{place}": text for place, text in enumerate(dimensions)},
            measures={"n": Measure(kind="count"), "x": Measure.parse(measure)},
        )
        native = plan_native_aggregation(WITH_DECIMAL, metric)
        try:
            expected = plan_aggregation(spark, WITH_DECIMAL, metric)
        except UnresolvedError:
            expected = None
        assert native == expected or (native is None and "listed" in f"{dimensions} {measure}"), measure


def test_an_element_of_a_declared_array_has_the_type_that_spark_gives_it(spark: SparkSession) -> None:
    types = ["string", "int", "long", "float", "double", "boolean", "timestamp", "date", "json", "decimal(10, 2)"]
    types += ["array<json>", "map<string, long>", "struct<`a b`: array<float>, c: smallint>"]
    for kind in types:
        fields = {"parts": Field(type=f"array<{kind}>"), "at": Field(type="timestamp")}
        source = SOURCE.model_copy(update={"fields": fields, "derived": {}, "explode": {"part": "parts"}})
        found = translate(source, "part")
        assert found
        declared = spark.sql(f"SELECT CAST(NULL AS {found.type})").schema[0].dataType
        assert type_of(empty_events(spark, source), "part", ()) == declared.simpleString(), kind
