"""Variances of values that lie far from zero, merged from parts, against exact fractions."""

from fractions import Fraction
from functools import cache
from math import sqrt
from statistics import variance

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hourline_core.aggregates import TOLERANCE, StateColumn, aggregate_of
from hourline_core.model import Measure

TYPES = ("BIGINT", "DOUBLE", "DOUBLE")
"""The types of the states."""


@cache
def connect() -> duckdb.DuckDBPyConnection:
    """One for all examples: to open it takes longer than to ask it."""
    return duckdb.connect()


def merged_value(measure: Measure, values: list[float], parts: int) -> tuple[float, float]:
    """The value as DuckDB merges it from that many parts, and its magnitude."""
    aggregate, connection = aggregate_of(measure), connect()
    columns = aggregate.columns("v")
    connection.register("events", pa.table({"x": values, "part": [place % parts for place in range(len(values))]}))
    folds = ", ".join(
        f"({fold})::{kind} AS {name}" for fold, kind, name in zip(aggregate.folds(["x"]), TYPES, columns, strict=True)
    )
    states = [StateColumn(*state) for state in zip(columns, TYPES, strict=True)]
    merges = ", ".join(f"({merge}) AS {name}" for merge, name in zip(aggregate.merges(states), columns, strict=True))
    tiles = f"SELECT {folds} FROM events GROUP BY part"
    merged = ", ".join(columns)
    value, *found = connection.execute(
        f"SELECT {aggregate.finish(columns)}, {merged} FROM (SELECT {merges} FROM ({tiles}))"
    ).fetchall()[0]
    return float(value), aggregate.magnitude(found, sum(map(abs, values)))


@given(
    mean=st.floats(-1e12, 1e12),
    noise=st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=60),
    scale=st.sampled_from([1e-9, 1e-3, 1.0, 1e6]),
    parts=st.integers(1, 9),
)
def test_a_merged_variance_is_within_its_tolerance_of_the_exact_one(
    mean: float, noise: list[float], scale: float, parts: int
) -> None:
    values = [mean + scale * one for one in noise]
    spread = variance(list(map(Fraction, values)))  # exact for fractions
    for kind, exact in (("variance", float(spread)), ("stddev", sqrt(spread))):
        merged, size = merged_value(Measure.parse(f"{kind}(x)"), values, parts)
        assert abs(merged - exact) <= TOLERANCE * max(merged, size)


@pytest.mark.parametrize("kind", ["variance", "stddev", "var_pop", "stddev_pop"])
def test_a_spread_that_is_small_beside_the_mean_is_still_compared(kind: str) -> None:
    values = [1e9 + place % 7 for place in range(1000)]
    merged, size = merged_value(Measure.parse(f"{kind}(x)"), values, 10)
    assert TOLERANCE * size < merged / 1000
