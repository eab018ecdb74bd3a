"""The arithmetic mean, from a count and a sum."""

from collections.abc import Sequence
from typing import ClassVar

import pyarrow as pa

from hourline_core.aggregates.base import Aggregate, StateColumn
from hourline_core.aggregates.sum import addend, merge_sum, total_type


class Mean(Aggregate):
    """``mean(x)``, over the values that are not null."""

    states: ClassVar[tuple[str, ...]] = ("__n", "__total")
    adds_numbers: ClassVar[bool] = True

    def values(self, argument_type: str) -> list[str]:
        """See Aggregate."""
        return [addend(self, argument_type)]

    def state_types(self, argument_type: pa.DataType) -> list[pa.DataType]:
        """See Aggregate."""
        return [pa.int64(), total_type(argument_type)]

    def folds(self, values: Sequence[str]) -> list[str]:
        """See Aggregate."""
        return [f"count({values[0]})", f"sum({values[0]})"]

    def merges(self, states: Sequence[StateColumn]) -> list[str]:
        """See Aggregate."""
        return [merge_sum(state) for state in states]

    def finish(self, states: Sequence[str]) -> str:
        """See Aggregate."""
        n, total = states
        return f"{total}::DOUBLE / {n}"

    def magnitude(self, states: Sequence[float], absolute: float) -> float:
        """See Aggregate."""
        return absolute / states[0]
