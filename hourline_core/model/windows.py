"""Windows: the results that an event counts in, and the time when a result is complete.

The layers keep partial states by *pane*: a slice of event time that no window boundary divides. A result is the merge
of the panes of its window. All window arithmetic is here; Spark and DuckDB get its results as numbers or expressions.
Panes were introduced by "Semantics and Evaluation Techniques for Window Aggregates in Data Streams" (Li et al., SIGMOD
2005).
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Window(Protocol):
    """The windows of a metric. All times are aware and in UTC. The start of a window or pane is its name."""

    @property
    def pane(self) -> timedelta:
        """The length of a pane."""

    def assign(self, event_time: datetime) -> datetime:
        """The pane that contains ``event_time``."""

    def complete_after(self, grace: timedelta) -> timedelta:
        """The time from a window's start to its close, which is ``grace`` past its end, by its source's clock."""


@dataclass(frozen=True)
class TumblingWindow:
    """Windows of one ``size`` without gaps or overlaps, aligned to 1970 in UTC. Each is a single pane."""

    size: timedelta

    @property
    def pane(self) -> timedelta:
        """The size of the window itself."""
        return self.size

    def assign(self, event_time: datetime) -> datetime:
        """The window with ``start <= event_time < start + size``."""
        return event_time - (event_time - _EPOCH) % self.size

    def complete_after(self, grace: timedelta) -> timedelta:
        """The size of the window plus ``grace``."""
        return self.size + grace


HOURLY = TumblingWindow(timedelta(hours=1))
"""The only windows so far: the hours of UTC."""
