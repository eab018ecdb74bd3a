"""The number of distinct values, by a theta sketch. A union of sketches does not depend on the order of its parts."""

from collections.abc import Sequence
from typing import ClassVar

from hourline_core.aggregates.base import Aggregate, StateColumn

_CAST = {"tinyint": "int", "smallint": "int", "float": "double"}
"""For Spark's types of numbers, the type that a sketch accepts. It accepts the other types as they are."""
_TAKEN = ("int", "bigint", "double")


class Distinct(Aggregate):
    """``distinct(x)``, over the values that are not null."""

    is_exact: ClassVar[bool] = False
    is_never_null: ClassVar[bool] = True
    starts_at_zero: ClassVar[bool] = True
    needs_functions: ClassVar[bool] = True

    def partials(self, argument_type: str) -> list[str]:
        """See Aggregate."""
        return [f"theta_sketch_agg({self._told_apart(argument_type)})"]

    def merges(self, states: Sequence[StateColumn]) -> list[str]:
        """See Aggregate."""
        return [f"distinct_merge({state.sql})" for state in states]

    def finish(self, states: Sequence[str]) -> str:
        """See Aggregate."""
        return f"theta_estimate({states[0]})"

    def _told_apart(self, argument_type: str) -> str:
        """The argument as a value that the sketch distinguishes from every other one."""
        argument = self.measure.argument
        if argument_type in _TAKEN:
            return f"{argument}"
        if argument_type in _CAST:
            return f"cast({argument} as {_CAST[argument_type]})"
        nested = argument_type.startswith(("struct", "array", "map"))
        # As text, ["a, b"] and ["a", "b"] look alike; as JSON they do not. The dot: a sketch ignores an empty text.
        return f"concat('.', {f'to_json({argument})' if nested else argument})"
