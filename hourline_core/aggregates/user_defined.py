"""A measure that a class in the project defines. Its functions of SQL call the class, see ``sql/user_functions.py``.

Beside the state there is the number of its events. A state that is null although it has events is one for which the
class failed: whatever it is merged with, the result is null, too. An event that the class fails for alone is in
quarantine, and in no state.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from hourline_core.aggregates.base import Aggregate, StateColumn
from hourline_core.aggregates.sum import merge_sum
from hourline_core.aggregates.user_classes.arguments import arguments_of
from hourline_core.aggregates.user_classes.code import function_of, refuse_arguments
from hourline_core.aggregates.user_classes.measure_class import ADDRESS, UserClass, load_class
from hourline_core.model import Metric
from hourline_core.model.scratch_columns import OFFSET, PARTITION, TOPIC


class UserDefined(Aggregate):
    """``name(x, …)``, over the events in which no argument is null."""

    states: ClassVar[tuple[str, ...]] = ("", "__n")
    is_exact: ClassVar[bool] = False
    needs_functions: ClassVar[bool] = True

    def values(self, argument_type: str) -> list[str]:
        """See Aggregate. The arguments, which are all null or none is, and the event's address."""
        arguments = arguments_of(self.measure, argument_type)
        refuse_arguments(self.loaded.measure, self.loaded.add, ["state"], self.measure.arguments)
        return [*arguments, TOPIC, PARTITION, OFFSET]

    def state_types(self, argument_type: pa.DataType) -> list[pa.DataType]:
        """See Aggregate."""
        return [self.loaded.state_type, pa.int64()]

    def folds(self, values: Sequence[str]) -> list[str]:
        """See Aggregate. A list of the events that count, as ``UserClass.fold`` takes them."""
        names = [*(f"_{place}" for place in range(len(values) - len(ADDRESS))), *ADDRESS]
        event = ", ".join(f"'{name}': {value}" for name, value in zip(names, values, strict=True))
        events = f"list({{{event}}}) FILTER (WHERE {values[0]} IS NOT NULL)"
        return [f"{self._function('fold')}({events})", f"count({values[0]})"]

    def merges(self, states: Sequence[StateColumn]) -> list[str]:
        """See Aggregate."""
        state, n = states
        there = f"{state.sql} IS NOT NULL OR {n.sql} > 0"
        return [f"{self._function('merge')}(list({state.sql}) FILTER (WHERE {there}))", merge_sum(n)]

    def finish(self, states: Sequence[str]) -> str:
        """See Aggregate."""
        return f"{self._function('finish')}({states[0]})"

    def failure(self, states: Sequence[str]) -> str:
        """DuckDB SQL: why the class gives no value for the merged states (as expressions). Null: it does not fail."""
        return f"{self._function('failure')}({', '.join(states)})"

    @cached_property
    def loaded(self) -> UserClass:
        """The class. Raises UnusableClassError."""
        assert self.measure.user_measure is not None
        return load_class(self.measure.user_measure)

    def _function(self, step: str) -> str:
        assert self.measure.user_measure is not None
        return function_of(step, self.measure.user_measure)


def user_defined_of(metric: Metric) -> dict[str, UserDefined]:
    """The measures of ``metric`` that classes define and whose states merge, by name."""
    return {name: UserDefined(of) for name, of in metric.stored_measures.items() if of.kind == "user_defined"}


def find_failed(metric: Metric, tiles: pa.Table) -> bool:
    """Whether a class of ``metric`` failed in one of ``tiles``."""
    return any(
        pc.any(pc.and_(pc.is_null(tiles[state]), pc.greater(tiles[n], 0))).as_py()
        for name, one in user_defined_of(metric).items()
        for state, n in [one.columns(name)]
    )
