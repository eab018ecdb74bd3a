"""What a benchmark gives: figures, most of them of two things that were measured in turn, in one run."""

import statistics
from datetime import datetime
from pathlib import Path

from pydantic import BaseModel

LAST = Path(__file__).with_name("last")
"""The folder of the last results: a JSON file for each benchmark."""


class Figure(BaseModel):
    """One line of the table."""

    what: str
    """What was done, and beside which peer."""
    unit: str
    ours: list[float]
    """One value for each round."""
    peer: list[float]
    """The same rounds of what it is compared with; empty where the goal is an absolute one."""
    goal: float | None = None
    """Of the ratio of ours to the peer's (or, without a peer, of ours)."""
    at_least: bool = False
    """Whether the goal is to be exceeded; else it is not to be."""

    @property
    def value(self) -> float:
        """What is compared with the goal: the ratio of the medians."""
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
        """Whether the goal is; None: there is none."""
        return None if self.goal is None else (self.value >= self.goal if self.at_least else self.value <= self.goal)

    @property
    def row(self) -> list[str]:
        """As ``COLUMNS`` names it."""
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
    """What one run of a benchmark gave."""

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
    """Three digits that count."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
