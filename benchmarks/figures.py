"""The results of a benchmark: figures, most of them of two subjects that take turns within one run."""

import statistics
from datetime import datetime
from pathlib import Path

from pydantic import BaseModel

LAST = Path(__file__).with_name("last")
"""The folder of the last results: a JSON file for each benchmark."""


class Figure(BaseModel):
    """One line of the table."""

    what: str
    """The operation and its peer."""
    unit: str
    ours: list[float]
    """One value per round."""
    peer: list[float]
    """The values of the peer in the same rounds. Empty if the goal is absolute."""
    goal: float | None = None
    """The goal for the ratio to the peer, or for the value if there is no peer."""
    at_least: bool = False
    """Whether the goal is a lower bound. Otherwise it is an upper bound."""

    @property
    def value(self) -> float:
        """The value that is compared with the goal: the ratio of the medians."""
        return (
            statistics.median(self.ours) / statistics.median(self.peer) if self.peer else statistics.median(self.ours)
        )

    @property
    def spread(self) -> tuple[float, float]:
        """The lowest and the highest of the rounds."""
        rounds = [a / b for a, b in zip(self.ours, self.peer, strict=True)] if self.peer else self.ours
        return min(rounds), max(rounds)

    @property
    def reached(self) -> bool | None:
        """Whether the goal is reached, or None without a goal."""
        return None if self.goal is None else (self.value >= self.goal if self.at_least else self.value <= self.goal)

    @property
    def row(self) -> list[str]:
        """The cells in the order of ``COLUMNS``."""
        low, high = self.spread
        goal = "" if self.goal is None else f"{'≥' if self.at_least else '≤'} {self.goal:,g}"
        met = {None: "", True: "yes", False: "no"}[self.reached]
        peer = short(statistics.median(self.peer)) if self.peer else ""
        return [
            self.what,
            self.unit,
            short(statistics.median(self.ours)),
            peer,
            short(self.value),
            f"{short(low)}–{short(high)}",
            goal,
            met,
        ]


COLUMNS = ["what", "of", "measured", "beside", "value", "spread", "goal", "reached"]


class Result(BaseModel):
    """The result of one run of a benchmark."""

    name: str
    full: bool
    taken: datetime
    """UTC."""
    commit: str
    machine: str
    seconds: float
    figures: list[Figure]
    notes: list[str]


def short(value: float) -> str:
    """``value`` with three significant digits."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
