"""The values of the first and of the last event."""

from collections.abc import Mapping, Sequence

import pyarrow as pa

from hourline_core.aggregates.base import Aggregate, StateColumn, UnsuitableArgumentError
from hourline_core.aggregates.min_max import is_ordered
from hourline_core.model.scratch_columns import EVENT_TIME, OFFSET, PARTITION, PLACE, TOPIC

_ORDER = {
    "at": (EVENT_TIME, "timestamp"),
    "partition": (PARTITION, "int"),
    "offset": (OFFSET, "bigint"),
    "place": (PLACE, "int"),
    "topic": (TOPIC, "string"),
}
"""By field of the state, the column of an event and its Spark type. The first one decides, and each further one where
those before tie.
"""
ORDER_TYPES: Mapping[str, pa.DataType] = {
    "at": pa.timestamp("us", "UTC"),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "place": pa.int32(),
    "topic": pa.string(),
}
"""The types of these fields in a table."""


class FirstLast(Aggregate):
    """``first(x)`` or ``last(x)`` by event time, over the events in which x is not null."""

    def values(self, argument_type: str) -> list[str]:
        """See Aggregate. A struct that is ordered as its event is, with the value in it."""
        if not is_ordered(argument_type):
            raise UnsuitableArgumentError(f"{self.measure} needs a number, text, date or time; got {argument_type}")
        columns = ", ".join([*(column for column, _ in _ORDER.values()), f"({self.argument})"])
        fields = ", ".join([*(f"{name}: {of}" for name, (_, of) in _ORDER.items()), f"value: {argument_type}"])
        # The cast lets every field be null. Arrow takes no null for a struct with a field that is never null.
        return [f"CASE WHEN ({self.argument}) IS NOT NULL THEN cast(struct({columns}) as struct<{fields}>) END"]

    def state_types(self, argument_type: pa.DataType) -> list[pa.DataType]:
        """See Aggregate."""
        return [pa.struct({**ORDER_TYPES, "value": argument_type})]

    def folds(self, values: Sequence[str]) -> list[str]:
        """See Aggregate. DuckDB compares structs field by field."""
        return [f"{'min' if self.measure.kind == 'first' else 'max'}({values[0]})"]

    def merges(self, states: Sequence[StateColumn]) -> list[str]:
        """See Aggregate."""
        return self.folds([state.sql for state in states])

    def finish(self, states: Sequence[str]) -> str:
        """See Aggregate."""
        return f"struct_extract({states[0]}, 'value')"
