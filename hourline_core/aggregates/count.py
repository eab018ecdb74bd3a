"""The number of events."""

from collections.abc import Sequence
from typing import ClassVar

import pyarrow as pa

from hourline_core.aggregates.base import Aggregate, StateColumn
from hourline_core.aggregates.sum import merge_sum
from hourline_core.model.expressions import attempt


class Count(Aggregate):
    """``count``: all events of the group, or those that fulfil the measure's ``where``."""

    is_never_null: ClassVar[bool] = True
    starts_at_zero: ClassVar[bool] = True

    def values(self, argument_type: str) -> list[str]:
        """See Aggregate."""
        return [] if self.measure.where is None else [attempt(self.measure.where)]

    def state_types(self, argument_type: pa.DataType) -> list[pa.DataType]:
        """See Aggregate."""
        return [pa.int64()]

    def folds(self, values: Sequence[str]) -> list[str]:
        """See Aggregate. DuckDB's count_if is null where every value is null."""
        return [f"count(*) FILTER (WHERE {values[0]})"] if values else ["count(*)"]

    def merges(self, states: Sequence[StateColumn]) -> list[str]:
        """See Aggregate."""
        return [merge_sum(state) for state in states]

    def finish(self, states: Sequence[str]) -> str:
        """See Aggregate."""
        return states[0]
