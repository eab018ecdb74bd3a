"""The progress of a recompute in words: hours, events and the time that is left."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from shlex import join

from hourline.cli.progress import progress_bar
from hourline_core.runtime.running_recomputes import RecomputeProgress


@contextmanager
def recompute_progress(doing: str) -> Iterator[Callable[[RecomputeProgress], None]]:
    """Show the progress of a recompute within the block. Yields a function to call with it. What is done in one step
    has no progress to show where there is no bar.
    """
    steps = 0
    with progress_bar(doing, "hours") as show:

        def move(now: RecomputeProgress) -> None:
            nonlocal steps
            steps += now.done.hours > 0
            in_one = steps <= 1 and now.done == now.all
            if not in_one:
                show(now.done.hours, now.all.hours, hours_and_events(now.done.events, now.all.events), now.left)

        yield move


def hours_and_events(done: int, events: int) -> str:
    """What follows the numbers of hours: the word, and the numbers of events."""
    return f"hours, {done:,} of {events:,} events"


def command_text(
    name: str, start: str | None, end: str | None, metrics: Sequence[str] | None = None, problem: str | None = None
) -> str:
    """A command that recomputes, with what it was asked for, for those who see it run."""
    options = [("--from", start), ("--to", end), *(("--metric", metric) for metric in metrics or ())]
    options.append(("--problem", problem))
    return join(["hourline", name, *(word for option in options if option[1] for word in option if word)])
