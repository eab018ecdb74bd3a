"""The class of a keyed fold: the events of a group, one after the other in the order of their event times."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hourline_core.aggregates.python_values import read_events
from hourline_core.aggregates.user_code import (
    ALLOWED_VALUES,
    as_array,
    fail,
    fail_at_event,
    find_missing,
    find_unknown,
    find_wrong_examples,
    is_value_type,
    make_instance,
    read_examples,
    refuse_mistakes,
)
from hourline_core.model import UserMeasure

METHODS = {"start": (), "step": ("state", "at", "x"), "finish": ("state",)}
"""The methods of a class, each with names for its arguments. ``step`` may have more of them."""
ORDER = ("at", "partition", "offset", "place", "topic")
"""The first fields of an event: its event time, and then where it is in Kafka. Events are in the order of these."""
_MOST_EVENTS = 100_000


@dataclass(frozen=True)
class FoldClass:
    """The class of a keyed fold, whose methods can be called."""

    measure: UserMeasure
    start: Callable[[], Any]
    step: Callable[..., Any]
    finish: Callable[[Any], Any]
    done: Callable[[Any], bool]
    """Whether no further events are taken."""
    most: int
    """The maximum number of events of a group that are kept. They are the first ones."""
    value_type: pa.DataType
    examples: Sequence[tuple[Any, ...]]
    """Arguments of events, which ``find_broken_fold`` tries it on. Empty: those that it generates."""

    def finish_all(self, kept: pa.Array, counts: pa.Array) -> pa.Array:
        """The value of each list of events: structs of ORDER and the arguments, in any order. ``counts`` (int64) are
        the numbers of events of the groups. A value is null where there are no events, or more than were kept and the
        fold was not done.

        Raises MeasureError, which names the event.
        """
        rows = pc.list_flatten(kept)
        keys = ["group", *ORDER]
        order = pa.table([pc.list_parent_indices(kept), *(rows.field(name) for name in ORDER)], keys)
        events = rows.take(pc.sort_indices(order, [(name, "ascending") for name in keys]))
        arguments = [field.name for field in rows.type][len(ORDER) :]
        steps = enumerate(read_events(self.measure, "step", events, ["at", *arguments]))
        values = [
            self._finish(islice(steps, length), length == count, events) if length else None
            for length, count in zip(pc.list_value_length(kept).to_pylist(), counts.to_pylist(), strict=True)
        ]
        return as_array(self.measure, "finish", values, self.value_type)

    def _finish(self, steps: Iterator[tuple[int, tuple[Any, ...]]], is_whole: bool, events: pa.StructArray) -> Any:
        """The value of one group. Each of ``steps`` has an event's place among ``events``, its time and arguments."""
        place, is_done = 0, False
        try:
            state = self.start()
        except (Exception, SystemExit) as error:
            fail(self.measure, "start", error)
        try:
            for place, (at, *arguments) in steps:  # noqa: B007 (it is for the message)
                if not is_done:
                    state = self.step(state, at, *arguments)
                    is_done = self.done(state)
        except (Exception, SystemExit) as error:
            fail_at_event(self.measure, "step", error, events[place])
        try:
            return self.finish(state) if is_done or is_whole else None
        except (Exception, SystemExit) as error:
            fail(self.measure, "finish", error)


@cache
def load_fold(measure: UserMeasure) -> FoldClass:
    """Run the text of a keyed fold. Raises UnusableClassError with everything that is wrong with it."""
    made = make_instance(measure)
    mistakes = [
        *find_missing(measure, made, METHODS),
        *(find_missing(measure, made, {"done": ("state",)}) if hasattr(made, "done") else ()),
        *find_wrong_examples(measure, made),
        *find_unknown(measure, made, "most", _is_most, f"a whole number from 1 to {_MOST_EVENTS:,}"),
        *find_unknown(measure, made, "value_type", is_value_type, ALLOWED_VALUES),
    ]
    refuse_mistakes(measure, mistakes)
    done = getattr(made, "done", lambda state: False)
    return FoldClass(measure, made.start, made.step, made.finish, done, made.most, made.value_type, read_examples(made))


def _is_most(got: Any) -> bool:
    return type(got) is int and 1 <= got <= _MOST_EVENTS
