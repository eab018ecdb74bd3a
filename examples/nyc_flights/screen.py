"""The output of the demo: an animated picture of the hours on a terminal, else plain lines."""

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from examples.nyc_flights.check import Comparison
from examples.nyc_flights.hours import Answer, Hours, hour_name, minutes

# Each state has a mark and a colour, for readers without colours. The hours of flights have no other states, since
# flights are not joined there, and the declarations do not change.
_LOOK = {"provisional": ("~", "cyan"), "final": (" ", "black on green"), "revised": ("!", "black on yellow")}
_NEWS_SHOWN = 4


class Screen:
    """The demo's output."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or _console()
        self._live: Live | None = None
        self._last: RenderableType = Text()
        self._news: list[str] = []

    @property
    def is_watched(self) -> bool:
        """Whether the demo runs in a terminal with a user. Not with ``CI=true``."""
        return self.console.is_terminal and sys.stdin.isatty() and not os.environ.get("CI")

    def title(self, text: str) -> None:
        """Print the title of the next act."""
        self.console.print()
        self.console.print(Text(text, style="bold"), soft_wrap=True)

    def say(self, text: str, style: str = "") -> None:
        """Print a line above the animated hours."""
        self.console.print(Text(text, style=style), soft_wrap=True)

    def show(self, renderable: RenderableType) -> None:
        self.console.print(renderable, soft_wrap=isinstance(renderable, Text))

    def command(self, text: str) -> None:
        self.say(f"$ {text}", "magenta")

    def output(self, lines: Iterable[str]) -> None:
        """Print the output of a command."""
        for line in lines:
            self.say(f"  {line}", "dim")

    @contextmanager
    def moving(self) -> Iterator[None]:
        """Within the block, each ``look`` redraws the hours. The last picture stays."""
        self._news.clear()
        self._last = Text()
        if self.console.is_terminal:
            with Live(console=self.console, auto_refresh=False) as self._live:
                yield
            self._live = None
        else:
            yield
            self.show(self._last)

    def look(self, hours: Hours, news: Sequence[str], status: str) -> None:
        """Draw the hours, their last changes, and a status line."""
        self._news += news
        if self._live is None:
            for sentence in news:
                self.say(f"  {sentence}")
            self._last = picture(hours)
        else:
            recent = [
                Text(f"  {sentence}", style="yellow" if "revised" in sentence else "")
                for sentence in self._news[-_NEWS_SHOWN:]
            ]
            self._live.update(
                Group(picture(hours), *recent, Text(f"  {status}", style="dim", no_wrap=True, overflow="ellipsis")),
                refresh=True,
            )


def picture(hours: Hours) -> RenderableType:
    """A row for each day with the flights of its hours (UTC), in the colours of their states, and a legend."""
    days = sorted({hour.replace(hour=0) for hour in hours.now})
    heading = Text("UTC    " + "".join(f" {hour:02d}" for hour in range(24)), style="dim")
    legend = Text.assemble("  ", *_legend(hours), f"{hours.flights:,} flights")
    return Group(heading, *(_day(day, hours.now) for day in days), legend)


def side_by_side(hours: Hours) -> RenderableType:
    """A table of hours whose last provisional answer differs from the final one, with both and their difference."""
    columns = [
        "\nhour (UTC)",
        "flights\nprovisional",
        "\nfinal",
        "\noff by",
        "mean delay\nprovisional",
        "\nfinal",
        "\noff by",
    ]
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, justify="left" if "hour" in column else "right")
    off = {hour: first for hour, first in hours.last_provisional.items() if first.flights != hours.now[hour].flights}
    for hour, first in sorted(off.items()):
        last = hours.now[hour]
        flights = f"{first.flights}", f"{last.flights}", f"{last.flights - first.flights:+d}"
        delay = (last.mean_delay or 0.0) - (first.mean_delay or 0.0)
        table.add_row(
            hour_name(hour), *flights, minutes(first.mean_delay), minutes(last.mean_delay), f"{delay:+.1f} min"
        )
    exact = len(hours.last_provisional) - len(off)
    return Group(table, Text(f"In the other {exact} hours, the last provisional answer was the final one already."))


def verdict(comparison: Comparison) -> Text:
    """The number of compared cells by state, and whether all agree."""
    states = ", ".join(f"{count:,} {state}" for state, count in comparison.cells.most_common())
    total = f"{comparison.cells.total():,} cells compared ({states})"
    if comparison.differences:
        return Text(f"✗ {total}: {len(comparison.differences):,} differ from the CSV", style="bold red")
    return Text(f"✓ {total}: all equal the CSV", style="green")


def _day(day: datetime, now: dict[datetime, Answer]) -> Text:
    row = Text(f"{day:%b} {day.day}  ")
    for number in range(24):
        answer = now.get(day + timedelta(hours=number))
        if answer is None:
            row.append("  ·", style="dim")
        else:
            mark, style = _LOOK[answer.state]
            row.append(f"{mark}{answer.flights:2d}", style=style)
    return row


def _legend(hours: Hours) -> Iterator[tuple[str, str] | str]:
    for state, (mark, style) in _LOOK.items():
        yield f"{mark}{hours.states[state]:2d}", style
        yield f" {state}  "


def _console() -> Console:
    if os.environ.get("CI"):
        return Console(highlight=False, force_terminal=False, color_system=None)
    return Console(highlight=False)
