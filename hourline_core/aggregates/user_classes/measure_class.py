"""The class of a user-defined measure that merges: its methods over Arrow columns."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hourline_core.aggregates.python_values import in_utc, read_events
from hourline_core.aggregates.user_classes.code import (
    ALLOWED_VALUES,
    as_array,
    fail,
    fail_at_event,
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
        """The state of each list of events: structs of the arguments and ADDRESS. Null for none.

        Raises MeasureError, which names the event.
        """
        rows = pc.list_flatten(events)
        arguments = [field.name for field in rows.type][: -len(ADDRESS)]
        numbered = enumerate(read_events(self.measure, "add", rows, arguments))
        states, place = [], 0
        for length in pc.list_value_length(events).to_pylist():
            try:
                state = self.start() if length else None
                for place, values in islice(numbered, length or 0):  # noqa: B007 (it is for the message)
                    state = _state(self.add(state, *values))
            except (Exception, SystemExit) as error:
                fail_at_event(self.measure, "add", error, rows[place])
            states.append(state)
        return as_array(self.measure, "add", states, self.state_type)

    def merge_all(self, states: pa.Array) -> pa.Array:
        """The merged state of each list of states. Null for none. Raises MeasureError."""
        merged = []
        for some in in_utc(states).to_pylist():
            try:
                merged.append(_state(reduce(self.merge, some)) if some else None)
            except (Exception, SystemExit) as error:
                fail(self.measure, "merge", error)
        return as_array(self.measure, "merge", merged, self.state_type)

    def finish_all(self, states: pa.Array) -> pa.Array:
        """The value of each state, null for null. Raises MeasureError."""
        values = []
        for state in in_utc(states).to_pylist():
            try:
                values.append(None if state is None else self.finish(state))
            except (Exception, SystemExit) as error:
                fail(self.measure, "finish", error)
        return as_array(self.measure, "finish", values, self.value_type)


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
