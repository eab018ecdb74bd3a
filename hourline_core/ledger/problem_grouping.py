"""Groups failures of expectations into problems, and tells one problem of an expectation from the next."""

from collections.abc import Iterator, Mapping
from math import inf

from hourline_core.ledger.problems import FailedHour, Identity, Problem, Problems


def group_failures(failed: Mapping[Identity, list[FailedHour]]) -> Problems:
    """The problems of the expectations in ``failed``. The failed hours of each are in the order of publications."""
    opened: list[Problem] = []
    closed: set[str] = set()
    for of, hours in failed.items():
        for publication, of_problem in _split_into_problems(of, hours):
            still_open = [one for one in of_problem if one.is_open]
            if still_open:
                opened.append(_open_problem(of, publication, of_problem, still_open))
            else:
                closed.add(of.id_of(publication))
    return Problems(sorted(opened, key=_blocking_and_newest_first), frozenset(closed))


def _open_problem(of: Identity, publication: int, every: list[FailedHour], still_open: list[FailedHour]) -> Problem:
    """The problem that ``publication`` has opened. Of ``every`` hour it ever had, those that are still open stay."""
    # A warning has the same id for ever, so its first hour may be years old. It is as old as what is still shown of it.
    dated = every if of.severity == "fail" else still_open
    found_first = min((one.audited for one in dated if one.audited), default=None)
    hours = sorted(still_open, key=lambda one: (one.hour, one.metric))
    return Problem(of.id_of(publication), of, hours, found_first)


def _split_into_problems(of: Identity, hours: list[FailedHour]) -> Iterator[tuple[int, list[FailedHour]]]:
    """The hours of each problem in turn, and the publication that opened it. A new problem begins when all hours before
    were mended or accepted. An expectation that warns has one problem for ever.
    """
    if of.severity != "fail":
        yield 0, hours
        return
    of_problem: list[FailedHour] = []
    closes_at = 0.0
    for one in hours:
        if of_problem and one.publication > closes_at:
            yield of_problem[0].publication, of_problem
            of_problem = []
        of_problem.append(one)
        closes_at = max(closes_at, inf if one.is_open else one.ended)
    yield of_problem[0].publication, of_problem


def _blocking_and_newest_first(problem: Problem) -> tuple[bool, float, str]:
    return not problem.blocks, -problem.hours[-1].hour.timestamp(), problem.id
