"""The progress of a recompute in words: hours, events and the time that is left."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from shlex import join

from hourline.cli.output import note
from hourline.cli.progress import in_words, progress_bar
from hourline_core.runtime.running_recomputes import RecomputeProgress, Work

_LONG = timedelta(minutes=1)
"""What is estimated to take longer is told at the start, also where there is no bar."""


@contextmanager
def recompute_progress(doing: str) -> Iterator[Callable[[RecomputeProgress], None]]:
    """Show the progress of a recompute within the block. Yields a function to call with it. Where there is no bar,
    a recompute that is done in one step shows no progress.
    """
    first: Work | None = None
    steps = 0
    with progress_bar(doing, "hours") as show:

        def move(now: RecomputeProgress) -> None:
            nonlocal first, steps
            first = first or now.done
            starts = now.done == first
            steps += not starts
            if steps == 1 and now.done == now.all:
                return
            what = hours_and_events(now.done.events, now.all.events)
            show(now.done.hours, now.all.hours, what, now.left)
            if starts and now.left and now.left >= _LONG:
                note(
                    f"{now.all.hours - first.hours:,} hours are left, {now.all.events - first.events:,} events, "
                    f"{in_words(now.left)} by the pace of the last recomputes"
                )

        yield move


def hours_and_events(done: int, events: int) -> str:
    """What follows the numbers of hours: the word, and the numbers of events."""
    return f"hours, {done:,} of {events:,} events"


def command_text(name: str, *options: tuple[str, str | bool | None]) -> str:
    """A command that recomputes, with those ``options`` that were given, for those who see it run."""
    given = [(option,) if value is True else (option, value) for option, value in options if value]
    return join(["hourline", name, *(str(word) for words in given for word in words)])
