"""The hours that a metric's results lack, and the commands that compute them."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Self

from hourline_core.model.hours import HourRange, hour_text


@dataclass(frozen=True)
class MissingHours:
    """The missing hours of one declaration of a metric. They have events from before it was first computed, or reset,
    which only a recompute counts.
    """

    metric: str
    closed: tuple[datetime, ...]
    """Those that have closed (UTC), in order."""
    open: tuple[datetime, ...]
    """The others, in order."""

    @classmethod
    def of(cls, metric: str, hours: Iterable[tuple[datetime, bool]]) -> Self:
        """From each missing hour (UTC), in order, and whether it has closed."""
        every = list(hours)
        return cls(
            metric, tuple(hour for hour, closed in every if closed), tuple(hour for hour, closed in every if not closed)
        )

    @property
    def count(self) -> int:
        """Their number."""
        return len(self.closed) + len(self.open)

    @property
    def command(self) -> str | None:
        """The command that computes the open ones now. None: there are none."""
        if not self.open:
            return None
        hours = HourRange.spanning(self.open)
        return (
            f"hourline recompute --metric {self.metric} --from {hour_text(hours.start)} --to {hour_text(hours.end)} "
            "--include-open"
        )

    def in_words(self) -> list[str]:
        """A sentence for those that have closed, and one for the others, each with the command that computes them."""
        words = []
        if self.closed:
            words.append(
                f"{len(self.closed):,} hour(s) of '{self.metric}' are missing from its results: `hourline recompute` "
                "computes them"
            )
        if self.open:
            words.append(
                f"{len(self.open):,} open hour(s) of '{self.metric}' are missing from its results until they close: "
                f"`{self.command}` computes them now"
            )
        return words
