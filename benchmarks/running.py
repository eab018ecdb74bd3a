"""Runs a benchmark: its figures are printed, and kept for the page.

A benchmark is a module here with a function ``measure(full)``; ``python -m benchmarks.<name> [--full]`` runs it alone.
Its figures replace those of its last run in ``benchmarks/last/``, of which the page is made.
"""

import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterable
from datetime import UTC, datetime

from rich.console import Console
from rich.table import Table

from benchmarks.figures import COLUMNS, LAST, Figure, Result


def run(name: str, measure: Callable[[bool], Iterable[Figure | str]]) -> None:
    """The main program of a benchmark: measure, print, keep, and renew the page.

    ``measure`` gives figures, and sentences that belong to them.
    """
    began = datetime.now(UTC)
    full = "--full" in sys.argv
    measured = list(measure(full))
    figures = [one for one in measured if isinstance(one, Figure)]
    notes = [one for one in measured if isinstance(one, str)]
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
    # A process of its own, so that no process that is measured holds matplotlib.
    subprocess.run([sys.executable, "-m", "benchmarks.page"], check=True)


def show(result: Result) -> None:
    """The table of one benchmark."""
    table = Table(*COLUMNS, title=f"{result.name}{' (full)' if result.full else ''}")
    for figure in result.figures:
        table.add_row(*figure.row)
    console = Console(width=170)
    console.print(table)
    for note in result.notes:
        console.print(note, markup=False)


def machine() -> str:
    """What the figures were taken on."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    cores = f"{os.cpu_count()} cores ({platform.machine()})"
    return f"{cores}, {memory:.0f} GiB, {platform.system()}, Python {platform.python_version()}"


def _commit() -> str:
    """Dirty if something has changed since, but for what the benchmarks before this one have written."""
    written = [f":(top,exclude)benchmarks/{name}" for name in ("last", "FIGURES.md", "figures.svg")]
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", ":(top)", *written)
    return _git("rev-parse", "--short", "HEAD") + ("-dirty" if changed else "")


def _git(*arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], capture_output=True, text=True, check=False, cwd=LAST.parent
    ).stdout.strip()
