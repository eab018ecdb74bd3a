"""The class of a keyed fold: the events of a group, one after the other in the order of their event times."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from hourline_core.aggregates.python_values import UnreadableValueError, read_events
from hourline_core.aggregates.user_classes.attempts import Failure, attempt, compute_each
from hourline_core.aggregates.user_classes.code import (
    ALLOWED_VALUES,
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
        fold was not done, and where the class fails.
        """
        return compute_each(self.measure, self._finish, _read_groups(kept, counts), self.value_type)

    def count_beyond(self, kept: pa.Array, counts: pa.Array) -> pa.Array:
        """The number of events of each group that were not kept, and that its value lacks. 0 where the fold was done
        without them. The parameters are those of ``finish_all``.
        """
        done = compute_each(self.measure, lambda group: self._fold(group)[1], _read_groups(kept, counts), pa.bool_())
        return pc.if_else(pc.fill_null(done, False), 0, pc.subtract(counts, pc.list_value_length(kept)))

    def find_failures(self, kept: pa.Array, counts: pa.Array) -> pa.Array:
        """Why the class gives no value for each list (string). Null where it does not fail. The parameters are those of
        ``finish_all``.
        """
        finished = [
            attempt(self.measure, lambda group: pa.array([self._finish(group)], self.value_type), group)
            for group in _read_groups(kept, counts)
        ]
        return pa.array([one.message if isinstance(one, Failure) else None for one in finished], pa.string())

    def _fold(self, group: "_Group") -> tuple[Any, bool]:
        """The state of a group, and whether the fold was done. Raises what the class raises."""
        if isinstance(group.steps, UnreadableValueError):
            raise group.steps
        state = self.start()
        for at, *arguments in group.steps:
            state = self.step(state, at, *arguments)
            if self.done(state):
                return state, True
        return state, False

    def _finish(self, group: "_Group") -> Any:
        if not group.length:
            return None
        state, is_done = self._fold(group)
        return self.finish(state) if is_done or group.length == group.events else None


class _Group(NamedTuple):
    """The kept events of a group."""

    length: int | None
    """Their number. None or 0: there are none."""
    events: int | None
    """The number of all events of the group."""
    steps: Sequence[tuple[Any, ...]] | UnreadableValueError
    """The time and the arguments of each kept event, in their order."""


def _read_groups(kept: pa.Array, counts: pa.Array) -> list[_Group]:
    lengths, numbers = pc.list_value_length(kept).to_pylist(), counts.to_pylist()
    try:
        steps = iter(_read_steps(kept))
    except UnreadableValueError as error:
        if len(kept) == 1:
            return [_Group(lengths[0], numbers[0], error)]
        each = ((kept.slice(place, 1), counts.slice(place, 1)) for place in range(len(kept)))
        return [group for one in each for group in _read_groups(*one)]
    return [
        _Group(length, count, list(islice(steps, length or 0))) for length, count in zip(lengths, numbers, strict=True)
    ]


def _read_steps(kept: pa.Array) -> list[tuple[Any, ...]]:
    """The time and the arguments of the events of all lists, one list after the other, each in the order of ORDER."""
    rows = pc.list_flatten(kept)
    keys = ["group", *ORDER]
    order = pa.table([pc.list_parent_indices(kept), *(rows.field(name) for name in ORDER)], keys)
    events = rows.take(pc.sort_indices(order, [(name, "ascending") for name in keys]))
    arguments = [field.name for field in rows.type][len(ORDER) :]
    return read_events([events.field(name) for name in ("at", *arguments)])


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
