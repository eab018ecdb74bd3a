"""A measure that a class in the project defines. Its functions of SQL call the class, see ``sql/user_functions.py``."""

from collections.abc import Sequence
from functools import cached_property
from typing import ClassVar

from hourline_core.aggregates.base import Aggregate, StateColumn
from hourline_core.aggregates.user_classes.arguments import arguments_of
from hourline_core.aggregates.user_classes.code import function_of, refuse_arguments
from hourline_core.aggregates.user_classes.measure_class import ADDRESS, UserClass, load_class
from hourline_core.model.scratch_columns import GROUP, OFFSET, PARTITION, TOPIC


class UserDefined(Aggregate):
    """``name(x, …)``, over the events in which no argument is null."""

    is_exact: ClassVar[bool] = False
    needs_functions: ClassVar[bool] = True
    folds_by_group: ClassVar[bool] = True

    def values(self, argument_type: str) -> list[str]:
        """See Aggregate. The arguments, which are all null or none is, and the event's address."""
        arguments = arguments_of(self.measure, argument_type)
        refuse_arguments(self.loaded.measure, self.loaded.add, ["state"], self.measure.arguments)
        return [*arguments, TOPIC, PARTITION, OFFSET]

    def partials(self, values: Sequence[str]) -> list[str]:
        """See Aggregate. Spark holds one state of a group for each of its Arrow batches, not its events."""
        return [f"{self._function('merge')}(collect_list({self._function('fold')}({GROUP}, {', '.join(values)})))"]

    def folds(self, values: Sequence[str]) -> list[str]:
        """See Aggregate."""
        return [f"{self._function('fold')}({self.list_events(values)})"]

    def list_events(self, values: Sequence[str]) -> str:
        """The DuckDB SQL aggregate that lists the events that count, as ``UserClass.fold`` takes them."""
        count = len(values) - len(ADDRESS)
        names = [*(f"_{place}" for place in range(count)), *ADDRESS]
        event = ", ".join(f"'{name}': {value}" for name, value in zip(names, values, strict=True))
        return f"list({{{event}}}) FILTER (WHERE {values[0]} IS NOT NULL)"

    def merges(self, states: Sequence[StateColumn]) -> list[str]:
        """See Aggregate."""
        (state,) = (state.sql for state in states)
        return [f"{self._function('merge')}(list({state}) FILTER (WHERE {state} IS NOT NULL))"]

    def finish(self, states: Sequence[str]) -> str:
        """See Aggregate."""
        return f"{self._function('finish')}({states[0]})"

    @cached_property
    def loaded(self) -> UserClass:
        """The class. Raises UnusableClassError."""
        assert self.measure.user_measure is not None
        return load_class(self.measure.user_measure)

    def _function(self, step: str) -> str:
        assert self.measure.user_measure is not None
        return function_of(step, self.measure.user_measure)
