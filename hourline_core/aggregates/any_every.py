"""Whether a condition is true of one event, or of all."""

from collections.abc import Sequence

import pyarrow as pa

from hourline_core.aggregates.base import Aggregate, StateColumn, UnsuitableArgumentError


class AnyEvery(Aggregate):
    """``any(x)`` or ``every(x)``, over the events for which the condition is not null."""

    def values(self, argument_type: str) -> list[str]:
        """See Aggregate."""
        if argument_type != "boolean":
            raise UnsuitableArgumentError(f"{self.measure} needs a condition, such as x > 0; got {argument_type}")
        return [self.argument]

    def state_types(self, argument_type: pa.DataType) -> list[pa.DataType]:
        """See Aggregate."""
        return [pa.bool_()]

    def folds(self, values: Sequence[str]) -> list[str]:
        """See Aggregate."""
        return [f"{'bool_or' if self.measure.kind == 'any' else 'bool_and'}({values[0]})"]

    def merges(self, states: Sequence[StateColumn]) -> list[str]:
        """See Aggregate."""
        return self.folds([state.sql for state in states])

    def finish(self, states: Sequence[str]) -> str:
        """See Aggregate."""
        return states[0]
