"""Lists what is wrong now: findings, problems of hours, and what is neither. `hourline status` and the page show it
first.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Literal

from hourline_core.ledger.finding import Finding
from hourline_core.ledger.problems import Problem, counted, tell_found
from hourline_core.model.hours import hour_text
from hourline_core.model.natural_order import natural_key
from serving_layer.described import Described
from serving_layer.reports.newest_hours import HoursAhead
from serving_layer.reports.source_status import SourceStatus


class Wrong(Described):
    """One thing that is wrong now."""

    severity: Literal["fail", "warn"]
    """`fail`: answers lack something, or an hour is blocked. `warn`: a person should know it."""
    source: str | None
    """The name of the source. Null: it is about the speed layer, or the reports."""
    sentence: str
    """What it is, in one sentence."""
    remedy: str = ""
    """What to do about it, or what shows more. Commands are between backquotes. Empty: only waiting helps."""
    since: datetime | None = None
    """Since when it is so (UTC). Null: it is not known."""
    finding: str | None = None
    """The kind of the finding, as in `/findings`. Null: it is none."""
    example: str | None = None
    """The address of one of the finding's records. Null: there is none."""
    problem: str | None = None
    """The id of the problem, which `hourline quality --problem ID` shows. Null: it is not a problem of hours."""
    metric: str | None = None
    """The name of the problem's metric. Null: it is about the source."""
    hour: datetime | None = None
    """The newest of the problem's hours (UTC). Null: it has none."""


def list_wrong(
    findings: Iterable[Finding],
    problems: Iterable[Problem],
    ahead: Iterable[HoursAhead],
    sources: Iterable[SourceStatus],
    now: datetime,
) -> list[Wrong]:
    """What is wrong at ``now`` (UTC): what fails before what warns, and of these, sources before hours, and then the
    newest hours first.
    """
    about_sources = [*map(_wrong_by_finding, findings), *map(_wrong_of_hours_ahead, ahead)]
    about_sources += [_wrong_in_transaction(source, now) for source in sources if source.in_transaction]
    about_sources.sort(key=lambda wrong: natural_key(wrong.source or ""))
    of_hours = sorted(map(_wrong_of_hours, problems), key=lambda wrong: wrong.hour or now, reverse=True)
    return sorted([*about_sources, *of_hours], key=lambda wrong: wrong.severity)


def _wrong_by_finding(one: Finding) -> Wrong:
    return Wrong(
        severity=one.severity,
        source=one.source,
        sentence=one.sentence,
        remedy=one.remedy,
        since=one.first,
        finding=one.kind,
        example=one.example,
    )


def _wrong_of_hours(problem: Problem) -> Wrong:
    of, hours = problem.of, len(problem.by_hour)
    what = ": ".join(filter(None, [of.about, of.expectation]))
    found = tell_found((one.found, one.observed) for one in problem.by_hour.values())
    state = "blocks" if problem.blocks else "warns in"
    return Wrong(
        severity="fail" if problem.blocks else "warn",
        source=of.source,
        sentence=f"{what} {state} {counted(hours, 'hour')}" + (f" ({found})" if found else ""),
        remedy=f"`hourline quality --problem {problem.id}`",
        since=problem.opened,
        problem=problem.id,
        metric=of.metric,
        hour=problem.hours[-1].hour,
    )


def _wrong_of_hours_ahead(ahead: HoursAhead) -> Wrong:
    hours = f"SELECT * FROM hours WHERE name = '{ahead.source}' AND hour >= '{hour_text(ahead.first)}'"
    return Wrong(
        severity="warn",
        source=ahead.source,
        sentence=f"{ahead.events:,} event(s) are in {ahead.hours:,} hour(s) after its clock, "
        f"{hour_text(ahead.first)} … {hour_text(ahead.last)}, and do not move it",
        remedy=f'`hourline query "{hours}"` lists these hours',
    )


def _wrong_in_transaction(status: SourceStatus, now: datetime) -> Wrong:
    sentence = f"{status.in_transaction:,} offset(s) are held back by an open transaction, and not in the lag"
    if since := status.in_transaction_since:
        age = timedelta(seconds=round((now - since).total_seconds()))
        sentence += f"; the first was sent at {since:%Y-%m-%d %H:%M:%S} UTC, {age} ago"
    return Wrong(severity="warn", source=status.source, sentence=sentence, since=since)
