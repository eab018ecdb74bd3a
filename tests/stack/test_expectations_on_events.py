"""Expectations on whole hours of events, evaluated in Spark for many hours at once, beside plain Python."""

import math
import random
from collections.abc import Iterator
from datetime import UTC, datetime
from statistics import mean, stdev
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as everywhere in Spark code)

from batch_layer.audit.declared_expectations import Check, build_checks
from batch_layer.audit.event_expectations import validate_events
from batch_layer.audit.facts import as_frame
from batch_layer.audit.validator import Validation, Validator
from hourline_core.model import EventTime, Field, Project, Settings, Source
from hourline_core.model.hours import hour_text, parse_window_time
from hourline_core.model.scratch_columns import COUNTS, HOUR, OFFSET, PARTITION, TOPIC
from hourline_core.runtime.spark import spark_session
from tests.support.expectation_oracle import ORACLE, SCHEMA, N, X

HOURS = [f"2024-05-06T{hour:02}:00Z" for hour in range(12)]
KEYS = ["hour", "place"]


def user(kind: str, **parameters: Any) -> Check:
    return Check(kind, parameters, origin="user")


MOSTLY = user("expect_column_values_to_be_between", column="rate", max_value=60, mostly=0.6)
FILLED = user("expect_column_values_to_not_be_null", column="rate", mostly=0.8)
UNIQUE = user("expect_column_values_to_be_unique", column="code")
UNIQUE_IN_HOUR = user("expect_column_values_to_be_unique", column="place")
MEAN = user("expect_column_mean_to_be_between", column="rate", min_value=40, max_value=60)
NUMBER = user("expect_table_row_count_to_be_between", min_value=12)
NUMBER_OF_SHOP = user(
    "expect_column_max_to_be_between", column="rate", max_value=90, row_condition="shop='a'", condition_parser="spark"
)
SCORE = user("expect_column_value_z_scores_to_be_less_than", column="rate", threshold=1.7, double_sided=True)
CHECKS = [MOSTLY, FILLED, UNIQUE, UNIQUE_IN_HOUR, MEAN, NUMBER, NUMBER_OF_SHOP, SCORE]


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    settings = Settings.model_validate({"spark": {"master": "local[2]"}})
    session = spark_session(Project(tmp_path_factory.mktemp("events"), settings, {}, {}), "test", brief=True)
    yield session
    session.stop()


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    """Hours of different sizes. The first is empty, and in the second no rate is known."""
    chance = random.Random(22)  # noqa: S311
    return [
        {
            "hour": hour,
            "place": place,
            "code": chance.choice([None, *range(60)]),
            "rate": None if number == 1 or chance.random() < 0.15 else float(chance.randrange(100)),
            "shop": chance.choice("ab"),
        }
        for number, hour in enumerate(HOURS)
        for place in range(number * 2)
    ]


@pytest.fixture(scope="module")
def found(spark: SparkSession, rows: list[dict[str, Any]]) -> Validation:
    return Validator().evaluate_events(frame_of(spark, rows), CHECKS, known_of(rows), {}, KEYS)


def frame_of(spark: SparkSession, rows: list[dict[str, Any]]) -> DataFrame:
    return spark.createDataFrame(rows, "hour string, place int, code int, rate double, shop string").persist()


def known_of(rows: list[dict[str, Any]]) -> dict[str, dict[str, int]]:
    """The number of events of each hour, and of the values of each column."""
    return {
        hour: {
            "": len(of_hour),
            **{name: sum(row[name] is not None for row in of_hour) for name in ("place", "code", "rate")},
        }
        for hour, of_hour in by_hour(rows).items()
    }


def by_hour(rows: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    return {hour: [row for row in rows if row["hour"] == hour] for hour in HOURS}


def rates(rows: list[dict[str, Any]]) -> list[float]:
    return [row["rate"] for row in rows if row["rate"] is not None]


def outliers(rows: list[dict[str, Any]]) -> int:
    known = rates(rows)
    return sum(abs(rate - mean(known)) / stdev(known) >= 1.7 for rate in known)


def of_check(found: Validation, check: Check) -> dict[str, Any]:
    return {finding.hour: finding for finding in found.findings if finding.check is check}


def test_each_hour_of_events_passes_or_fails_by_its_own_rows(found: Validation, rows: list[dict[str, Any]]) -> None:
    def verdicts(check: Check) -> dict[str, bool]:
        return {hour: finding.success for hour, finding in of_check(found, check).items()}

    hours = by_hour(rows)
    filled = {hour: of_hour for hour, of_hour in hours.items() if of_hour}
    codes = {hour: [row["code"] for row in of_hour if row["code"] is not None] for hour, of_hour in filled.items()}
    assert verdicts(NUMBER) == {hour: len(of_hour) >= 12 for hour, of_hour in hours.items()}
    assert verdicts(UNIQUE) == {hour: bool(some) and len(set(some)) == len(some) for hour, some in codes.items()}
    assert verdicts(UNIQUE_IN_HOUR) == dict.fromkeys(filled, True)
    assert verdicts(MEAN) == {
        hour: bool(rates(of_hour)) and 40 <= mean(rates(of_hour)) <= 60 for hour, of_hour in filled.items()
    }
    assert verdicts(FILLED) == {hour: len(rates(some)) >= 0.8 * len(some) for hour, some in filled.items()}
    assert verdicts(MOSTLY) == {
        hour: bool(rates(some)) and sum(rate <= 60 for rate in rates(some)) >= 0.6 * len(rates(some))
        for hour, some in filled.items()
    }
    assert all(len(set(verdicts(check).values())) == 2 for check in CHECKS if check is not UNIQUE_IN_HOUR)


def test_a_condition_on_rows_and_a_value_of_the_hour_itself_are_kept_apart(
    found: Validation, rows: list[dict[str, Any]]
) -> None:
    """The first restricts the rows of an aggregate, and the other stands in its expression."""
    large = {hour: of_hour for hour, of_hour in by_hour(rows).items() if len(rates(of_hour)) > 2}
    shops = {hour: rates([row for row in of_hour if row["shop"] == "a"]) for hour, of_hour in large.items()}
    of_shop, scores = of_check(found, NUMBER_OF_SHOP), of_check(found, SCORE)
    assert {hour: of_shop[hour].success for hour in large} == {hour: max(some) <= 90 for hour, some in shops.items()}
    assert {hour: scores[hour].unexpected for hour in large} == {hour: outliers(some) for hour, some in large.items()}


def test_the_findings_have_the_values_of_the_hour(found: Validation, rows: list[dict[str, Any]]) -> None:
    hours = {hour: of_hour for hour, of_hour in by_hour(rows).items() if rates(of_hour)}
    means, mostly = of_check(found, MEAN), of_check(found, MOSTLY)
    assert all(math.isclose(means[hour].observed, mean(rates(of_hour))) for hour, of_hour in hours.items())
    assert {hour: mostly[hour].unexpected for hour in hours} == {
        hour: sum(rate > 60 for rate in rates(of_hour)) for hour, of_hour in hours.items()
    }
    failed = [finding for finding in mostly.values() if not finding.success and finding.unexpected]
    assert failed
    assert all(finding.rows and finding.hour in finding.rows[0] for finding in failed)


def test_the_number_of_jobs_does_not_depend_on_the_number_of_hours(
    spark: SparkSession, rows: list[dict[str, Any]]
) -> None:
    def jobs(of_hours: list[str]) -> int:
        some = [row for row in rows if row["hour"] in of_hours]
        known = {hour: of_hour for hour, of_hour in known_of(rows).items() if hour in of_hours}
        before = len(spark.sparkContext.statusTracker().getJobIdsForGroup(None))
        passing = [UNIQUE_IN_HOUR, user("expect_column_mean_to_be_between", column="rate", min_value=0), FILLED_HALF]
        found = Validator().evaluate_events(frame_of(spark, some), passing, known, {}, KEYS)
        assert all(finding.success for finding in found.findings)
        return len(spark.sparkContext.statusTracker().getJobIdsForGroup(None)) - before

    assert jobs(HOURS[4:]) == jobs(HOURS[4:6])


FILLED_HALF = user("expect_column_values_to_not_be_null", column="rate", mostly=0.3)


@pytest.mark.long  # It compares two engines of Great Expectations: the tests above have the rows.
def test_pandas_and_spark_say_the_same_of_the_same_rows(spark: SparkSession) -> None:
    """Both say what plain Python says, also of nulls, NaN, infinities and whole numbers beyond doubles."""
    chance = random.Random(7)  # noqa: S311
    hours = [datetime(2024, 5, 6, hour, tzinfo=UTC) for hour in range(12)]
    rows = [
        {"hour": hour_text(hour), "place": place, "x": chance.choice(X), "y": chance.choice(X), "n": chance.choice(N)}
        for hour in hours
        for place in range(chance.randrange(1, 5))
    ]
    source = Source(
        name="s",
        topic="s",
        fields={"x": Field(type="double"), "n": Field(type="long")},
        event_time=EventTime(expression="at"),
        expectations=[expectation for expectation, _ in ORACLE],
    )
    table = pa.Table.from_pylist(rows, SCHEMA)
    moments = pa.array([parse_window_time(str(row["hour"])) for row in rows], pa.timestamp("us", "UTC"))
    marked = spark.createDataFrame(table.append_column("moment", moments)).select(
        F.col("moment").alias(HOUR),
        F.lit("s").alias(TOPIC),
        F.lit(0).alias(PARTITION),
        F.col("place").cast("long").alias(OFFSET),
        F.lit(True).alias(COUNTS),
        "x",
        "n",
    )
    frame, types = as_frame(table, [], [])
    checks = build_checks(source.expectations, types)
    of_events = build_checks(source.expectations, dict(marked.dtypes), of_events=True)
    validator = Validator()
    of_pandas = validator.evaluate_results(frame, checks, [*map(hour_text, hours)], ["hour", "place"]).findings
    of_spark = validate_events(validator, source, marked.persist(), hours).findings
    for number, (expectation, verdict) in enumerate(ORACLE):
        wanted = {hour: verdict(of_hour) for hour, of_hour in by_hour_of(rows).items()}
        for engine, found, check in (("pandas", of_pandas, checks[number]), ("Spark", of_spark, of_events[number])):
            of_each = {finding.hour: finding.success for finding in found if finding.check == check}
            assert of_each == wanted, (expectation, engine)


def by_hour_of(rows: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(row["hour"], []).append(row)
    return found
