"""Bounds of expectations: each has the type of what it bounds, and some rows can be beyond it."""

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from hourline_core.model.base import QuotedText, describe, quoted

_OF_NUMBERS = {
    **dict.fromkeys(
        (
            "expect_column_mean_to_be_between",
            "expect_column_median_to_be_between",
            "expect_column_stdev_to_be_between",
            "expect_column_sum_to_be_between",
        ),
        (-math.inf, math.inf),
    ),
    **dict.fromkeys(
        (
            "expect_column_unique_value_count_to_be_between",
            "expect_column_value_lengths_to_be_between",
            "expect_table_column_count_to_be_between",
            "expect_table_row_count_to_be_between",
        ),
        (0.0, math.inf),
    ),
    "expect_column_proportion_of_unique_values_to_be_between": (0.0, 1.0),
}
"""The expectations that bound a number whatever the type of their column, each with the range of that number."""
_OF_VALUES = {
    "expect_column_max_to_be_between",
    "expect_column_min_to_be_between",
    "expect_column_values_to_be_between",
}
_NUMBERS = ("int", "uint", "bigint", "smallint", "tinyint", "float", "double", "decimal")


class UnfitBoundError(ValueError):
    """A bound that says nothing. ``name`` is its parameter."""

    def __init__(self, message: str, name: str) -> None:
        super().__init__(f"{name}: {message}")
        self.name = name


def refuse_unfit_bounds(kind: str, parameters: Mapping[str, Any], types: Mapping[str, str]) -> None:
    """Raise UnfitBoundError for a share or bound of the expectation ``kind`` that is no value of what it bounds, or
    that no rows can be beyond. ``types`` are those of the columns that are known.
    """
    if "mostly" in parameters and not 0 < _number("mostly", parameters, "a number") <= 1:
        raise _refuse("mostly", parameters, "a share of the rows, more than 0 and at most 1")
    given = [name for name in ("min_value", "max_value") if parameters.get(name) is not None]
    if kind in _OF_NUMBERS:
        _refuse_idle(parameters, given, *_OF_NUMBERS[kind])
    elif kind in _OF_VALUES:
        column = str(parameters.get("column"))
        for name in given:
            _refuse_other_type(name, parameters, column, types.get(column, ""))
    if len(given) == 2:
        low, high = (_comparable(parameters[name]) for name in given)
        if isinstance(low, float) and isinstance(high, float) and low > high:
            raise _refuse("max_value", parameters, f"at least min_value, which is {describe(parameters['min_value'])}")


def _refuse_idle(parameters: Mapping[str, Any], given: list[str], least: float, most: float) -> None:
    values = {name: _number(name, parameters, "a finite number") for name in given}
    can_be_below = "min_value" in values and (values["min_value"] > least or _is_strict("strict_min", parameters))
    can_be_above = "max_value" in values and (values["max_value"] < most or _is_strict("strict_max", parameters))
    if given and not can_be_below and not can_be_above:
        span = f"at least {least:g}" if math.isinf(most) else f"from {least:g} to {most:g}"
        raise _refuse(given[0], parameters, f"a bound that can be missed, since the number is always {span}")


def _is_strict(name: str, parameters: Mapping[str, Any]) -> bool:
    return str(parameters.get(name, False)).lower() == "true"


def _refuse_other_type(name: str, parameters: Mapping[str, Any], column: str, of: str) -> None:
    if of.startswith(_NUMBERS):
        _number(name, parameters, f"a finite number, since '{column}' is of type {of}")
    elif of.startswith(("date", "timestamp")):
        if not _is_moment(parameters[name]):
            raise _refuse(name, parameters, f"a date or time such as 2024-03-01, since '{column}' is of type {of}")
    elif of.startswith(("string", "bool")):
        raise _refuse(name, parameters, f"no bound, since '{column}' is of type {of}")
    elif not _is_moment(parameters[name]):
        _number(name, parameters, "a finite number, a date or a time")


def _is_moment(value: Any) -> bool:
    try:
        datetime.fromisoformat(str(value))
    except ValueError:
        return False
    return True


def _number(name: str, parameters: Mapping[str, Any], allowed: str) -> float:
    if isinstance(parameters[name], QuotedText):
        raise UnfitBoundError(quoted(parameters[name], "a number"), name)
    value = _comparable(parameters[name])
    if not isinstance(value, float) or not math.isfinite(value):
        raise _refuse(name, parameters, allowed)
    return value


def _comparable(value: Any) -> float | str:
    """The number that a bound is, or its text."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return str(value)


def _refuse(name: str, parameters: Mapping[str, Any], allowed: str) -> UnfitBoundError:
    return UnfitBoundError(f"got {describe(parameters[name])}, allowed is {allowed}", name)
