"""The most frequent values with their counts, by a frequent-items sketch.

Each value has its own count while there are at most 1,536 of them in a group. Beyond, the sketch drops rare values, and
knows by how much each count may be too low (Anderson et al., "A High-Performance Algorithm for Identifying Frequent
Items in Data Streams", 2017). It forgets that when it has no value left, which the number of all values shows.
"""

from collections.abc import Sequence
from typing import ClassVar

import pyarrow as pa

from hourline_core.aggregates.base import Aggregate, StateColumn, UnsuitableArgumentError
from hourline_core.aggregates.min_max import is_ordered
from hourline_core.aggregates.sum import merge_sum

MOST_VALUES = 1536
"""The maximum number of different values that a sketch counts exactly: three quarters of its 2^11 entries."""
_SKETCH = pa.struct(
    {
        "sketch": pa.binary(),
        "maxItemsTracked": pa.int32(),
        "itemDataType": pa.string(),
        "itemDataTypeDDL": pa.string(),
    }
)
"""A state of ``top_fold``, see `sql/frequencies.py`."""


class Top(Aggregate):
    """``top(x, n)``, over the values that are not null."""

    states: ClassVar[tuple[str, ...]] = ("", "__n")
    is_exact: ClassVar[bool] = False
    needs_functions: ClassVar[bool] = True

    def values(self, argument_type: str) -> list[str]:
        """See Aggregate. The value as text: both layers have that of Spark."""
        argument = self.argument
        if not is_ordered(argument_type):
            raise UnsuitableArgumentError(f"{self.measure} needs a number, text, date or time; got {argument_type}")
        if argument_type == "string":  # A key may be any bytes. Spark's sketch would replace what is no UTF-8, too.
            return [f"make_valid_utf8({argument})"]
        if argument_type in ("float", "double"):  # -0.0 is 0.0, as where rows are grouped by it.
            argument = f"({argument}) + cast(0 as {argument_type})"
        return [f"cast({argument} as string)"]

    def state_types(self, argument_type: pa.DataType) -> list[pa.DataType]:
        """See Aggregate."""
        return [_SKETCH, pa.int64()]

    def folds(self, values: Sequence[str]) -> list[str]:
        """See Aggregate."""
        return [f"top_fold({values[0]})", f"count({values[0]})"]

    def merges(self, states: Sequence[StateColumn]) -> list[str]:
        """See Aggregate."""
        sketch, n = states
        return [f"top_merge({sketch.sql})", merge_sum(n)]

    def finish(self, states: Sequence[str]) -> str:
        """See Aggregate."""
        sketch, n = states
        return f"top_of({sketch}, {n}, {self.measure.limit})"

    def agrees(self, one: str, other: str) -> str:
        """See Aggregate. The order of merging decides which rare values a sketch drops. An entry without a value is
        about all values.
        """
        apart = (
            "coalesce(_x.value = _y.value, true) AND (_x.count > _y.count + _y.error OR _y.count > _x.count + _x.error)"
        )
        each = f"list_bool_or(list_transform({other}, lambda _y: {apart}))"
        differ = f"coalesce(list_bool_or(list_transform({one}, lambda _x: {each})), false)"
        return f"coalesce(greatest({one}[1].error, {other}[1].error) > 0 AND NOT {differ}, false)"
