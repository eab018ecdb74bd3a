"""Hours that several problems block: none of them is published until all of these problems are accepted."""

from collections import Counter, defaultdict
from dataclasses import replace
from datetime import datetime

from hourline_core.ledger.problems import Problem, accept_command, counted

Cell = tuple[str, datetime]
"""A metric and an hour (UTC)."""


def tell_overlaps(blocking: list[Problem]) -> list[Problem]:
    """``blocking``, the problems that block, each with the others that block its hours, too."""
    of_cell: dict[Cell, set[str]] = defaultdict(set)
    for problem in blocking:
        for one in problem.hours:
            of_cell[one.metric, one.hour].add(problem.id)
    cells: dict[frozenset[str], set[Cell]] = defaultdict(set)
    for cell, ids in of_cell.items():
        cells[frozenset(ids)].add(cell)
    sets_of: dict[str, list[frozenset[str]]] = defaultdict(list)
    for together in cells:
        for id in together:
            sets_of[id].append(together)
    known = {problem.id: problem for problem in blocking}
    told = []
    for problem in blocking:
        beside: Counter[str] = Counter()
        for together in sets_of[problem.id]:
            beside.update(dict.fromkeys(together - {problem.id}, len(cells[together])))
        waits_for = ""
        if frozenset({problem.id}) not in cells:
            # The others without which none of its hours can be published.
            needed = [problem.id, *sorted(id for id, count in beside.items() if count == len(problem.hours))]
            waits_for = "other problems block all of these hours, too: accept those first"
            if any(ids <= set(needed) for ids in sets_of[problem.id]):
                freed = {cell for id in needed for ids in sets_of[id] if ids <= set(needed) for cell in cells[ids]}
                waits_for = _in_words([known[id] for id in needed], len({hour for _, hour in freed}))
        told.append(replace(problem, beside=dict(beside), waits_for=waits_for))
    return told


def _in_words(needed: list[Problem], freed: int) -> str:
    """Why the first of ``needed`` cannot be accepted alone. ``freed`` is the number of hours that all of them free."""
    others = [problem.id for problem in needed[1:]]
    both = "both" if len(needed) == 2 else f"all {len(needed)}"
    return (
        f"{' and '.join(others)} {'blocks' if len(others) == 1 else 'block'} all of these hours, too; "
        f"accepting {both} publishes {counted(freed, 'hour')}: `{accept_command(needed)}`"
    )
