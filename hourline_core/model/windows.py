"""Windows: which results an event counts in, and when such a result is complete.

The layers keep partial states by *pane*: a slice of event time that no window cuts in two. A result is the merge of the
panes of its window. Every question about window arithmetic is answered here; Spark and DuckDB get the answer as a
number or an expression. The notions are those of "Semantics and Evaluation Techniques for Window Aggregates in Data
Streams" (Li et al., SIGMOD 2005), which introduced panes.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Window(Protocol):
    """The windows of a metric. All times are aware and in UTC; a window, and a pane, is named by its start."""

    @property
    def pane(self) -> timedelta:
        """The length of a pane."""

    def assign(self, event_time: datetime) -> datetime:
        """The pane that an event at ``event_time`` lies in."""

    def panes(self, start: datetime) -> Iterator[datetime]:
        """The panes that the result of the window ``start`` is merged from, in order."""

    def results(self, pane: datetime) -> Iterator[datetime]:
        """The windows whose results ``pane`` is part of, in order: what a late event in it changes."""

    def complete_after(self, grace: timedelta) -> timedelta:
        """How long after its start a window is closed: ``grace`` past its end, by its source's clock."""


@dataclass(frozen=True)
class TumblingWindow:
    """Windows of one ``size`` that follow each other without a gap, aligned to 1970. Each is a single pane."""

    size: timedelta

    @property
    def pane(self) -> timedelta:
        """The size of the window itself."""
        return self.size

    def assign(self, event_time: datetime) -> datetime:
        """The window that the event lies in; ``start <= event_time < start + size``."""
        return event_time - (event_time - _EPOCH) % self.size

    def panes(self, start: datetime) -> Iterator[datetime]:
        """``start`` alone."""
        yield start

    def results(self, pane: datetime) -> Iterator[datetime]:
        """``pane`` alone."""
        yield pane

    def complete_after(self, grace: timedelta) -> timedelta:
        """The size of the window and ``grace``."""
        return self.size + grace


HOURLY = TumblingWindow(timedelta(hours=1))
"""The only windows today: the hours of UTC."""
