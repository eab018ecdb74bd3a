"""Variances and standard deviations, from counts, means and sums of squared deviations from the mean (M2).

States merge as in Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances",
1979: no large squares are subtracted from each other, so a spread that is small beside the mean keeps its digits.

How many digits follows from their "Algorithms for computing the sample variance: analysis and recommendations", The
American Statistician 37, 1983. There are n values; q is their root mean square, s their standard deviation, and u is
2^-53. The relative error of an updated M2 is at most e = n u q / s. It is e + e^2 if means are subtracted. Small
factors are left out. So the error of the standard deviation is that of a mean, n u q. That of the variance is
n u q (s + n u q).
"""

import math
from collections.abc import Sequence
from typing import ClassVar

import pyarrow as pa

from hourline_core.aggregates.base import TOLERANCE, Aggregate, StateColumn, UnsuitableArgumentError
from hourline_core.aggregates.sum import WIDER, merge_sum

_LARGEST = "1e144D"
"""Below it, the squares of 10^18 values add up to a double. DuckDB raises where they do not."""
_ROUNDING = 1e-15
"""9 u: 8 u for the factors that the bound leaves out and for both sides of a comparison, rounded up."""
_OF_POPULATION = ("var_pop", "stddev_pop")
_ROOTS = ("stddev", "stddev_pop")


class Variance(Aggregate):
    """``variance(x)`` and ``stddev(x)`` of a sample, ``var_pop(x)`` and ``stddev_pop(x)`` of a population, over the
    values that are not null.
    """

    states: ClassVar[tuple[str, ...]] = ("__n", "__mean", "__m2")
    adds_numbers: ClassVar[bool] = True

    def values(self, argument_type: str) -> list[str]:
        """See Aggregate. A double below 10^144, or NaN."""
        double = f"cast({self.argument} as double)"
        if argument_type in WIDER or argument_type.startswith("decimal"):
            return [double]
        if argument_type in ("float", "double"):  # To Spark, NaN is larger than any number.
            return [f"CASE WHEN abs({double}) >= {_LARGEST} THEN double('NaN') ELSE {double} END"]
        raise UnsuitableArgumentError(f"{self.measure} needs a number; got {argument_type}")

    def state_types(self, argument_type: pa.DataType) -> list[pa.DataType]:
        """See Aggregate."""
        return [pa.int64(), pa.float64(), pa.float64()]

    def folds(self, values: Sequence[str]) -> list[str]:
        """See Aggregate. DuckDB's regr_sxx raises for NaN."""
        (x,) = values
        m2 = f"regr_sxx({x}, {x}) FILTER (WHERE NOT isnan({x}))"
        return [f"count({x})", f"avg({x})", f"CASE WHEN bool_or(isnan({x})) THEN 'nan'::DOUBLE ELSE {m2} END"]

    def merges(self, states: Sequence[StateColumn]) -> list[str]:
        """See Aggregate."""
        n, mean, m2 = (state.sql for state in states)
        # Equal means are merged to the same mean, to the last digit, so equal values have no variance.
        merged = f"CASE WHEN min({mean}) = max({mean}) THEN min({mean}) ELSE sum({n} * {mean}) / sum({n}) END"
        # A lambda's parameter must not be the name of a column: no dimension begins with _.
        parts = f"list({{'n': {n}, 'mean': {mean}}})"
        between = f"list_sum(list_transform({parts}, lambda _part: _part.n * (_part.mean - {merged}) ** 2))"
        return [merge_sum(states[0]), merged, f"sum({m2}) + {between}"]

    def finish(self, states: Sequence[str]) -> str:
        """See Aggregate."""
        n, _, m2 = states
        variance = f"{m2} / {n if self.measure.kind in _OF_POPULATION else f'nullif({n} - 1, 0)'}"
        return f"sqrt({variance})" if self.measure.kind in _ROOTS else variance

    def magnitude(self, states: Sequence[float], absolute: float) -> float:
        """See Aggregate."""
        n, mean, m2 = states
        error = _ROUNDING * n * math.sqrt(m2 / n + mean * mean)
        of_value = error if self.measure.kind in _ROOTS else error * (math.sqrt(m2 / n) + error)
        return of_value / TOLERANCE
