"""Quantiles within 1 % of the truth, from the numbers of values in buckets that grow by a constant factor.

This is DDSketch (Masson, Rim and Lee, "DDSketch: A Fast and Fully-Mergeable Quantile Sketch with Relative-Error
Guarantees", 2019). Each value has its bucket for ever, so histograms merge by adding their counts, in any order.
Spark finds the bucket of a value for both layers, so both have the same histogram.
"""

import math
from collections.abc import Sequence
from typing import ClassVar

import pyarrow as pa

from hourline_core.aggregates.base import Aggregate, StateColumn, UnsuitableArgumentError
from hourline_core.aggregates.sum import WIDER

RELATIVE_ERROR = 0.01
GAMMA = (1 + RELATIVE_ERROR) / (1 - RELATIVE_ERROR)
"""The quotient of the bounds of a bucket."""
ZERO = math.ceil(math.log(1e-9) / math.log(GAMMA)) - 1
"""The exponent of GAMMA that bounds the bucket of zero. Smaller values count as zero."""
LARGEST = math.ceil(math.log(1e18) / math.log(GAMMA))
"""The exponent of the last bucket. Larger values are in it, too."""


class Quantile(Aggregate):
    """``quantile(x, q)``, over the values that are not null and not NaN."""

    is_exact: ClassVar[bool] = False
    error: ClassVar[str] = f"within {RELATIVE_ERROR:.0%}".replace("%", " %")
    needs_functions: ClassVar[bool] = True

    def values(self, argument_type: str) -> list[str]:
        """See Aggregate. The number of the bucket (int): that of -x is the negative number of that of x."""
        if argument_type not in (*WIDER, "float", "double") and not argument_type.startswith("decimal"):
            raise UnsuitableArgumentError(f"{self.measure} needs a number; got {argument_type}")
        x = f"cast({self.argument} as double)"
        # In this notation, the number is a double.
        exponent = f"least(ceil(ln(abs({x})) / {math.log(GAMMA):.17e}), {LARGEST})"
        bucket = f"cast(sign({x}) * greatest({exponent} - {ZERO}, 0) as int)"
        return [f"CASE WHEN isnan({x}) THEN NULL WHEN {x} = 0 THEN 0 ELSE {bucket} END"]

    def state_types(self, argument_type: pa.DataType) -> list[pa.DataType]:
        """See Aggregate."""
        return [pa.list_(pa.struct({"x": pa.int32(), "y": pa.float64()}))]

    def folds(self, values: Sequence[str]) -> list[str]:
        """See Aggregate."""
        counts = f"map_entries(histogram({values[0]}))"
        return [f"list_transform({counts}, lambda _bucket: {{'x': _bucket.key, 'y': _bucket.value::DOUBLE}})"]

    def merges(self, states: Sequence[StateColumn]) -> list[str]:
        """See Aggregate."""
        return [f"quantile_merge({state.sql})" for state in states]

    def finish(self, states: Sequence[str]) -> str:
        """See Aggregate."""
        return f"histogram_quantile({states[0]}, {self.measure.quantile!r})"
