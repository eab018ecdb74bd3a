"""The smallest and the largest value."""

from collections.abc import Sequence

import pyarrow as pa

from hourline_core.aggregates.base import Aggregate, StateColumn, UnsuitableArgumentError
from hourline_core.aggregates.sum import WIDER

_ORDERED = {*WIDER, "float", "double", "string", "date", "timestamp", "timestamp_ntz"}


class MinMax(Aggregate):
    """``min(x)`` or ``max(x)``. DuckDB has a function of that name."""

    def values(self, argument_type: str) -> list[str]:
        """See Aggregate. -0.0 is 0.0: which of the two is kept depends on the order of the events."""
        if not is_ordered(argument_type):
            raise UnsuitableArgumentError(f"{self.measure} needs a number, text, date or time; got {argument_type}")
        if argument_type in ("float", "double"):
            return [f"({self.argument}) + cast(0 as {argument_type})"]
        return [self.argument]

    def state_types(self, argument_type: pa.DataType) -> list[pa.DataType]:
        """See Aggregate."""
        return [argument_type]

    def folds(self, values: Sequence[str]) -> list[str]:
        """See Aggregate."""
        return [f"{self.measure.kind}({values[0]})"]

    def merges(self, states: Sequence[StateColumn]) -> list[str]:
        """See Aggregate."""
        return [f"{self.measure.kind}({state.sql})" for state in states]

    def finish(self, states: Sequence[str]) -> str:
        """See Aggregate."""
        return states[0]


def is_ordered(argument_type: str) -> bool:
    """Whether DuckDB orders the values of a Spark type as Spark does."""
    return argument_type in _ORDERED or argument_type.startswith("decimal")
