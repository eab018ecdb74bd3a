"""Problems as `hourline quality` and HTTP tell them: each expectation that fails, with all its hours."""

from collections import Counter
from datetime import datetime
from typing import Any, Literal

from hourline_core.ledger.problems import Problem, Problems, declared_expectation
from hourline_core.ledger.report_pages import page_name, page_path, report_site
from hourline_core.model import Project
from hourline_core.sql.problems import read_problems
from serving_layer.connection import Connection
from serving_layer.described import Described

SAMPLE = 3
"""The maximum number of failing rows that are told of a problem."""


class ProblemHour(Described):
    """One hour of a problem."""

    hour: datetime
    """The hour (UTC)."""
    metric: str
    """The metric."""
    publication: int
    """The publication whose audit found it."""
    found: str
    """What was found, in words."""
    observed: float | None
    """The number that was found. Null: there is no number."""
    lower: float | None
    """The lower bound that was expected. Null: there is none."""
    upper: float | None
    """The upper bound that was expected. Null: there is none."""
    unexpected: int | None
    """The number of rows that failed. Null: rows were not evaluated."""
    readers: Literal["earlier result", "provisional result", "nothing yet", "this result"]
    """What readers see of the hour. `this result`: it was published with the warning."""


class UsualValues(Described):
    """The values that were found in hours of the last four weeks that passed."""

    low: float
    """Their 5 % quantile."""
    median: float
    """Their median."""
    high: float
    """Their 95 % quantile."""


class QualityProblem(Described):
    """An expectation that fails in one hour or in many."""

    id: str
    """Its id, which `hourline recompute --problem ID` takes. `accept` adds `@` and the newest publication shown
    here.
    """
    state: Literal["blocked", "warned"]
    """Whether its hours are blocked, or published with a warning."""
    source: str
    """The name of the source."""
    metric: str | None
    """The name of the metric. Null: the expectation is on the events of the source, hence on all its metrics."""
    metrics: list[str]
    """The metrics whose hours it concerns."""
    expectation: str
    """Its name in Great Expectations. `audit`: the audit itself failed. `unknown`: the finding was deleted."""
    about: str
    """The column, or columns, that it is on."""
    parameters: str
    """Its parameters as JSON, if you have declared it."""
    condition: str | None
    """The condition `when` that you have declared beside it. Null: it always applies."""
    unit: Literal["hour", "window"]
    """Whether it is about an hour's results, or about those of the windows that an hour is in."""
    origin: str
    """Where it comes from: `declaration`, `user` or `history`."""
    owner: str | None
    """Who looks after it, as declared."""
    description: str | None
    """What it means, as declared."""
    link: str | None
    """Where to read more, as declared."""
    opened: datetime | None
    """When an audit found it first (UTC). Null: that is no longer kept."""
    new: bool
    """Whether that was within the last day."""
    first: datetime
    """Its first hour (UTC)."""
    last: datetime
    """Its last hour (UTC)."""
    hours: list[ProblemHour]
    """Its hours, for each metric."""
    failing_rows: int | None
    """The number of rows that failed in these hours. Null: rows were not evaluated."""
    rows: list[dict[str, Any]]
    """Some of the rows that failed, with their keys, the newest hours first."""
    usual: UsualValues | None
    """The usual values. Null: there are no numbers, or no hour passed."""
    readers: dict[str, int]
    """What readers see meanwhile, with the number of hours × metrics."""
    beside: dict[str, int]
    """The other problems that block some of these hours, too, with the number of hours × metrics."""
    report: str | None
    """The page of the audit of its newest hour. Null: it is no longer kept."""
    retry: str
    """The command that recomputes its hours."""
    accept: str | None
    """The command that publishes those of its hours that no other problem blocks, as they are. Hours that fail later
    are left out. Null: it blocks nothing, or nothing alone.
    """
    waits_for: str | None
    """Why it cannot be accepted alone, in one sentence. Null: it can, or it blocks nothing."""


def find_problems(connection: Connection, *, with_usual: bool = True) -> Problems:
    """The problems of the project, at the connection's snapshot, with or without their usual values."""
    return read_problems(connection.database, connection.snapshot.sources_of_blocked, with_usual=with_usual)


def describe_problem(project: Project, problem: Problem, moment: datetime) -> QualityProblem:
    """``problem`` as it is answered at ``moment`` (UTC)."""
    of = problem.of
    declared = declared_expectation(project, of)
    usual = problem.usual
    page = report_site(project) / page_path(problem.hours[-1].publication, page_name(of.source, of.metric))
    return QualityProblem(
        id=problem.id,
        state="blocked" if problem.blocks else "warned",
        source=of.source,
        metric=of.metric,
        metrics=problem.metrics,
        expectation=of.expectation,
        about=of.about,
        parameters=of.parameters,
        condition=of.condition or None,
        unit="window" if of.unit == "window" else "hour",
        origin=of.origin,
        owner=declared.owner if declared else None,
        description=declared.description if declared else None,
        link=declared.link if declared else None,
        opened=problem.opened,
        new=problem.is_new(moment),
        first=problem.hours[0].hour,
        last=problem.hours[-1].hour,
        hours=[ProblemHour(**{name: getattr(one, name) for name in ProblemHour.model_fields}) for one in problem.hours],
        failing_rows=problem.failing_rows,
        rows=problem.sample(SAMPLE),
        usual=None if usual is None else UsualValues(low=usual.low, median=usual.median, high=usual.high),
        readers=dict(Counter(one.readers for one in problem.hours)),
        beside=dict(problem.beside),
        report=str(page) if page.exists() else None,
        retry=problem.retry,
        accept=problem.accept,
        waits_for=problem.waits_for or None,
    )
