"""Calls what may never return, such as a read from a server that has stopped."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any, TypeVar

_Of = TypeVar("_Of")

MOST_ABANDONED = 3
"""The maximum number of calls about one thing that go on although nobody waits for them. Each may hold a connection."""
_ABANDONED: dict[str, list["Future[Any]"]] = {}
"""By what they are about, the calls that nobody waits for."""
_LOCK = threading.Lock()


class AbandonedError(Exception):
    """As many calls as are allowed still go on, and nobody waits for them."""


def call_within(seconds: float, about: str, call: Callable[[], _Of]) -> _Of:
    """What ``call`` gives. ``about`` says what it is about. It is called in a thread, since nothing else ends the wait
    for a library that does not return.

    Raises what it raises, TimeoutError if it takes more than ``seconds``, and AbandonedError if MOST_ABANDONED calls
    of before still go on.
    """
    with _LOCK:
        _ABANDONED[about] = [one for one in _ABANDONED.get(about, []) if not one.done()]
        if len(_ABANDONED[about]) >= MOST_ABANDONED:
            raise AbandonedError
    called: Future[_Of] = Future()
    # A thread of a pool would be waited for at the end of the process.
    threading.Thread(target=_call, args=(called, call), daemon=True).start()
    if not wait([called], seconds).done:
        with _LOCK:
            _ABANDONED[about].append(called)
        raise TimeoutError
    return called.result()


def _call(called: "Future[_Of]", call: Callable[[], _Of]) -> None:
    try:
        called.set_result(call())
    except BaseException as error:
        called.set_exception(error)
