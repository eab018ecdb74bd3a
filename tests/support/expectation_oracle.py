"""Expectations on numbers with nulls, NaN and infinities, each with what plain Python says of the rows of an hour."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from hourline_core.model import Expectation

LARGE = 9_007_199_254_740_993
"""The first whole number that no double has, above 2^53."""
SCHEMA = pa.schema({"hour": pa.string(), "place": pa.int32(), "x": pa.float64(), "y": pa.float64(), "n": pa.int64()})
X = [None, math.nan, -1.0, 0.0, 2.0, 3.0, math.inf]
N = [None, 0, LARGE - 1, LARGE]

Row = dict[str, Any]
Verdict = Callable[[Sequence[Row]], bool]


def _known(rows: Sequence[Row], column: str) -> list[Any]:
    return [row[column] for row in rows if row[column] is not None]


def _each(column: str, holds: Callable[[Any], bool], mostly: float = 1.0) -> Verdict:
    """Whether this share of the values that are not null fulfils something. No values fulfil nothing."""

    def verdict(rows: Sequence[Row]) -> bool:
        known = _known(rows, column)
        return bool(known) and sum(map(holds, known)) >= mostly * len(known)

    return verdict


def _of_all(of: Callable[[Sequence[float]], float], low: float, high: float) -> Verdict:
    """Whether a value over all that are not null is within bounds. NaN is in none."""

    def verdict(rows: Sequence[Row]) -> bool:
        known = _known(rows, "x")
        return bool(known) and not any(map(math.isnan, known)) and low <= of(known) <= high

    return verdict


def _declare(kind: str, severity: str = "fail", **parameters: Any) -> Expectation:
    return Expectation.model_validate({"type": f"expect_{kind}", "parameters": parameters, "severity": severity})


ORACLE: list[tuple[Expectation, Verdict]] = [
    (_declare("column_values_to_be_between", column="x", min_value=0), _each("x", lambda v: v >= 0)),
    (_declare("column_values_to_be_between", column="x", max_value=2), _each("x", lambda v: v <= 2)),
    (_declare("column_values_to_be_between", column="x", min_value=0, max_value=3), _each("x", lambda v: 0 <= v <= 3)),
    (
        _declare("column_values_to_be_between", column="x", min_value=0, mostly=0.6),
        _each("x", lambda v: v >= 0, mostly=0.6),
    ),
    (_declare("column_values_to_be_in_set", column="x", value_set=[0, 2, 3]), _each("x", lambda v: v in (0, 2, 3))),
    (_declare("column_values_to_not_be_in_set", column="x", value_set=[2]), _each("x", lambda v: v != 2)),
    (_declare("column_max_to_be_between", column="x", min_value=0, max_value=3), _of_all(max, 0, 3)),
    (_declare("column_min_to_be_between", column="x", min_value=0), _of_all(min, 0, math.inf)),
    (_declare("column_mean_to_be_between", column="x", min_value=0), _of_all(lambda v: sum(v) / len(v), 0, math.inf)),
    (_declare("column_sum_to_be_between", column="x", min_value=1), _of_all(sum, 1, math.inf)),
    (_declare("column_values_to_not_be_null", column="x"), lambda rows: len(_known(rows, "x")) == len(rows)),
    (_declare("column_values_to_be_between", column="n", max_value=0), _each("n", lambda v: v <= 0)),
    (_declare("column_values_to_be_in_set", column="n", value_set=[0, LARGE]), _each("n", lambda v: v in (0, LARGE))),
    (
        _declare("column_values_to_be_unique", column="n"),
        lambda rows: bool(known := _known(rows, "n")) and len(set(known)) == len(known),
    ),
]
