"""The class of a keyed fold: the events of a group, one after the other in the order of their event times."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hourline_core.aggregates.python_values import read_events
from hourline_core.aggregates.user_classes.code import (
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
        lengths = pc.list_value_length(kept).to_pylist()
        values = [
            self._finish(state) if length and (is_done or length == count) else None
            for (state, is_done), length, count in zip(self._fold_all(kept), lengths, counts.to_pylist(), strict=True)
        ]
        return as_array(self.measure, "finish", values, self.value_type)

    def count_beyond(self, kept: pa.Array, counts: pa.Array) -> pa.Array:
        """The number of events of each group that were not kept, and that its value lacks. 0 where the fold was done
        without them. The parameters and errors are those of ``finish_all``.
        """
        done = pa.array([is_done for _, is_done in self._fold_all(kept)], pa.bool_())
        return pc.if_else(done, 0, pc.subtract(counts, pc.list_value_length(kept)))

    def _fold_all(self, kept: pa.Array) -> Iterator[tuple[Any, bool]]:
        """The state of each list of events, and whether the fold was done."""
        rows = pc.list_flatten(kept)
        keys = ["group", *ORDER]
        order = pa.table([pc.list_parent_indices(kept), *(rows.field(name) for name in ORDER)], keys)
        events = rows.take(pc.sort_indices(order, [(name, "ascending") for name in keys]))
        arguments = [field.name for field in rows.type][len(ORDER) :]
        steps = enumerate(read_events(self.measure, "step", events, ["at", *arguments]))
        for length in pc.list_value_length(kept).to_pylist():
            yield self._fold(islice(steps, length), events) if length else (None, False)

    def _fold(self, steps: Iterator[tuple[int, tuple[Any, ...]]], events: pa.StructArray) -> tuple[Any, bool]:
        """The state of one group, and whether the fold was done. Each of ``steps`` has an event's place among
        ``events``, its time and arguments.
        """
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
        return state, is_done

    def _finish(self, state: Any) -> Any:
        try:
            return self.finish(state)
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
