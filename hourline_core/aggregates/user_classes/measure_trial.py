"""Tries whether the class of a user-defined measure merges, on generated events.

Micro-batches, hours, groups and windows merge states in any order and grouping. So for any parts of events, the value
must be that of all events at once. Parts are tried from small to large, and a part that breaks a law loses events as
long as it does. So what is told is small.
"""

import math
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from hourline_core.aggregates.user_classes.code import line_of
from hourline_core.aggregates.user_classes.measure_class import UserClass
from hourline_core.aggregates.user_classes.trial_calls import TrialError, call_method
from hourline_core.aggregates.user_classes.trial_events import Event, Parts, generate_parts

TOLERANCE = 1e-9
"""How far two numbers may be apart, relative to the larger one, and for numbers below 1 absolutely."""

_LONG = 0.5
"""The maximum number of seconds that a class is timed for."""


def find_unmergeable(loaded: UserClass, arguments: Sequence[pa.DataType]) -> str | None:
    """File, line and what is wrong, with a counter-example. None: nothing was found.

    ``arguments`` are the types of the measure's arguments. Events are those in the class's ``examples``, if it has
    some, and else generated.
    """
    trial = _Trial(loaded)
    try:
        for parts in generate_parts(loaded.examples, arguments):
            for law in _LAWS:
                if trial.breaks(law, parts):
                    return trial.describe(law, trial.shrink(law, parts))
    except TrialError as error:
        return str(error)
    return None


def measure_seconds(loaded: UserClass, arguments: Sequence[pa.DataType]) -> float:
    """The time that ``add`` takes for an event, on average over those that it is tried on."""
    events = [event for parts in generate_parts(loaded.examples, arguments) for part in parts for event in part]
    state, done, began = loaded.start(), 0, time.perf_counter()
    for event in events:
        state, done = loaded.add(state, *event), done + 1
        if time.perf_counter() - began > _LONG:
            break
    return (time.perf_counter() - began) / done


class _Trial:
    """Computes values with the class. Each state is stored and read again, as between micro-batches."""

    def __init__(self, loaded: UserClass) -> None:
        self._loaded = loaded

    def fold(self, events: Sequence[Event]) -> Any:
        state = call_method(self._loaded, "start")
        for event in events:
            state = call_method(self._loaded, "add", state, *event)
        return self._store("add", state, self._loaded.state_type)

    def merge(self, one: Any, other: Any) -> Any:
        return self._store("merge", call_method(self._loaded, "merge", one, other), self._loaded.state_type)

    def breaks(self, law: "_Law", parts: Parts) -> bool:
        return not _is_same(*self._values(law, parts))

    def shrink(self, law: "_Law", parts: Parts) -> Parts:
        """The parts with as few events as break the law. Each keeps one at least."""
        smaller = (
            [*parts[:number], [*part[:at], *part[at + 1 :]], *parts[number + 1 :]]
            for number, part in enumerate(parts)
            if len(part) > 1
            for at in range(len(part))
        )
        found = next((some for some in smaller if self.breaks(law, some)), None)
        return parts if found is None else self.shrink(law, found)

    def describe(self, law: "_Law", parts: Parts) -> str:
        one, other = self._values(law, parts)
        states = ", ".join(f"{name} of {_text_of(part)}" for name, part in zip(law.states, parts, strict=False))
        line = line_of(getattr(self._loaded, law.method))
        return (
            f"{self._loaded.measure.file}:{line}: {law.one} and {law.other} differ: with the states {states}, they "
            f"give {one!r} and {other!r}; parts of the events are merged in any order, so both have to be equal"
        )

    def _values(self, law: "_Law", parts: Parts) -> tuple[Any, Any]:
        one, other = law.compute(self, *parts)
        return self._finish(one), self._finish(other)

    def _finish(self, state: Any) -> Any:
        return self._store("finish", call_method(self._loaded, "finish", state), self._loaded.value_type)

    def _store(self, method: str, value: Any, of: pa.DataType) -> Any:
        try:
            if value is None and method != "finish":
                raise TypeError  # A null would be no state.
            return pa.array([value], of)[0].as_py()
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            line = line_of(getattr(self._loaded, method))
            raise TrialError(
                f"{self._loaded.measure.file}:{line}: {method} gave {value!r}, allowed is a value of the type {of}"
            ) from None


class _Law(NamedTuple):
    """Two ways to a value that must agree."""

    method: str
    """The one that is to be mended."""
    states: str
    """The letters of the states that it is about."""
    one: str
    other: str
    compute: Callable[[_Trial, Sequence[Event], Sequence[Event], Sequence[Event]], tuple[Any, Any]]


_LAWS = (
    _Law(
        "merge",
        "ab",
        "merge(a, b)",
        "merge(b, a)",
        lambda t, a, b, c: (t.merge(t.fold(a), t.fold(b)), t.merge(t.fold(b), t.fold(a))),
    ),
    _Law(
        "merge",
        "abc",
        "merge(merge(a, b), c)",
        "merge(a, merge(b, c))",
        lambda t, a, b, c: (
            t.merge(t.merge(t.fold(a), t.fold(b)), t.fold(c)),
            t.merge(t.fold(a), t.merge(t.fold(b), t.fold(c))),
        ),
    ),
    _Law(
        "add",
        "ab",
        "merge(a, b)",
        "add for all their events",
        lambda t, a, b, c: (t.merge(t.fold(a), t.fold(b)), t.fold([*a, *b])),
    ),
)


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        both_nan = math.isnan(one) and math.isnan(other)
        return both_nan or math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    return bool(one == other)


def _text_of(events: Sequence[Event]) -> str:
    return f"[{', '.join(repr(event[0]) if len(event) == 1 else repr(event) for event in events)}]"
