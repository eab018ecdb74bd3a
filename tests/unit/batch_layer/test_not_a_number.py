"""Expectations on results with nulls, NaN and whole numbers beyond doubles, against plain Python."""

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from batch_layer.audit.declared_expectations import build_checks
from batch_layer.audit.facts import as_frame
from batch_layer.audit.validator import Validator
from tests.support.examples import examples
from tests.support.expectation_oracle import LARGE, ORACLE, SCHEMA, N, X

HOURS = ["2024-05-06T20:00Z", "2024-05-06T21:00Z"]
ROWS = st.lists(
    st.fixed_dictionaries(
        {"hour": st.sampled_from(HOURS), "x": st.sampled_from(X), "y": st.sampled_from(X), "n": st.sampled_from(N)}
    ),
    min_size=1,
    max_size=6,
)


@pytest.fixture(scope="module")
def validator() -> Validator:
    return Validator()


@settings(max_examples=examples(20), deadline=None, phases=[Phase.generate])
@given(ROWS)
def test_each_hour_is_judged_as_by_plain_python(validator: Validator, given_rows: list[dict[str, Any]]) -> None:
    rows = [{**row, "place": place} for place, row in enumerate(given_rows)]
    frame, types = as_frame(pa.Table.from_pylist(rows, SCHEMA), [], [])
    checks = build_checks([expectation for expectation, _ in ORACLE], types)
    found = validator.evaluate_results(frame, checks, HOURS, ["hour", "place"]).findings
    for check, (_, verdict) in zip(checks, ORACLE, strict=True):
        filled = {hour: [row for row in rows if row["hour"] == hour] for hour in HOURS}
        wanted = {hour: verdict(of_hour) for hour, of_hour in filled.items() if of_hour}
        assert {finding.hour: finding.success for finding in found if finding.check is check} == wanted, check


def test_a_failing_row_shows_its_value(validator: Validator) -> None:
    rows = [{"hour": HOURS[0], "x": float("nan"), "n": LARGE}, {"hour": HOURS[0], "x": 5.0, "n": None}]
    frame, types = as_frame(pa.Table.from_pylist(rows, SCHEMA), [], [])
    checks = build_checks([ORACLE[1][0], ORACLE[11][0]], types)
    found = validator.evaluate_results(frame, checks, HOURS[:1], ["hour", "place"]).findings
    assert [[json.loads(row) for row in finding.rows] for finding in found] == [
        [{"hour": HOURS[0], "x": "NaN", "place": None}, {"hour": HOURS[0], "x": 5.0, "place": None}],
        [{"hour": HOURS[0], "n": LARGE, "place": None}],
    ]
