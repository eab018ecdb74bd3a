"""The progress of a long command, on standard error: a bar on a terminal, else a line now and then."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from hourline.cli.output import note
from hourline_core.runtime.standard_streams import error_stream

_BETWEEN_LINES = 5.0
"""The minimum number of seconds between two lines, where there is no bar."""


@contextmanager
def progress(
    doing: str, what: str, total: int, done: int = 0, clock: Callable[[], float] = time.monotonic
) -> Iterator[Callable[[int], None]]:
    """Show progress within the block. Yields a function to call with the number that is done. ``total`` is their
    number, ``what`` says of what (hours, rows), ``done`` is the number at the start.
    """
    started, first = clock(), done
    with progress_bar(doing, what, total, done, clock) as show:

        def move(now: int) -> None:
            left = (clock() - started) / (now - first) * (total - now) if now > first else None
            show(now, total, what, timedelta(seconds=left) if left else None)

        yield move


@contextmanager
def progress_bar(
    doing: str, what: str, total: int | None = None, done: int = 0, clock: Callable[[], float] = time.monotonic
) -> Iterator[Callable[[int, int, str, timedelta | None], None]]:
    """Show progress within the block. Yields a function to call with the number that is done, their total number, of
    what they are, and the time that is left.
    """
    told = clock()
    # A descriptor of its own, since Spark's start sends standard error to its log for a while.
    with error_stream(os.dup(sys.__stderr__.fileno() if sys.__stderr__ else 2)) as output:
        console = Console(file=output)
        columns = (
            TextColumn(doing, markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[what]}"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
        )
        # Within the block, output goes above the bar, unless it does not go to the terminal.
        with Progress(
            *columns,
            console=console,
            transient=True,
            disable=not console.is_terminal,
            redirect_stdout=sys.stdout.isatty(),
            redirect_stderr=True,
        ) as bar:
            task = bar.add_task("", total=total, completed=done, what=what, left="")

            def show(now: int, total: int, what: str, left: timedelta | None) -> None:
                nonlocal told
                words = f", {in_words(left)} left" if left else ""
                bar.update(task, total=total, completed=now, what=what, left=words.removeprefix(", "))
                if not console.is_terminal and (now == total or clock() - told >= _BETWEEN_LINES):
                    told = clock()
                    note(f"{now:,} of {total:,} {what}{words}")

            yield show


def in_words(time: timedelta) -> str:
    """``about 40 s``, ``about 12 min``, ``about 3.5 h``."""
    seconds = time.total_seconds()
    if seconds < 90:
        return f"about {max(1, round(seconds))} s"
    return f"about {round(seconds / 60)} min" if seconds < 5400 else f"about {seconds / 3600:.1f} h"
