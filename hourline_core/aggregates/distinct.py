"""The number of distinct values, by a theta sketch. A union of sketches does not depend on the order of its parts.

Values are equal if they are where rows are grouped by them: NaN is equal to NaN, and -0.0 to 0.0, at any depth. A
struct whose parts are null is a value, and a struct that is null is none. The order of a map's entries does not matter.
"""

import re
from collections.abc import Sequence
from typing import ClassVar

import pyarrow as pa

from hourline_core.aggregates.base import Aggregate, StateColumn, UnsuitableArgumentError
from hourline_core.model import Measure
from hourline_core.model.scratch_columns import SCRATCH_PREFIX

_CAST = {"tinyint": "bigint", "smallint": "bigint", "int": "bigint", "float": "double"}
"""For Spark's types of numbers, the type in which a sketch takes them."""
_TAKEN = ("bigint", "double")
_KEY = f"{SCRATCH_PREFIX}key"
_MICROS = "yyyy-MM-dd HH:mm:ss.SSSSSS"
_FORMATS = f"map('timestampFormat', '{_MICROS}XXX', 'timestampNTZFormat', '{_MICROS}')"
"""By default, Spark's JSON has only the milliseconds of a time."""
_ZEROS = r"""r'("(?:[^"\\]|\\.)*")|-(0\.0(?=[,\]}]))', '$1$2'"""
"""For Spark's regexp_replace over JSON: -0.0 becomes 0.0, and texts stay."""


class Distinct(Aggregate):
    """``distinct(x)``, over the values that are not null."""

    is_exact: ClassVar[bool] = False
    error: ClassVar[str] = "within about 3 % above 4,096"
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
        text = _json(argument, argument_type, self.measure) if nested else f"cast({argument} as string)"
        # The dot: a sketch ignores an empty text. A key may be any bytes, and DuckDB accepts no invalid UTF-8. No hex
        # digits begin with a dot.
        return [f"if(is_valid_utf8({text}), concat('.', {text}), hex({text}))"]

    def state_types(self, argument_type: pa.DataType) -> list[pa.DataType]:
        """See Aggregate."""
        return [pa.binary()]

    def folds(self, values: Sequence[str]) -> list[str]:
        """See Aggregate."""
        return [f"distinct_fold({values[0]})"]

    def merges(self, states: Sequence[StateColumn]) -> list[str]:
        """See Aggregate."""
        return [f"distinct_merge({state.sql})" for state in states]

    def finish(self, states: Sequence[str]) -> str:
        """See Aggregate."""
        return f"theta_estimate({states[0]})"


def _json(argument: str, argument_type: str, measure: Measure) -> str:
    """Spark SQL for the JSON of a nested value. As plain text, ["a, b"] and ["a", "b"] look alike."""
    if re.search(r"[<:,]map<", argument_type):
        raise UnsuitableArgumentError(
            f"{measure} takes no map within another value, since its entries are in any order; got {argument_type}; "
            "cast it to what you count, such as array_sort(map_keys(…))"
        )
    if argument_type.startswith("map"):
        value = f"({argument})"
        pair = f"struct({_KEY} AS key, {value}[{_KEY}] AS value)"
        argument = f"map_from_entries(transform(array_sort(map_keys{value}), {_KEY} -> {pair}))"
    text = f"to_json({argument}, {_FORMATS})" if "timestamp" in argument_type else f"to_json({argument})"
    has_zeros = re.search(r"[<:,](float|double)\b", argument_type)
    return f"regexp_replace({text}, {_ZEROS})" if has_zeros else text
