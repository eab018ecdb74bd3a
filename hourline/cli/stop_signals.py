"""Turns Ctrl-C and SIGTERM into an event that a long command checks."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from hourline.cli.output import note


@contextmanager
def stop_on_signal(stopping: str = "stopping after the micro-batch under way") -> Iterator[threading.Event]:
    """An event that Ctrl-C and SIGTERM set, with ``stopping`` on standard error. A second one raises
    KeyboardInterrupt, which ends a wait.
    """
    stop = threading.Event()

    def on_signal(number: int, frame: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        note(stopping)
        stop.set()

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def interrupt_on_sigterm() -> Iterator[None]:
    """SIGTERM within the block does what Ctrl-C does: it raises KeyboardInterrupt."""

    def on_signal(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, on_signal)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
