"""Ctrl-C as a request to finish, instead of an exception in the middle of a count."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Within the block, the first Ctrl-C makes the function returned say True; a second one raises KeyboardInterrupt.
    For the main thread.
    """
    asked = False

    def ask(signal_number: int, frame: FrameType | None) -> None:
        nonlocal asked
        asked = True
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = signal.signal(signal.SIGINT, ask)
    try:
        yield lambda: asked
    finally:
        signal.signal(signal.SIGINT, before)
