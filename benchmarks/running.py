"""Runs a benchmark, prints its figures, and stores them for the page.

A benchmark is a module in this package with a function ``measure(full)``. ``python -m benchmarks.<name> [--full]`` runs
it alone. Its figures replace those of its last run in ``benchmarks/last/``, the input of the page.
"""

import argparse
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Collection, Iterable
from datetime import UTC, datetime

from rich.console import Console
from rich.table import Table

from benchmarks.figures import COLUMNS, LAST, Figure, Result


def run(name: str, measure: Callable[..., Iterable[Figure | str]], cases: Collection[str] = ()) -> None:
    """Run a benchmark as the command line says: measure, print, store the figures, and renew the page.

    ``measure`` yields figures, and notes on them. If there are ``cases``, it is also given those that are named.
    """
    parser = parser_of(f"benchmarks.{name}", str(sys.modules[measure.__module__].__doc__).splitlines()[0])
    if cases:
        parser.add_argument("case", nargs="*", help=f"measure it alone: {', '.join(cases)} (default: all)")
    given = parser.parse_args()
    for case in given.case if cases else ():
        # With `choices`, argparse would refuse that none is given.
        if case not in cases:
            parser.error(f"got the case '{case}', allowed are {', '.join(cases)}")
    full = given.full
    began = datetime.now(UTC)
    measured = list(measure(full, given.case) if cases else measure(full))
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
    # A separate process, so that no measured process loads matplotlib.
    subprocess.run([sys.executable, "-m", "benchmarks.page"], check=True)


def parser_of(module: str, description: str) -> argparse.ArgumentParser:
    """The parser of the arguments that each benchmark has, run by ``python -m``."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=description, allow_abbrev=False)
    parser.add_argument(
        "--full", action="store_true", help="measure the large inputs of the goals (default: small inputs, few rounds)"
    )
    return parser


def show(result: Result) -> None:
    """Print the table and notes of one benchmark."""
    table = Table(*COLUMNS, title=f"{result.name}{' (full)' if result.full else ''}")
    for figure in result.figures:
        table.add_row(*figure.row)
    console = Console(width=170)
    console.print(table)
    for note in result.notes:
        console.print(note, markup=False)


def machine() -> str:
    """A description of this machine."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    cores = f"{os.cpu_count()} cores ({platform.machine()})"
    return f"{cores}, {memory:.0f} GiB, {platform.system()}, Python {platform.python_version()}"


def _commit() -> str:
    """The commit, marked dirty if other files than those of the benchmarks have changed."""
    written = [f":(top,exclude)benchmarks/{name}" for name in ("last", "FIGURES.md", "figures.svg")]
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", ":(top)", *written)
    return _git("rev-parse", "--short", "HEAD") + ("-dirty" if changed else "")


def _git(*arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], capture_output=True, text=True, check=False, cwd=LAST.parent
    ).stdout.strip()
