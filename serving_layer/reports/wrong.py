"""Lists what is wrong now: problems of hours, and what a person should know of a source. `hourline status` and the page
show it first.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal

from hourline_core.ledger.problems import Problem, counted, tell_found
from hourline_core.model import Project
from hourline_core.model.branches import branches_of
from hourline_core.model.hours import hour_text
from hourline_core.model.natural_order import natural_key
from hourline_core.model.topics import topic_text
from serving_layer.described import Described

if TYPE_CHECKING:
    from serving_layer.reports.status import HoursAhead, SourceStatus


class Wrong(Described):
    """One thing that is wrong now."""

    severity: Literal["fail", "warn"]
    """`fail`: answers lack something, or an hour is blocked. `warn`: a person should know it."""
    source: str
    """The name of the source."""
    metric: str | None
    """The name of the metric. Null: it is about the source."""
    sentence: str
    """What it is, in one sentence."""
    remedy: str
    """What to do about it, or what shows more. Commands are between backquotes. Empty: only waiting helps."""
    problem: str | None
    """The id of the problem, which `hourline quality --problem` shows. Null: it is not a problem of hours."""
    since: datetime | None
    """When it was found first (UTC). Null: it is not known."""
    hour: datetime | None
    """The newest of its hours (UTC). Null: it has none."""


def list_wrong(
    project: Project,
    sources: Iterable["SourceStatus"],
    ahead: Iterable["HoursAhead"],
    problems: Iterable[Problem],
    now: datetime,
) -> list[Wrong]:
    """What is wrong at ``now`` (UTC): what fails before what warns, and of these, sources before hours, and then the
    newest hours first.
    """
    about_sources = [wrong for status in sources for wrong in _wrong_of_source(project, status, now)]
    about_sources += map(_wrong_of_hours_ahead, ahead)
    about_sources.sort(key=lambda wrong: natural_key(wrong.source))
    of_hours = sorted(map(_wrong_of_hours, problems), key=lambda wrong: wrong.hour or now, reverse=True)
    return sorted([*about_sources, *of_hours], key=lambda wrong: wrong.severity)


def _wrong_of_hours(problem: Problem) -> Wrong:
    of, hours = problem.of, len(problem.by_hour)
    what = ": ".join(filter(None, [of.about, of.expectation]))
    found = tell_found((one.found, one.observed) for one in problem.by_hour.values())
    state = "blocks" if problem.blocks else "warns in"
    return Wrong(
        severity="fail" if problem.blocks else "warn",
        source=of.source,
        metric=of.metric,
        sentence=f"{what} {state} {counted(hours, 'hour')}" + (f" ({found})" if found else ""),
        remedy=f"`hourline quality --problem {problem.id}`",
        problem=problem.id,
        since=problem.opened,
        hour=problem.hours[-1].hour,
    )


def _wrong_of_hours_ahead(ahead: "HoursAhead") -> Wrong:
    hours = f"SELECT * FROM hours WHERE name = '{ahead.source}' AND hour >= '{hour_text(ahead.first)}'"
    return Wrong(
        severity="warn",
        source=ahead.source,
        metric=None,
        sentence=f"{ahead.events:,} event(s) are in {ahead.hours:,} hour(s) after its clock, "
        f"{hour_text(ahead.first)} … {hour_text(ahead.last)}, and do not move it",
        remedy=f'`hourline query "{hours}"` lists these hours',
        problem=None,
        since=None,
        hour=None,
    )


def _wrong_of_source(project: Project, status: "SourceStatus", now: datetime) -> Iterator[Wrong]:
    for absent in status.waits_for:
        yield _of_source(
            status,
            f"its topic '{absent.topic}' was deleted, and it has waited for a new one since "
            f"{absent.since:%Y-%m-%d %H:%M:%S} UTC",
            "create the topic, or restart the speed layer, which creates it: `hourline down` and `hourline up`",
            "fail",
            absent.since,
        )
    if waiting := [gap for gap in status.gaps if gap.confirmed is None]:
        yield _of_source(
            status,
            f"Kafka deleted at most {sum(gap.records for gap in waiting):,} record(s) before they were read "
            f"({', '.join(sorted({gap.gap for gap in waiting}))}); their hours are incomplete until somebody confirms "
            "them",
            "see `hourline gaps`",
            "fail",
            min(gap.accepted for gap in waiting),
        )
    if status.quarantined:
        why = f"SELECT metric, message, count(*) FROM quarantine_{status.source} GROUP BY ALL"
        yield _of_source(
            status,
            f"{status.quarantined:,} event(s) in quarantine: a class fails for them, so its metric does not count them",
            f'`hourline query "{why}"` says why; mend the class and recompute',
        )
    branches = branches_of(project.sources.values(), project.sources[status.source])
    if status.taken_by_none and branches and branches.counts_untaken:
        topics = topic_text(branches.source.topic)
        yield _of_source(
            status, f"no branch takes {status.taken_by_none:,} record(s) of {topics}", "see `hourline graph`"
        )
    if status.in_transaction:
        yield _of_source(status, _say_held_back(status, now), "", "warn", status.in_transaction_since)


def _of_source(
    status: "SourceStatus",
    sentence: str,
    remedy: str,
    severity: Literal["fail", "warn"] = "warn",
    since: datetime | None = None,
) -> Wrong:
    return Wrong(
        severity=severity,
        source=status.source,
        metric=None,
        sentence=sentence,
        remedy=remedy,
        problem=None,
        since=since,
        hour=None,
    )


def _say_held_back(status: "SourceStatus", now: datetime) -> str:
    """What open transactions hold back, and since when, in words."""
    records = f"{status.in_transaction:,} offset(s) are held back by an open transaction, and not in the lag"
    if status.in_transaction_since is None:
        return records
    age = timedelta(seconds=round((now - status.in_transaction_since).total_seconds()))
    return f"{records}; the first was sent at {status.in_transaction_since:%Y-%m-%d %H:%M:%S} UTC, {age} ago"
