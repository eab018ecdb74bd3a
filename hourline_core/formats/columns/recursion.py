"""Recursion over a value, however deep the caller is."""

from collections.abc import Callable
from threading import Thread
from typing import TypeVar

_Argument = TypeVar("_Argument")
_Result = TypeVar("_Result")


def despite_depth(function: Callable[[_Argument], _Result], argument: _Argument) -> _Result:
    """``function(argument)``, in a thread with an empty stack if the caller's has no room left for its recursion."""
    try:
        return function(argument)
    except RecursionError:
        pass
    results: list[_Result] = []
    faults: list[Exception] = []

    def run() -> None:
        try:
            results.append(function(argument))
        except Exception as fault:
            faults.append(fault)

    thread = Thread(target=run)
    thread.start()
    thread.join()
    if faults:
        raise faults[0]
    return results[0]
