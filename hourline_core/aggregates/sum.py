"""Sums that do not overflow.

Totals of integers up to 32 bits are bigint, of bigint decimal(29,0), of decimal(p,s) decimal(p+10,s). None of them
overflows within a tile, and DuckDB merges with 128 bits. Totals of floating-point numbers are double: their last digits
depend on the order of addition.
"""

import re
from collections.abc import Sequence
from typing import ClassVar

import pyarrow as pa

from hourline_core.aggregates.base import Aggregate, StateColumn, UnsuitableArgumentError

WIDER = {"tinyint": "bigint", "smallint": "bigint", "int": "bigint", "boolean": "bigint", "bigint": "decimal(19,0)"}
"""For Spark's types of whole numbers, the type in which they are added."""

_DECIMAL_DIGITS = 28
"""The maximum number of digits of an addend, for a sum of 38 digits."""
_MORE_DIGITS = 10
"""The number of digits that a sum has more than its addends."""


class Sum(Aggregate):
    """``sum(x)``."""

    starts_at_zero: ClassVar[bool] = True
    adds_numbers: ClassVar[bool] = True

    def values(self, argument_type: str) -> list[str]:
        """See Aggregate."""
        return [addend(self, argument_type)]

    def state_types(self, argument_type: pa.DataType) -> list[pa.DataType]:
        """See Aggregate."""
        return [total_type(argument_type)]

    def folds(self, values: Sequence[str]) -> list[str]:
        """See Aggregate."""
        return [f"sum({values[0]})"]

    def merges(self, states: Sequence[StateColumn]) -> list[str]:
        """See Aggregate."""
        return [merge_sum(state) for state in states]

    def finish(self, states: Sequence[str]) -> str:
        """See Aggregate."""
        return states[0]


def addend(aggregate: Aggregate, argument_type: str) -> str:
    """Spark SQL for the aggregate's argument, widened so that its sum does not overflow. Raises
    UnsuitableArgumentError.
    """
    if argument_type in WIDER:
        return f"cast({aggregate.argument} as {WIDER[argument_type]})"
    if argument_type in ("float", "double"):
        return f"cast({aggregate.argument} as double)"
    if decimal := re.fullmatch(r"decimal\((\d+),\d+\)", argument_type):
        if int(decimal[1]) > _DECIMAL_DIGITS:
            raise UnsuitableArgumentError(
                f"{aggregate.measure} over {argument_type} could overflow its sum of 38 digits; "
                f"cast it to decimal({_DECIMAL_DIGITS}, …) or less"
            )
        return aggregate.argument
    raise UnsuitableArgumentError(f"{aggregate.measure} needs a number; got {argument_type}")


def total_type(argument_type: pa.DataType) -> pa.DataType:
    """The type of the sum of arguments of that type."""
    if pa.types.is_floating(argument_type):
        return pa.float64()
    if pa.types.is_decimal(argument_type):
        return pa.decimal128(argument_type.precision + _MORE_DIGITS, argument_type.scale)
    return pa.decimal128(19 + _MORE_DIGITS, 0) if pa.types.is_int64(argument_type) else pa.int64()


def merge_sum(state: StateColumn) -> str:
    """The sum of a column, in the column's type: DuckDB sums BIGINT to 128 bits."""
    return f"sum({state.sql})::BIGINT" if state.type == "BIGINT" else f"sum({state.sql})"
