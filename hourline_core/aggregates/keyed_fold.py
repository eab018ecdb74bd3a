"""A measure that a class of the project computes from a group's events in their order.

Its state is the events themselves, so it merges as any measure does, and a late event takes its place among them. A
state has the number of a group's events, and the first of them: at most as many as the class says.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import ClassVar

import pyarrow as pa

from hourline_core.aggregates.base import Aggregate, StateColumn
from hourline_core.aggregates.first_last import ORDER_TYPES
from hourline_core.aggregates.sum import merge_sum
from hourline_core.aggregates.user_classes.arguments import arguments_of
from hourline_core.aggregates.user_classes.code import function_of, refuse_arguments
from hourline_core.aggregates.user_classes.fold_class import ORDER, FoldClass, load_fold
from hourline_core.model.scratch_columns import EVENT_TIME, OFFSET, PARTITION, PLACE, TOPIC

_COLUMNS = (EVENT_TIME, PARTITION, OFFSET, PLACE, TOPIC)
"""The columns of an event for the fields of ORDER."""


class KeyedFold(Aggregate):
    """``name(x, …)``, over the events in which no argument is null."""

    states: ClassVar[tuple[str, ...]] = ("", "__n")
    is_exact: ClassVar[bool] = False
    needs_functions: ClassVar[bool] = True

    def values(self, argument_type: str) -> list[str]:
        """See Aggregate. The arguments, which are all null or none is, and what the events are ordered by."""
        arguments = arguments_of(self.measure, argument_type)
        refuse_arguments(self.loaded.measure, self.loaded.step, ["state", "at"], self.measure.arguments)
        return [*arguments, *_COLUMNS]

    def state_types(self, argument_type: pa.DataType) -> list[pa.DataType]:
        """See Aggregate."""
        arguments = {f"_{place}": field.type for place, field in enumerate(argument_type)}
        return [pa.list_(pa.struct({**ORDER_TYPES, **arguments})), pa.int64()]

    def folds(self, values: Sequence[str]) -> list[str]:
        """See Aggregate."""
        event = ", ".join(f"'{name}': {value}" for name, value in _fields(values).items())
        events = f"coalesce(list({{{event}}}) FILTER (WHERE {values[0]} IS NOT NULL), [])"
        return [self._first_of(events), f"count({values[0]})"]

    def merges(self, states: Sequence[StateColumn]) -> list[str]:
        """See Aggregate."""
        events, n = states
        return [self._first_of(f"flatten(list({events.sql}) FILTER (WHERE {events.sql} IS NOT NULL))"), merge_sum(n)]

    def finish(self, states: Sequence[str]) -> str:
        """See Aggregate."""
        return f"{function_of('finish', self.loaded.measure)}({', '.join(states)})"

    def failure(self, states: Sequence[str]) -> str:
        """DuckDB SQL: why the class gives no value for the merged states (as expressions). Null: it does not fail."""
        return f"{function_of('failure', self.loaded.measure)}({', '.join(states)})"

    def beyond(self, states: Sequence[str]) -> str:
        """DuckDB SQL for the number of events that the value lacks, from the merged states (as expressions)."""
        return f"{function_of('beyond', self.loaded.measure)}({', '.join(states)})"

    @cached_property
    def loaded(self) -> FoldClass:
        """The class. Raises UnusableClassError."""
        assert self.measure.user_measure is not None
        return load_fold(self.measure.user_measure)

    def _first_of(self, events: str) -> str:
        """DuckDB SQL: the first events of a list, as many as are kept."""
        return f"list_sort({events})[:{self.loaded.most}]"


def _fields(values: Sequence[str]) -> dict[str, str]:
    """The fields of a kept event, each with its value."""
    arguments, order = values[: -len(ORDER)], values[-len(ORDER) :]
    return {**dict(zip(ORDER, order, strict=True)), **{f"_{place}": value for place, value in enumerate(arguments)}}
