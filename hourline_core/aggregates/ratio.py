"""The quotient of two other measures, which nothing is stored for."""

from collections.abc import Sequence
from typing import ClassVar

import pyarrow as pa

from hourline_core.aggregates.base import Aggregate, StateColumn


class Ratio(Aggregate):
    """``ratio(a, b)`` of the finished values of the measures a and b. Null where b is zero."""

    states: ClassVar[tuple[str, ...]] = ()
    is_exact: ClassVar[bool] = False

    def values(self, argument_type: str) -> list[str]:
        """See Aggregate."""
        return []

    def state_types(self, argument_type: pa.DataType) -> list[pa.DataType]:
        """See Aggregate."""
        return []

    def folds(self, values: Sequence[str]) -> list[str]:
        """See Aggregate."""
        return []

    def merges(self, states: Sequence[StateColumn]) -> list[str]:
        """See Aggregate."""
        return []

    def finish(self, states: Sequence[str]) -> str:
        """DuckDB SQL for the quotient. ``states`` are the two finished values."""
        dividend, divisor = states
        return f"({dividend})::DOUBLE / nullif(({divisor})::DOUBLE, 0)"
