"""Tries whether the class of a keyed fold gives one value for one list of events, on generated events."""

import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from hourline_core.aggregates.fold_class import FoldClass
from hourline_core.aggregates.trial_events import Event, generate_parts
from hourline_core.aggregates.user_code import describe_exception, line_of, place_in

_BEGIN, _APART = datetime(2024, 2, 28, tzinfo=UTC), timedelta(minutes=7)
_LONGEST = 500
"""The maximum number of characters of a call's arguments in a message."""
_LONG = 0.5
"""The maximum number of seconds that a class is timed for."""


def find_broken_fold(loaded: FoldClass, arguments: Sequence[pa.DataType]) -> str | None:
    """File, line and what is wrong, with an example. None: nothing was found.

    ``arguments`` are the types of the measure's arguments. Events are those in the class's ``examples``, if it has
    some, and else generated.
    """
    trial = _Trial(loaded)
    try:
        for some, others, _ in generate_parts(loaded.examples, arguments):
            first = trial.fold(some)
            trial.fold(others)
            if repr(again := trial.fold(some)) != repr(first):
                return trial.describe(
                    "step",
                    f"the same events {repr(some)[:_LONGEST]} gave {repr(first)[:_LONGEST]}, and then "
                    f"{repr(again)[:_LONGEST]}; keep nothing between two calls, "
                    "change no argument, and use no clock or random number",
                )
    except _RaisedError as raised:
        return str(raised)
    return None


def measure_step_seconds(loaded: FoldClass, arguments: Sequence[pa.DataType]) -> float:
    """The time that ``step`` takes for an event, on average over the lists that ``find_broken_fold`` tries it on."""
    tried = [part for some, others, _ in generate_parts(loaded.examples, arguments) for part in (some, others)]
    steps, began = 0, time.perf_counter()
    for events in tried:
        state = loaded.start()
        for number, event in enumerate(events):
            state, steps = loaded.step(state, _BEGIN + number * _APART, *event), steps + 1
            if loaded.done(state):
                break
        if time.perf_counter() - began > _LONG:
            break
    return (time.perf_counter() - began) / steps


class _RaisedError(Exception):
    """A method of the class raised, or gave what is not of its type."""


class _Trial:
    """Computes values with the class."""

    def __init__(self, loaded: FoldClass) -> None:
        self._loaded = loaded

    def fold(self, events: Sequence[Event]) -> Any:
        """The value of ``events``."""
        state = begin = self._call("start")
        for number, event in enumerate(events):
            state = self._call("step", state, _BEGIN + number * _APART, *event)
            if state is None and begin is not None:
                raise _RaisedError(self.describe("step", "it gave None, allowed is a state: return it"))
            if self._call("done", state):
                break
        value = self._call("finish", state)
        try:
            return pa.array([value], self._loaded.value_type)[0].as_py()
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            raise _RaisedError(
                self.describe("finish", f"it gave {value!r}, allowed is a value of the type {self._loaded.value_type}")
            ) from None

    def describe(self, method: str, what: str) -> str:
        """The place of ``method``, and what is wrong with it."""
        return f"{self._loaded.measure.file}:{line_of(getattr(self._loaded, method))}: {method}: {what}"

    def _call(self, method: str, *arguments: Any) -> Any:
        try:
            return getattr(self._loaded, method)(*arguments)
        except (Exception, SystemExit) as error:
            got = ", ".join(map(repr, arguments))[:_LONGEST]
            raise _RaisedError(
                f"{place_in(self._loaded.measure, error)}: {method}({got}) raised {describe_exception(error)}; "
                "if events never have such values, give some that they have: `examples = [(1.5,), (2.0,)]`"
            ) from None
