"""The progress bar of a replay."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as RichProgress

from hourline.replay.sending import Progress
from hourline_core.formats.files.record import moment_text


@contextmanager
def progress_bar(
    topic: str, total: int, clock: Callable[[], float] = time.monotonic
) -> Iterator[Callable[[Progress], None]]:
    """Show a bar on stderr within the block, and a summary line after it. Without a terminal, only the line is shown.

    Yields the function that moves the bar.
    """
    console = Console(stderr=True)
    start, sent, moment = clock(), 0, None

    def facts() -> str:
        reached = moment_text(moment)
        return f"{sent / max(clock() - start, 0.001):,.0f} records/s" + (f", at {reached} UTC" if reached else "")

    columns = (
        TextColumn(f"replay to {topic}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[facts]}"),
    )
    with RichProgress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=total, facts="")

        def move(progress: Progress) -> None:
            nonlocal sent, moment
            sent, moment = progress.sent, progress.moment
            bar.update(task, completed=sent, facts=facts())

        yield move
    # Not after an exception, whose message has the number of sent records.
    line = f"sent {sent:,} of {total:,} records to topic '{topic}' in {clock() - start:.1f} s: {facts()}"
    console.print(line, highlight=False, markup=False, soft_wrap=True)
