"""The progress bar of a replay."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as RichProgress
from rich.table import Column

from hourline.replay.sending import Progress
from hourline_core.formats.files.record import moment_text


@contextmanager
def progress_bar(
    topic: str, total: int, clock: Callable[[], float] = time.monotonic
) -> Iterator[Callable[[Progress], None]]:
    """Show a bar on stderr within the block, and a summary line after it. Without a terminal, only the line is shown.

    Yields the function that moves the bar. The time that the order column has reached is shown without a zone: a text
    without an offset has one that only the source's declaration knows. Texts with offsets are shown in UTC.
    """
    console = Console(stderr=True)
    start, sent, moment = clock(), 0, None

    def pace() -> str:
        return f"{sent / max(clock() - start, 0.001):,.0f}"

    def reached() -> str:
        text = moment_text(moment)
        return f"at {text}" if text else ""

    # Wide enough for 80 columns: the bar takes what the others leave.
    columns = (
        TextColumn(topic, markup=False, table_column=Column(max_width=16, no_wrap=True, overflow="ellipsis")),
        BarColumn(bar_width=None, table_column=Column(ratio=1)),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[facts]}"),
    )
    with RichProgress(*columns, console=console, transient=True, disable=not console.is_terminal, expand=True) as bar:
        task = bar.add_task("", total=total, facts="")

        def move(progress: Progress) -> None:
            nonlocal sent, moment
            sent, moment = progress.sent, progress.moment
            bar.update(task, completed=sent, facts=f"{pace()}/s {reached()}".strip())

        yield move
    # Not after an exception, whose message has the number of sent records.
    line = f"sent {sent:,} of {total:,} records to topic '{topic}' in {clock() - start:.1f} s: {pace()} records/s"
    console.print(f"{line}, {reached()}".removesuffix(", "), highlight=False, markup=False, soft_wrap=True)
