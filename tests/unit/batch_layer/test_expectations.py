"""Great Expectations as the audit runs it: by hour, against naive Python; and what it would let pass by itself is a
failure here.
"""

import json
from collections import defaultdict
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batch_layer.audit.declared_expectations import Check, build_checks
from batch_layer.audit.expectation_mistakes import find_mistakes_in
from batch_layer.audit.facts import count_rows_and_groups, read_result_frame
from batch_layer.audit.validator import Validation, Validator
from hourline import load_project
from hourline_core.compute.aggregation import AggregationPlan
from hourline_core.ledger.layout import TIMESTAMP
from hourline_core.model import EventTime, Expectation, Field, Measure, Metric, Severity, Source
from hourline_core.sql.database import connect
from hourline_core.sql.sketches import install_sketch_functions
from tests.support.examples import examples
from tests.support.project_files import write_project

HOURS = ["2024-05-06T20:00Z", "2024-05-06T21:00Z", "2024-05-06T22:00Z"]
ROWS = st.lists(
    st.tuples(st.sampled_from(HOURS), st.sampled_from("abc"), st.one_of(st.none(), st.integers(-3, 3))), max_size=12
)
BETWEEN: dict[str, Any] = {"column": "n", "min_value": "-1", "max_value": "2"}


@pytest.fixture(scope="module")
def validator() -> Validator:
    return Validator()


def user(kind: str, severity: Severity = "fail", **parameters: Any) -> Check:
    return Check(kind, parameters, severity, "user")


def frame(rows: list[tuple[str, str, int | None]]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["hour", "page", "n"]).astype({"n": "float64"})


def verdicts(found: Validation, check: Check) -> dict[str, bool]:
    return {finding.hour: finding.success for finding in found.findings if finding.check is check}


@settings(max_examples=examples(25))
@given(rows=ROWS)
def test_each_hour_passes_or_fails_by_its_own_rows(
    validator: Validator, rows: list[tuple[str, str, int | None]]
) -> None:
    between, unique, most = (
        user("expect_column_values_to_be_between", **BETWEEN),
        user("expect_column_values_to_be_unique", column="page"),
        None,
    )
    most = user("expect_column_values_to_be_between", **BETWEEN, mostly="0.5")
    mean = user("expect_column_mean_to_be_between", column="n", max_value="1")
    count = user("expect_table_row_count_to_be_between", min_value="2")
    found = validator.evaluate_results(frame(rows), [between, unique, most, mean, count], HOURS, ["hour", "page"])

    by_hour: dict[str, list[tuple[str, int | None]]] = defaultdict(list)
    for hour, page, n in rows:
        by_hour[hour].append((page, n))
    known = {hour: [n for _, n in of_hour if n is not None] for hour, of_hour in by_hour.items()}
    within = {hour: [-1 <= n <= 2 for n in of_hour] for hour, of_hour in known.items()}
    assert verdicts(found, between) == {hour: bool(ns) and all(ns) for hour, ns in within.items()}
    assert verdicts(found, most) == {hour: bool(ns) and sum(ns) >= 0.5 * len(ns) for hour, ns in within.items()}
    assert verdicts(found, unique) == {
        hour: len({page for page, _ in of_hour}) == len(of_hour) for hour, of_hour in by_hour.items()
    }
    assert verdicts(found, mean) == {hour: bool(ns) and sum(ns) / len(ns) <= 1 for hour, ns in known.items()}
    assert verdicts(found, count) == {hour: len(by_hour[hour]) >= 2 for hour in HOURS}
    failing = {hour: sum(not one for one in ns) for hour, ns in within.items() if not all(ns)}
    assert {f.hour: f.unexpected for f in found.findings if f.check is between and f.unexpected} == failing
    for finding in (f for f in found.findings if f.check is between and f.rows):
        assert all(
            set(json.loads(row)) == {"hour", "page", "n"} and json.loads(row)["hour"] == finding.hour
            for row in finding.rows
        )


@settings(max_examples=examples(20))
@given(rows=ROWS, least=st.integers(0, 3))
def test_a_condition_chooses_the_hours_of_an_expectation(
    validator: Validator, rows: list[tuple[str, str, int | None]], least: int
) -> None:
    """In the others it is not applied. Where it applies, it finds what it would find without the condition."""
    always = [
        user("expect_column_values_to_be_between", **BETWEEN),
        user("expect_column_values_to_be_unique", column="page"),
        user("expect_table_row_count_to_be_between", min_value="2"),
    ]
    sometimes = [replace(check, when=f"rows >= {least} and hour_of_day <= 21") for check in always]
    found = validator.evaluate_results(frame(rows), [*always, *sometimes], HOURS, ["hour", "page"])
    sizes = {hour: sum(row[0] == hour for row in rows) for hour in HOURS}
    thin = {hour for hour in HOURS if sizes[hour] < least or hour == HOURS[2]}
    for one, other in zip(always, sometimes, strict=True):
        of_other = [finding for finding in found.findings if finding.check is other]
        assert {finding.hour for finding in of_other if not finding.applied} == thin
        assert all(
            finding.success and f"rows = {sizes[finding.hour]}" in finding.found
            for finding in of_other
            if not finding.applied
        )
        assert {finding.hour: (finding.success, finding.unexpected) for finding in of_other if finding.applied} == {
            finding.hour: (finding.success, finding.unexpected)
            for finding in found.findings
            if finding.check is one and finding.hour not in thin
        }


@pytest.mark.parametrize(
    "check",
    [
        user("expect_column_values_to_be_betwen", **BETWEEN),
        user("expect_column_values_to_be_between", column="n", minimum=1),
        user("expect_column_values_to_be_between", column="n", min_value="many"),
        user("expect_column_values_to_be_between", column="nosuch", min_value="1"),
        user("expect_column_values_to_be_between", column="n", min_value="2", max_value="1"),
        user("expect_column_values_to_match_regex", column="page", regex="("),
        user("expect_column_mean_to_be_between", column="page", min_value="1"),
        user("expect_column_values_to_be_between", column="null", min_value="0"),
        user("expect_column_max_to_be_between", column="null", min_value="0"),
        user("expect_column_values_to_match_like_pattern", column="page", like_pattern="a%"),
        user("unexpected_rows_expectation", unexpected_rows_query="SELECT 1"),
        user("expect_column_values_to_be_between", column="n", min_value={"$PARAMETER": "x"}),
        user("expect_column_values_to_be_between", column="n", min_value="0", mostly={"a": "1"}),
        user("expect_column_values_to_be_in_set", column="page", value_set=[]),
        user("expect_column_mean_to_be_between", column="n"),
    ],
    ids=lambda check: f"{check.type} {check.parameters}",
)
def test_what_cannot_be_evaluated_or_has_nothing_to_evaluate_fails(validator: Validator, check: Check) -> None:
    rows = frame([(HOURS[0], "a", 1), (HOURS[1], "b", 1)]).assign(null=None)
    found = validator.evaluate_results(rows, [check], HOURS[:2], ["hour", "page"])
    assert verdicts(found, check) == {HOURS[0]: False, HOURS[1]: False}
    assert all(finding.found for finding in found.findings)


def test_null_is_fine_where_it_is_what_is_asked_for(validator: Validator) -> None:
    rows = frame([(HOURS[0], "a", None)])
    checks = [
        user("expect_column_values_to_be_null", column="n"),
        user("expect_column_values_to_not_be_null", column="page"),
    ]
    assert all(finding.success for finding in validator.evaluate_results(rows, checks, HOURS[:1], ["hour"]).findings)


def test_rows_of_an_hour_that_was_not_asked_for_fail_all(validator: Validator) -> None:
    check = Check("expect_column_values_to_be_in_set", {"column": "hour", "value_set": HOURS[:1]})
    found = validator.evaluate_results(frame([(HOURS[0], "a", 1), (HOURS[1], "a", 1)]), [check], HOURS[:1], ["hour"])
    assert verdicts(found, check) == {HOURS[0]: False}


def test_a_warning_does_not_block(validator: Validator) -> None:
    checks = [
        user("expect_column_values_to_be_between", severity, column="n", min_value="5") for severity in ("warn", "fail")
    ]
    found = validator.evaluate_results(frame([(HOURS[0], "a", 1)]), checks, HOURS[:1], ["hour"])
    assert [(finding.success, finding.blocks) for finding in found.findings] == [(False, False), (False, True)]


@pytest.mark.parametrize(
    ("kind", "value", "listed", "unlisted"),
    [
        ("bool", True, "true", "no"),
        ("int64", 2**53 + 1, str(2**53 + 1), str(2**53)),
        ("double", 0.5, "0.5", "0.25"),
        ("decimal128(9, 2)", 0.1, "0.10", "0.11"),
        ("date32[day]", date(2026, 1, 1), "2026-01-01", "2026-01-02"),
        (
            "timestamp[us, tz=UTC]",
            datetime(2026, 1, 1, 12, tzinfo=UTC),
            "2026-01-01T13:00:00+01:00",
            "2026-01-01T13:00:00Z",
        ),
        ("string", "1", "1", "2"),
    ],
)
def test_the_values_of_a_set_are_those_of_the_column(
    validator: Validator, kind: str, value: object, listed: str, unlisted: str
) -> None:
    rows = pd.DataFrame({"hour": HOURS[:2], "x": pd.Series([value, None], dtype=object)})
    declared = [
        Expectation(type=f"expect_column_values_to_{sign}be_in_set", parameters={"column": "x", "value_set": [text]})
        for sign in ("", "not_")
        for text in (listed, unlisted)
    ]
    checks = build_checks(declared, {"x": kind})
    found = validator.evaluate_results(rows, checks, HOURS[:1], ["hour"])
    assert [verdicts(found, check)[HOURS[0]] for check in checks] == [True, False, False, True]


@pytest.mark.parametrize(
    "kind", ["bool", "int64", "double", "decimal128(9, 2)", "date32[day]", "timestamp[us, tz=UTC]"]
)
def test_a_value_that_its_column_cannot_have_is_no_expectation(validator: Validator, kind: str) -> None:
    declared = [
        Expectation(
            type="expect_column_values_to_not_be_in_set", parameters={"column": "x", "value_set": ["wednesday"]}
        )
    ]
    (check,) = build_checks(declared, {"x": kind})
    found = validator.evaluate_results(pd.DataFrame({"hour": HOURS[:1], "x": ["x"]}), [check], HOURS[:1], ["hour"])
    assert verdicts(found, check) == {HOURS[0]: False}
    assert "'wednesday' is no value" in found.findings[0].found


def test_a_window_has_its_start_and_end_in_the_place_of_the_hour(validator: Validator, tmp_path: Path) -> None:
    about = "expect_column_values_to_not_be_null: {column: %s}, about: window"
    expected = "".join(f"  - {{{about % column}}}\n" for column in ("window_start", "page", "hour"))
    files = {
        "hourline.yaml": "name: p\n",
        "sources/s.yaml": "topic: t\nfields: {page: string, at: string}\nevent_time: at\n",
        "metrics/m.yaml": "source: s\nwindow: 1 day\ndimensions: [page]\nmeasures: {n: count}\nexpectations:\n"
        + expected,
    }
    project = load_project(write_project(tmp_path, files))
    assert find_mistakes_in(project, project.metrics["m"], validator) == [
        "metrics/m.yaml:8: expectations.2: there is no column 'hour' (there is: n, page, window_end, window_start)"
    ]
    # Rows are grouped by the start of the window, also where it is within an hour.
    starts = ["2024-05-06T20:05Z", "2024-05-06T20:10Z"]
    rows = pd.DataFrame(
        {"window_start": [starts[0], *starts], "window_end": [*starts, starts[1]], "n": [1.0, 2.0, 3.0]}
    )
    keys = ["window_start", "window_end"]
    at_most = replace(user("expect_column_values_to_be_between", column="n", max_value=2), unit="window")
    total = replace(user("expect_column_sum_to_be_between", column="n", max_value=3), when="hour_of_day = 20")
    found = validator.evaluate_results(rows, [at_most, total], starts, keys)
    assert verdicts(found, at_most) == {starts[0]: True, starts[1]: False}
    assert verdicts(found, total) == {starts[0]: True, starts[1]: True}


def test_dimensions_stay_what_they_are() -> None:
    """Whole numbers beside null, decimals, not-a-number beside null: groups that differ stay different."""
    dimensions = {
        "id": pa.array([2**53, 2**53 + 1, None, 1], pa.int64()),
        "price": pa.array(
            [Decimal("12345678901234567.01"), Decimal("12345678901234567.02"), None, None], pa.decimal128(20, 2)
        ),
        "ratio": pa.array([float("nan"), None, 1.0, 1.0]),
    }
    schema = pa.schema(
        {"hour": TIMESTAMP, **{name: column.type for name, column in dimensions.items()}, "n": pa.int64()}
    )
    tiles = pa.table(
        [pa.array([datetime(2024, 5, 6, 20, tzinfo=UTC)] * 4, TIMESTAMP), *dimensions.values(), pa.array([1, 2, 3, 4])],
        schema=schema,
    )
    source = Source(name="s", topic="s", fields={"id": Field(type="long")}, event_time=EventTime(expression="at"))
    metric = Metric(
        name="m", source="s", dimensions={name: name for name in dimensions}, measures={"n": Measure.parse("count")}
    )
    aggregation = AggregationPlan(source, metric, schema)
    connection = connect()
    assert list(count_rows_and_groups(connection, aggregation, tiles).values()) == [(4, 4)]
    assert list(
        count_rows_and_groups(connection, aggregation, pa.concat_tables([tiles, tiles.slice(1, 1)])).values()
    ) == [(5, 4)]
    frame, types = read_result_frame(connection, aggregation.metric, tiles)
    assert sorted(frame["id"].dropna()) == [1, 2**53, 2**53 + 1]
    assert (types["id"], types["price"]) == ("int64", "double")


@pytest.mark.parametrize(
    ("declared", "is_read"),
    [
        ([], False),
        ([("expect_column_values_to_not_be_null", {"column": "n"})], False),
        ([("expect_column_values_to_not_be_null", {"column": "pages"})], True),
        ([("expect_column_max_to_be_between", {"column": "n", "row_condition": "pages == ''"})], True),
        ([("expect_table_column_count_to_equal", {"value": 3})], True),
    ],
)
def test_a_list_of_each_group_is_made_for_an_expectation_that_reads_it(
    declared: list[tuple[str, dict[str, Any]]], is_read: bool
) -> None:
    metric = Metric(
        name="m",
        source="s",
        measures={"pages": Measure.parse("top(page, 1)"), "n": Measure.parse("count")},
        expectations=[Expectation(type=kind, parameters=parameters) for kind, parameters in declared],
    )
    connection = connect()
    install_sketch_functions(connection)
    tiles = connection.execute(
        "SELECT hour, top_fold(page) AS pages, count(page) AS pages__n, count(*) AS n "
        "FROM (VALUES (TIMESTAMPTZ '2024-05-06 20:00:00+00', 'a')) v(hour, page) GROUP BY hour"
    ).to_arrow_table()
    frame, types = read_result_frame(connection, metric, tiles)
    assert [*frame] == (["hour", "pages", "n"] if is_read else ["hour", "n"])
    assert [*types] == ["hour", "pages", "n"]
    assert (types["hour"], types["n"]) == ("string", "int64")


def test_the_parameters_of_an_expectation_cost_one_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    # The audit must have imported Great Expectations before.
    from great_expectations.expectations import expectation as module
    from great_expectations.expectations.core.expect_column_values_to_be_between import ExpectColumnValuesToBeBetween
    from great_expectations.expectations.expectation_configuration import ExpectationConfiguration

    built: list[dict[str, Any]] = []

    def count(**given: Any) -> Any:
        built.append(given)
        return ExpectationConfiguration(**given)

    monkeypatch.setattr(module, "ExpectationConfiguration", count)
    expectation = ExpectColumnValuesToBeBetween(column="n", min_value=1, max_value=3)
    collected = expectation._get_runtime_kwargs({"result_format": "BASIC"})
    assert len(built) == 1
    assert (collected["column"], collected["min_value"], collected["max_value"]) == ("n", 1, 3)
    assert (collected["mostly"], collected["result_format"]["result_format"]) == (1, "BASIC")
    expectation.max_value = 4
    assert expectation._get_success_kwargs()["max_value"] == 4
    assert len(built) == 2
    assert expectation.configuration.kwargs == {"column": "n", "min_value": 1, "max_value": 4}


def test_a_session_is_one_row_so_only_rows_are_expected(validator: Validator, tmp_path: Path) -> None:
    expected = [
        "expect_column_values_to_be_between: {column: n, max_value: 9}",
        "expect_column_pair_values_a_to_be_greater_than_b: {column_A: n, column_B: o}",
        "expect_column_values_to_be_between: {column: n, max_value: 9, mostly: 0.9}",
        "expect_column_sum_to_be_between: {column: n, max_value: 9}",
        "expect_column_values_to_be_unique: {column: page}",
        "expect_column_values_to_be_between: {column: n, max_value: 9, mostly: many}",
    ]
    files = {
        "hourline.yaml": "name: p\n",
        "sources/s.yaml": "topic: t\nfields: {page: string, at: string}\nevent_time: at\n",
        "metrics/m.yaml": "source: s\nwindow: {gap: 30m}\ndimensions: [page]\nmeasures: {n: count, o: count}\n"
        "expectations:\n" + "".join(f"  - {{{one}, about: window}}\n" for one in expected) + f"  - {{{expected[3]}}}\n",
    }
    project = load_project(write_project(tmp_path, files))
    said = (
        "compares rows, and a session is one row: allowed are expectations on each row, such as "
        "expect_column_values_to_be_between without mostly"
    )
    *about_rows, not_a_number = find_mistakes_in(project, project.metrics["m"], validator)
    assert not_a_number.startswith("metrics/m.yaml:11: expectations.5: expect_column_values_to_be_between: mostly: ")
    assert about_rows == [
        f"metrics/m.yaml:{line}: expectations.{line - 6}: {kind} {said}"
        for line, kind in (
            (8, "expect_column_values_to_be_between"),
            (9, "expect_column_sum_to_be_between"),
            (10, "expect_column_values_to_be_unique"),
        )
    ]


def test_a_session_without_a_value_blocks_nothing(validator: Validator) -> None:
    check = Check(
        "expect_column_values_to_be_between", {"column": "n", "max_value": 9}, unit="window", of_sessions=True
    )
    frame = pd.DataFrame({"hour": ["2024-03-01T10"], "n": [float("nan")]})
    (finding,) = validator.evaluate_results(frame, [check], ["2024-03-01T10"], ["hour"]).findings
    assert finding.success
