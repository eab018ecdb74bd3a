"""Tries whether the class of a keyed fold gives one value for one list of events, on generated events."""

import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from hourline_core.aggregates.user_classes.code import line_of
from hourline_core.aggregates.user_classes.fold_class import FoldClass
from hourline_core.aggregates.user_classes.trial_calls import LONGEST, TrialError, call_method
from hourline_core.aggregates.user_classes.trial_events import Event, generate_parts

_BEGIN, _APART = datetime(2024, 2, 28, tzinfo=UTC), timedelta(minutes=7)
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
                    f"the same events {repr(some)[:LONGEST]} gave {repr(first)[:LONGEST]}, and then "
                    f"{repr(again)[:LONGEST]}; keep nothing between two calls, "
                    "change no argument, and use no clock or random number",
                )
    except TrialError as error:
        return str(error)
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


class _Trial:
    """Computes values with the class."""

    def __init__(self, loaded: FoldClass) -> None:
        self._loaded = loaded

    def fold(self, events: Sequence[Event]) -> Any:
        """The value of ``events``."""
        state = begin = call_method(self._loaded, "start")
        for number, event in enumerate(events):
            state = call_method(self._loaded, "step", state, _BEGIN + number * _APART, *event)
            if state is None and begin is not None:
                raise TrialError(self.describe("step", "it gave None, allowed is a state: return it"))
            if call_method(self._loaded, "done", state):
                break
        value = call_method(self._loaded, "finish", state)
        try:
            return pa.array([value], self._loaded.value_type)[0].as_py()
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            raise TrialError(
                self.describe("finish", f"it gave {value!r}, allowed is a value of the type {self._loaded.value_type}")
            ) from None

    def describe(self, method: str, what: str) -> str:
        """The place of ``method``, and what is wrong with it."""
        return f"{self._loaded.measure.file}:{line_of(getattr(self._loaded, method))}: {method}: {what}"
