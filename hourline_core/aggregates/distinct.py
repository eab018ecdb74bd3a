"""The number of distinct values, by a theta sketch. A union of sketches does not depend on the order of its parts."""

import re
from collections.abc import Sequence
from typing import ClassVar

from hourline_core.aggregates.base import Aggregate, StateColumn, UnsuitableArgumentError

_CAST = {"tinyint": "bigint", "smallint": "bigint", "int": "bigint", "float": "double"}
"""For Spark's types of numbers, the type in which a sketch takes them."""
_TAKEN = ("bigint", "double")


class Distinct(Aggregate):
    """``distinct(x)``, over the values that are not null."""

    is_exact: ClassVar[bool] = False
    is_never_null: ClassVar[bool] = True
    starts_at_zero: ClassVar[bool] = True
    needs_functions: ClassVar[bool] = True

    def values(self, argument_type: str) -> list[str]:
        """See Aggregate. A value of type bigint, double or string. No two arguments have the same value."""
        argument = self.argument
        if " collate " in argument_type:
            raise UnsuitableArgumentError(f"{self.measure} needs a text without a collation; got {argument_type}")
        if unsuited := re.search(r"(?:^|[<:,])(geometry|geography)(?=\()", argument_type):
            raise UnsuitableArgumentError(
                f"{self.measure} takes no {unsuited[1]}, which has no text; cast it, such as st_asbinary does"
            )
        if argument_type in _TAKEN:
            return [argument]
        if argument_type in _CAST:
            return [f"cast({argument} as {_CAST[argument_type]})"]
        nested = argument_type.startswith(("struct", "array", "map"))
        # As text, ["a, b"] and ["a", "b"] look alike; as JSON they do not.
        text = f"to_json({argument})" if nested else f"cast({argument} as string)"
        # The dot: a sketch ignores an empty text. A key may be any bytes, and DuckDB accepts no invalid UTF-8. No hex
        # digits begin with a dot.
        return [f"if(is_valid_utf8({text}), concat('.', {text}), hex({text}))"]

    def partials(self, values: Sequence[str]) -> list[str]:
        """See Aggregate."""
        return [f"theta_sketch_agg({values[0]})"]

    def folds(self, values: Sequence[str]) -> list[str]:
        """See Aggregate."""
        return [f"distinct_fold({values[0]})"]

    def merges(self, states: Sequence[StateColumn]) -> list[str]:
        """See Aggregate."""
        return [f"distinct_merge({state.sql})" for state in states]

    def finish(self, states: Sequence[str]) -> str:
        """See Aggregate."""
        return f"theta_estimate({states[0]})"
