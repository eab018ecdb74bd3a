"""The class of a user-defined measure that merges: its methods over Arrow columns."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hourline_core.aggregates.python_values import in_utc, read_events
from hourline_core.aggregates.user_classes.attempts import Failure, attempt, compute_each
from hourline_core.aggregates.user_classes.code import (
    ALLOWED_VALUES,
    find_missing,
    find_unknown,
    find_wrong_examples,
    is_value_type,
    line_of_class,
    make_instance,
    read_examples,
    refuse_mistakes,
)
from hourline_core.model import UserMeasure

METHODS = {"start": (), "add": ("state", "x"), "merge": ("one", "other"), "finish": ("state",)}
"""The methods of a class, each with names for its arguments. ``add`` may have more of them."""
ADDRESS = ("topic", "partition", "offset")
"""Behind the arguments, what a folded event has: where it is in Kafka, or in an imported file."""
NO_STATE = "add or merge failed for several events, and for none of them alone"
"""Why a group has no state."""
_ALLOWED_STATES = (
    "a type of pyarrow of bool_, int8 to int64, float32, float64, string, binary, decimal128, date32, "
    "timestamp('us', tz='UTC'), list_ and struct"
)


@dataclass(frozen=True)
class UserClass:
    """The class of a user-defined measure, whose methods can be called."""

    measure: UserMeasure
    start: Callable[[], Any]
    add: Callable[..., Any]
    merge: Callable[[Any, Any], Any]
    finish: Callable[[Any], Any]
    state_type: pa.DataType
    value_type: pa.DataType
    examples: Sequence[tuple[Any, ...]]
    """Arguments of events, which ``find_unmergeable`` tries it on. Empty: those that it generates."""

    def fold(self, events: pa.Array) -> pa.Array:
        """The state of each list of events: structs of the arguments and ADDRESS. Null for none, and where the class
        fails.
        """
        folded = attempt(self.measure, self._add_all, events)
        if not isinstance(folded, Failure):
            return folded
        return pa.concat_arrays([self._fold_one(events.slice(place, 1)) for place in range(len(events))])

    def merge_all(self, states: pa.Array) -> pa.Array:
        """The merged state of each list of states. Null for none, and where the class fails or one of them is null."""
        return compute_each(self.measure, self._merge, in_utc(states).to_pylist(), self.state_type)

    def finish_all(self, states: pa.Array) -> pa.Array:
        """The value of each state. Null for null, and where the class fails."""
        return compute_each(self.measure, self._finish, in_utc(states).to_pylist(), self.value_type)

    def find_failures(self, states: pa.Array, counts: pa.Array) -> pa.Array:
        """Why the class gives no value for each state (string). Null where it does not fail. ``counts`` (int64) are the
        numbers of events of the groups.
        """
        found = [
            NO_STATE if state is None and count else self._find_failure(state)
            for state, count in zip(in_utc(states).to_pylist(), counts.to_pylist(), strict=True)
        ]
        return pa.array(found, pa.string())

    def _find_failure(self, state: Any) -> str | None:
        finished = attempt(self.measure, lambda: pa.array([self._finish(state)], self.value_type))
        return finished.message if isinstance(finished, Failure) else None

    def blame_events(self, arguments: Sequence[pa.Array]) -> list[str | None]:
        """For each event, why ``add`` fails for it alone, whatever the events before it. None where it does not, and
        where the event does not count, because an argument is null.
        """
        if isinstance(attempt(self.measure, self.start), Failure):
            return [None] * len(arguments[0])  # It fails without an event.
        return [
            self._blame([column.slice(place, 1) for column in arguments]) if counts else None
            for place, counts in enumerate(arguments[0].is_valid().to_pylist())
        ]

    def _blame(self, arguments: Sequence[pa.Array]) -> str | None:
        alone = attempt(
            self.measure, lambda: pa.array([*map(self._add_alone, read_events(arguments))], self.state_type)
        )
        return alone.message if isinstance(alone, Failure) else None

    def _add_all(self, events: pa.Array) -> pa.Array:
        """See ``fold``. Raises what the class raises."""
        added = iter(_arguments_of(events))
        states = []
        for length in pc.list_value_length(events).to_pylist():
            state = self.start() if length else None
            for values in islice(added, length or 0):
                state = _state(self.add(state, *values))
            states.append(state)
        return pa.array(states, self.state_type)

    def _fold_one(self, events: pa.Array) -> pa.Array:
        """The same for one list. Where ``add`` fails at a state, the states of single events are merged. By the law of
        merging, this gives the same value. So the number of events that are added at once makes no difference.
        """
        for way in (self._add_all, self._merge_each):
            folded = attempt(self.measure, way, events)
            if not isinstance(folded, Failure):
                return folded
        return pa.nulls(1, self.state_type)

    def _merge_each(self, events: pa.Array) -> pa.Array:
        return pa.array([self._merge([self._add_alone(values) for values in _arguments_of(events)])], self.state_type)

    def _add_alone(self, values: Sequence[Any]) -> Any:
        return _state(self.add(self.start(), *values))

    def _merge(self, states: Sequence[Any] | None) -> Any:
        if not states or any(state is None for state in states):
            return None
        return _state(reduce(self.merge, states))

    def _finish(self, state: Any) -> Any:
        return None if state is None else self.finish(state)


def _arguments_of(events: pa.Array) -> list[tuple[Any, ...]]:
    """The arguments of the events in all lists, one after the other."""
    rows = pc.list_flatten(events)
    return read_events([rows.field(place) for place in range(rows.type.num_fields - len(ADDRESS))])


def _state(given: Any) -> Any:
    """What a method gave, unless it is None: stored as null, it would be no state, and its events would be lost."""
    if given is None:
        raise TypeError("it returned None, which is no state")
    return given


@cache
def load_class(measure: UserMeasure) -> UserClass:
    """Run the text of a user-defined measure. Raises UnusableClassError with everything that is wrong with it."""
    made = make_instance(measure)
    if callable(getattr(made, "step", None)) and not hasattr(made, "merge"):
        line = line_of_class(measure)
        refuse_mistakes(measure, [f"{line}: a class with step is a keyed fold: move the file to folds"])
    mistakes = [
        *find_missing(measure, made, METHODS),
        *find_wrong_examples(measure, made),
        *find_unknown(measure, made, "state_type", _is_state_type, _ALLOWED_STATES),
        *find_unknown(measure, made, "value_type", is_value_type, ALLOWED_VALUES),
    ]
    refuse_mistakes(measure, mistakes)
    methods = (made.start, made.add, made.merge, made.finish)
    return UserClass(measure, *methods, made.state_type, made.value_type, read_examples(made))


def _is_state_type(got: Any) -> bool:
    if not isinstance(got, pa.DataType):
        return False
    if pa.types.is_list(got):
        return _is_state_type(got.value_type)
    if pa.types.is_struct(got):
        return got.num_fields > 0 and all(_is_state_type(field.type) for field in got)
    return got == pa.binary() or is_value_type(got)
