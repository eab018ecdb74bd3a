"""Calls the methods of a user's class in its trial."""

import sys
import time
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

from hourline_core.aggregates.user_classes.code import describe_exception, place_in
from hourline_core.aggregates.user_classes.fold_class import FoldClass
from hourline_core.aggregates.user_classes.measure_class import UserClass

SECONDS = 10.0
"""The maximum CPU time of one call. A slow class takes less. A loop without an end takes more."""
LONGEST = 500
"""The maximum number of characters of a call's arguments in a message."""


class TrialError(Exception):
    """The trial refuses a class. The message begins with file and line."""


class _EndlessError(BaseException):
    """A call takes longer than it may. It is no Exception, so that `except Exception` in a loop does not catch it."""


def call_method(loaded: FoldClass | UserClass, method: str, *arguments: Any) -> Any:
    """What a method gives for ``arguments``. Raises TrialError if it raises, or its own lines loop without end. It does
    not stop a method that waits, loops in a library, or catches everything in its loop.
    """
    measure = loaded.measure
    try:
        return _call_within(SECONDS, measure.file, getattr(loaded, method), arguments)
    except _EndlessError as error:  # Without the arguments: the loop may have made them huge.
        raise TrialError(
            f"{place_in(measure, error)}: {method} of {measure.class_name} did not end within {SECONDS:g} s of CPU "
            "time, which is the limit for one call; end its loop"
        ) from None
    except (Exception, SystemExit) as error:
        got = ", ".join(map(repr, arguments))[:LONGEST]
        raise TrialError(
            f"{place_in(measure, error)}: {method}({got}) raised {describe_exception(error)}; "
            "if events never have such values, give some that they have: `examples = [(1.5,), (2.0,)]`"
        ) from None


def _call_within(seconds: float, file: str, method: Callable[..., Any], arguments: Sequence[Any]) -> Any:
    """What ``method`` gives. Raises _EndlessError at a line of ``file`` once this thread has used ``seconds`` for it.

    A trace function works in any thread. An alarm would need the main thread.
    """
    end = time.thread_time() + seconds

    def look(frame: FrameType, event: str, argument: Any) -> Any:
        if time.thread_time() > end:
            raise _EndlessError
        return look if frame.f_code.co_filename == file else None  # Other code is looked at when it is called.

    before = sys.gettrace()
    sys.settrace(look)
    try:
        return method(*arguments)
    finally:
        sys.settrace(before)
