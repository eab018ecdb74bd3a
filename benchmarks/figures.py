"""What a benchmark gives: figures, most of them of two things that were measured in turn, in one run. Printed, and kept
for the page.

A benchmark is a module here with a function ``measure(full)``; ``python -m benchmarks.<name> [--full]`` runs it alone.
Its figures replace those of its last run in ``benchmarks/last/``, of which the page is made.
"""

import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path

from pydantic import BaseModel
from rich.console import Console
from rich.table import Table

LAST = Path(__file__).with_name("last")


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


def run(name: str, measure: Callable[[bool], Iterable[Figure | str]]) -> None:
    """The main program of a benchmark: measure, print, keep. What ``measure`` gives is a figure, or a sentence that
    belongs to them.
    """
    began = datetime.now(UTC)
    full = "--full" in sys.argv
    given = list(measure(full))
    figures, notes = [one for one in given if isinstance(one, Figure)], [one for one in given if isinstance(one, str)]
    taken = datetime.now(UTC)
    result = Result(
        name=name,
        full=full,
        taken=taken,
        commit=_commit(),
        machine=machine(),
        seconds=(taken - began).total_seconds(),
        figures=figures,
        notes=notes,
    )
    LAST.mkdir(exist_ok=True)
    (LAST / f"{name}.json").write_text(result.model_dump_json(indent=1) + "\n", encoding="utf-8")
    show(result)
    from benchmarks import page  # here, so that no process that is measured holds matplotlib

    page.write()


def show(result: Result) -> None:
    """The table of one benchmark."""
    table = Table(*COLUMNS, title=f"{result.name}{' (full)' if result.full else ''}")
    for figure in result.figures:
        table.add_row(*figure.row)
    console = Console(width=170)
    console.print(table)
    for note in result.notes:
        console.print(note, markup=False)


def short(value: float) -> str:
    """Three digits that count."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def machine() -> str:
    """What the figures were taken on."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{os.cpu_count()} cores ({platform.machine()}), {memory:.0f} GiB, {platform.system()}, Python {platform.python_version()}"


def _commit() -> str:
    """Dirty if something has changed since, but for what the benchmarks before this one have written."""
    written = [f":(top,exclude)benchmarks/{name}" for name in ("last", "FIGURES.md", "figures.svg")]
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", ":(top)", *written)
    return _git("rev-parse", "--short", "HEAD") + ("-dirty" if changed else "")


def _git(*arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], capture_output=True, text=True, check=False, cwd=LAST.parent
    ).stdout.strip()
