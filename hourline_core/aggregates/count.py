"""The number of events."""

from collections.abc import Sequence
from typing import ClassVar

from hourline_core.aggregates.base import Aggregate, StateColumn
from hourline_core.aggregates.sum import merge_sum


class Count(Aggregate):
    """``count``: all events of the group."""

    is_never_null: ClassVar[bool] = True
    starts_at_zero: ClassVar[bool] = True

    def values(self, argument_type: str) -> list[str]:
        """See Aggregate."""
        return []

    def partials(self, values: Sequence[str]) -> list[str]:
        """See Aggregate."""
        return ["count(*)"]

    def merges(self, states: Sequence[StateColumn]) -> list[str]:
        """See Aggregate."""
        return [merge_sum(state) for state in states]

    def finish(self, states: Sequence[str]) -> str:
        """See Aggregate."""
        return states[0]
