"""What the overview shows of a problem: a card that fits a screen with many."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Any

from batch_layer.reports.site import shorten
from batch_layer.reports.trend_pages import trend_path
from batch_layer.reports.trend_views import Hover, Strip, strip
from batch_layer.reports.trends import Line, Trend, hour_number
from batch_layer.reports.words import bounds, columns, number, sentence
from hourline_core.ledger.problems import FailedHour, Identity, Problem, counted, declared_expectation, tell_found
from hourline_core.ledger.report_pages import page_name, page_path
from hourline_core.model import Project
from hourline_core.model.value_text import value_text

_ROWS = 3
_BESIDE = 3
_AROUND = 6
"""The number of hours that are shown before the first one and after the last one."""

_READERS = {
    "earlier result": "the earlier result, and what has come since",
    "provisional result": "the provisional result",
    "nothing yet": "nothing yet",
    "this result": "this result",
}


@dataclass(frozen=True)
class Card:
    """One problem, in words."""

    id: str
    state: str
    of: str
    about: str
    words: str
    expectation: str
    when: str
    count: int
    new: bool
    since: str
    length: int
    strip: Strip
    hovers: list[Hover]
    found: str
    expected: str
    usual: str
    owner: str | None
    description: str | None
    link: str | None
    readers: str
    columns: list[str]
    rows: list[list[str]]
    failing: str
    """The number of failing rows. Empty: the expectation is not about rows."""
    more: int
    page: str
    trend: str
    beside: str
    """The other problems that block its hours, too."""
    retry: str
    accept: str | None
    waits_for: str
    """Why it cannot be accepted alone."""


def cards(project: Project, problems: Iterable[Problem], trends: Iterable[Trend], moment: datetime) -> list[Card]:
    """The cards of ``problems`` at ``moment`` (UTC): new ones first among those that block, and among the others."""
    lines: dict[Any, list[Line]] = {}
    for trend in trends:
        for line in trend.lines:
            one = line.newest
            unit = one.unit or "hour"
            of = (one.source, one.metric, one.expectation, one.about or "", one.origin, one.severity, unit)
            lines.setdefault(of, []).append(line)
    ordered = sorted(problems, key=lambda problem: (not problem.blocks, not problem.is_new(moment)))
    return [_card(project, problem, _line(lines, problem.of), moment) for problem in ordered]


def _line(lines: Mapping[Any, list[Line]], of: Identity) -> Line | None:
    """The line of the expectation. Of several on the same columns, the one with the same parameters and condition."""
    alike = lines.get((of.source, of.metric, of.expectation, of.about, of.origin, of.severity, of.unit), [])
    same = [line for line in alike if line.newest.parameters == of.parameters] or alike
    exact = [line for line in same if (line.newest.condition or "") == of.condition]
    return next(iter(exact or same), None)


def _card(project: Project, problem: Problem, line: Line | None, moment: datetime) -> Card:
    of, newest = problem.of, problem.hours[-1]
    declared = declared_expectation(project, of)
    failed = {hour_number(hour): one for hour, one in problem.by_hour.items()}
    first, length = min(failed) - _AROUND, max(failed) - min(failed) + 1 + 2 * _AROUND
    state = "blocked" if problem.blocks else "warned"
    passed = [] if line is None else [h for h in line.hours_in("passed") if first <= h < first + length]
    rows = problem.sample(_ROWS)
    names = list(dict.fromkeys(chain.from_iterable(rows)))
    return Card(
        id=problem.id,
        state=state,
        of=of.metric or f"{of.source} (events)",
        about=columns(of),
        words=sentence(of),
        expectation=of.expectation,
        when=_when(problem),
        count=len(failed),
        new=problem.is_new(moment),
        since="" if problem.opened is None else f"{problem.opened:%a %-d %b %Y, %H:%M} UTC",
        length=length,
        strip=strip({"passed": passed, state: sorted(failed)}, first, length),
        hovers=[Hover(hour - first, f"{one.hour:%Y-%m-%d %H:%M} UTC: {_found(one)}") for hour, one in failed.items()],
        found=_found_of_all(problem),
        expected=bounds(newest.lower, newest.upper),
        usual="" if problem.usual is None else bounds(problem.usual.low, problem.usual.high),
        owner=declared.owner if declared else None,
        description=declared.description if declared else None,
        link=declared.link if declared else None,
        readers=_readers(problem),
        columns=names,
        rows=[[shorten(value_text(row[name])) if name in row else "" for name in names] for row in rows],
        failing="" if problem.failing_rows is None else counted(problem.failing_rows, "failing row"),
        more=max((problem.failing_rows or 0) - len(rows), 0) if rows else 0,
        page=page_path(newest.publication, page_name(of.source, of.metric)),
        trend=trend_path(of.source, of.metric),
        beside=_beside(problem),
        retry=problem.retry,
        accept=problem.accept,
        waits_for=problem.waits_for,
    )


def _found_of_all(problem: Problem) -> str:
    """What was found in its hours, with the values of the newest failing row in the columns of the expectation."""
    found = tell_found((one.found, one.observed) for one in problem.by_hour.values()) or _found(problem.hours[-1])
    row = next(iter(problem.sample(1)), {})
    values = [f"{name}: {_value(row[name])}" for name in problem.of.about.split(", ") if name in row]
    return shorten(f"{found}, such as {', '.join(values)}" if values and problem.failing_rows else found)


def _value(value: Any) -> str:
    return number(value) if isinstance(value, float) else value_text(value)


def _found(one: FailedHour) -> str:
    return one.found or ("failed" if one.observed is None else number(one.observed))


def _when(problem: Problem) -> str:
    first, last = problem.hours[0].hour, problem.hours[-1].hour
    if first == last:
        return f"{first:%a %-d %b %Y, %H:%M} UTC"
    until = f"{last:%H:%M}" if first.date() == last.date() else f"{last:%a %-d %b %Y, %H:%M}"
    return f"{first:%a %-d %b %Y, %H:%M} to {until} UTC"


def _beside(problem: Problem) -> str:
    others = sorted(problem.beside.items(), key=lambda item: (-item[1], item[0]))
    told = [f"{other} ({counted(count, 'hour')})" for other, count in others[:_BESIDE]]
    more = [f"{len(others) - _BESIDE:,} more"] if len(others) > _BESIDE else []
    return ", ".join(told + more)


def _readers(problem: Problem) -> str:
    """What readers see, with the number of hours where it is not the same for all."""
    counts: dict[str, int] = {}
    for one in problem.hours:
        counts[one.readers] = counts.get(one.readers, 0) + 1
    if len(counts) == 1:
        return _READERS[next(iter(counts))]
    return "; ".join(f"{_READERS[what]} ({count:,})" for what, count in counts.items())
