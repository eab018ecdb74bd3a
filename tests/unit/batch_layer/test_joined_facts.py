"""The facts of many metrics, evaluated at once."""

import math
from unittest.mock import patch

import pandas as pd
import pytest

from batch_layer.audit.built_in_expectations import Facts
from batch_layer.audit.declared_expectations import Check
from batch_layer.audit.joined_facts import UnsharedResultError
from batch_layer.audit.validator import Validator

HOURS = ["2024-05-06T20:00Z", "2024-05-06T21:00Z"]
EQUAL = {"column_A": "a", "column_B": "b", "ignore_row_if": "both_values_are_missing"}


@pytest.fixture(scope="module")
def validator() -> Validator:
    return Validator()


def check(column: str, severity: str = "fail", *, band: bool = False) -> Check:
    """That the values of a column are 0."""
    of = (column, "low", "high") if band else None
    bounds = {"column": column, "min_value": 0, "max_value": 0}
    return Check("expect_column_values_to_be_between", bounds, severity, band=of)  # type: ignore[arg-type]


def equal() -> Check:
    return Check("expect_column_pair_values_to_be_equal", EQUAL)


def facts(checks: list[Check], **columns: list[object]) -> Facts:
    return Facts(pd.DataFrame({"hour": HOURS[: len(columns["a"])], **columns}), checks)


def named(one: str, other: str) -> Check:
    return Check("expect_column_pair_values_to_be_equal", {**EQUAL, "column_A": one, "column_B": other})


COMPARED = [
    facts([equal(), check("c")], a=[1, 2], b=[1, 2], c=[0, 0]),
    facts([check("c", "warn"), equal()], a=[1, 2], b=[1, 3], c=[5, 0]),
    facts([equal(), check("d")], a=["x", None], b=["x", None], d=[0.0, math.nan]),
    facts([equal(), check("c")], a=["x", None], b=["x", "y"], c=[None, 0.0]),
    facts([check("c", band=True)], a=[1], c=[0.5], low=[0.0], high=[0.0]),
    facts([check("c", band=True)], a=[1], c=[0.0], low=[0.0], high=[0.0]),
    facts([check("c")], a=[1, 1], c=[0.5, 0.0]),
    facts([named("d", "a"), named("d", "e")], a=[1, 2], d=[1, 2], e=[1, 2]),
    facts([named("d", "a"), named("d", "e")], a=[1, 2], d=[1, 2], e=[1, 3]),
    facts([check("c")], a=[], c=[]),
]


def test_facts_that_are_evaluated_at_once_give_what_each_gives_alone_unless_they_fail(validator: Validator) -> None:
    alone = [validator.evaluate_facts(one) for one in COMPARED]
    passing = [all(one.success for one in validation.findings) for validation in alone]
    with patch.object(validator, "_run", wraps=validator._run) as run:
        together = validator.evaluate_all_facts(COMPARED)
    assert together == [one if passes else None for one, passes in zip(alone, passing, strict=True)]
    assert run.call_count < len(COMPARED)
    assert [sum(not one.success for one in validation.findings) for validation in alone] == [
        0,
        2,
        0,
        1,
        1,
        0,
        1,
        0,
        1,
        0,
    ]


def test_an_expectation_that_breaks_in_one_of_them_is_left_to_each(validator: Validator) -> None:
    broken = facts([check("c")], a=[1], c=["no number"])
    other = facts([check("c")], a=[1], c=["no number, either"])
    with pytest.raises(UnsharedResultError):
        validator.evaluate_all_facts([broken, other, *COMPARED])
