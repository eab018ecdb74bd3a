"""Problems: the same expectation of the same metric, or source, that fails in one hour or in many.

A problem that blocks is open while one of its hours is blocked because of it. When its last hour was mended or accepted
it is closed, and the next failure is a new problem. A problem that warns has the warned hours of the last four weeks,
and the same id for ever.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from hashlib import sha256
from typing import Any, Literal

from hourline_core.errors import UsageError, did_you_mean
from hourline_core.ledger.finding import Finding
from hourline_core.model import Expectation, Project
from hourline_core.model.expectation import columns_of

NEW = timedelta(days=1)
"""A problem that opened within this time is new."""

Readers = Literal["earlier result", "provisional result", "nothing yet", "this result"]
"""What readers see of an hour of a problem.

``earlier result``: what was published before, and the events since. ``provisional result``: it was never published.
``nothing yet``: it is missing. ``this result``: it was published with a warning.
"""

_FOUND = 3
"""The maximum number of different findings of a problem that are told."""

UNKNOWN = "unknown"
"""Stands for the expectation that has blocked an hour whose findings are no longer kept."""

HELD = "published at once"
"""Stands for the expectation of an hour that passed its audit, and waits for another one: events move between them."""


@dataclass(frozen=True)
class Identity:
    """What makes two failures one problem."""

    source: str
    metric: str | None
    """None: the expectation is on the source's events, hence on all its metrics."""
    expectation: str
    about: str
    parameters: str
    """As JSON. Empty if the user has not given them: such ones may name the hours of a job."""
    origin: str
    severity: str
    condition: str
    """Its ``when``. Empty: it always applies."""
    unit: str
    """Whether it is about an ``hour``, or about the ``window`` that an hour is in."""

    def id_of(self, opened: int) -> str:
        """The id of the problem that publication ``opened`` has opened."""
        always = [self.source, self.metric, self.expectation, self.about, self.parameters, self.origin, self.severity]
        # Of an hour and without a condition, an id is what it was before these were part of it.
        known = [*always, *([self.condition] if self.condition else [])]
        known += ["about windows"] if self.unit == "window" else []
        return sha256(json.dumps([*known, opened]).encode()).hexdigest()[:8]


@dataclass(frozen=True)
class FailedHour:
    """One hour of one metric in which the expectation failed. The values are those of the quality table."""

    metric: str
    hour: datetime
    publication: int
    ended: int
    """The publication that replaced this audit. The same publication: none has."""
    audited: datetime | None
    observed: float | None
    lower: float | None
    upper: float | None
    unexpected: int | None
    found: str
    rows: list[dict[str, Any]]
    """Some of the rows that failed, with their keys."""
    readers: Readers
    is_open: bool
    """Whether it is blocked because of this failure, or published with this warning, now."""


@dataclass(frozen=True)
class Usual:
    """The values of the hours of the last four weeks that passed."""

    low: float
    """Their 5 % quantile."""
    median: float
    high: float
    """Their 95 % quantile."""


@dataclass(frozen=True)
class Problem:
    """An expectation, and the hours in which it fails now."""

    id: str
    of: Identity
    hours: list[FailedHour]
    """By hour and metric. An expectation on events has one for each metric of the source."""
    opened: datetime | None
    """When an audit found it first (UTC). None: that audit is no longer kept."""
    usual: Usual | None = None
    beside: Mapping[str, int] = field(default_factory=dict)
    """By its id, the number of these hours that another problem blocks, too."""
    waits_for: str = ""
    """Why it cannot be accepted alone, in one sentence. Empty: it blocks an hour that no other problem blocks."""

    @property
    def blocks(self) -> bool:
        """Whether its hours are blocked. Otherwise they are published with a warning."""
        return self.of.severity == "fail"

    @property
    def metrics(self) -> list[str]:
        """The metrics of its hours, sorted."""
        return sorted({one.metric for one in self.hours})

    @cached_property
    def by_hour(self) -> dict[datetime, FailedHour]:
        """One of each hour, in order."""
        return {one.hour: one for one in self.hours}

    @property
    def failing_rows(self) -> int | None:
        """The number of rows that failed. None: the expectation is not about rows."""
        counts = [one.unexpected for one in self.by_hour.values() if one.unexpected is not None]
        return sum(counts) if counts else None

    def sample(self, most: int) -> list[dict[str, Any]]:
        """Some of the failing rows of the newest hours."""
        return [row for one in reversed(self.by_hour.values()) for row in one.rows][:most]

    def is_new(self, moment: datetime) -> bool:
        """Whether it opened within the day before ``moment`` (UTC)."""
        return self.opened is not None and moment - self.opened < NEW

    @property
    def retry(self) -> str:
        """The command that recomputes all its hours."""
        return f"hourline recompute --problem {self.id}"

    @property
    def shown(self) -> str:
        """Its id, and the newest publication whose audit it tells: what a person has seen who accepts it."""
        return f"{self.id}@{max(one.publication for one in self.hours)}"

    @property
    def accept(self) -> str | None:
        """The command that publishes its hours as they are. None: it blocks nothing, or nothing without others."""
        return accept_command([self]) if self.blocks and not self.waits_for else None


def tell_found(found: Iterable[tuple[str, float | None]]) -> str:
    """What was found in some hours, in words: the same text once, and several with the numbers of their hours. Of
    numbers (the second of each pair), it is the newest. Empty: there are no words.
    """
    told = list(found)
    counts = Counter(words for words, _ in told if words)
    if not counts or told[-1][1] is not None:
        return told[-1][0] if told else ""
    if len(counts) == 1:
        return next(iter(counts))
    frequent = [f"{words} ({counted(count, 'hour')})" for words, count in counts.most_common(_FOUND)]
    return "; ".join([*frequent, *([f"{len(counts) - _FOUND:,} more"] if len(counts) > _FOUND else [])])


def accept_command(problems: Iterable[Problem]) -> str:
    """The command that publishes the hours of ``problems`` as they are."""
    return f'hourline accept {" ".join(problem.shown for problem in problems)} --reason "…"'


@dataclass(frozen=True)
class Problems:
    """All problems of a project."""

    open: list[Problem]
    """Those that block first, then those of the newest hours."""
    closed: frozenset[str] = frozenset()
    """The ids of closed ones whose findings are still kept."""

    @property
    def blocking(self) -> list[Problem]:
        """Those that block hours."""
        return [problem for problem in self.open if problem.blocks]

    @property
    def warning(self) -> list[Problem]:
        """Those that only warn."""
        return [problem for problem in self.open if not problem.blocks]

    def find(self, id: str) -> Problem:
        """The open problem with that id. Raises UsageError."""
        known = {problem.id: problem for problem in self.open}
        if id in known:
            return known[id]
        if id in self.closed:
            raise UsageError(
                f"problem '{id}' is closed: its hours were repaired or accepted, or its metric was declared again; "
                "`hourline quality` lists the open ones"
            )
        raise UsageError(
            f"this project has no problem '{id}'{did_you_mean(id, known)}; `hourline quality` lists the open ones"
        )

    def find_shown(self, given: str) -> tuple[Problem, int]:
        """The open problem of ``ID@PUBLICATION``, which blocks, and the newest publication that was shown of it. Raises
        UsageError.
        """
        id, _, publication = given.partition("@")
        problem = self.find(id)
        if not problem.blocks:
            raise UsageError(f"problem '{id}' only warned, and its hours are published; there is nothing to accept")
        if not publication.isdecimal():
            raise UsageError(
                f"got '{given}', without the newest audit that you have seen; look at its "
                f"{counted(len(problem.by_hour), 'hour')} (`hourline quality`), then `{accept_command([problem])}`"
            )
        return problem, int(publication)


def read_row(text: str | None) -> dict[str, Any]:
    """A failing row as the quality table keeps it. Text that is no JSON is shown as it is."""
    try:
        row: object = json.loads(text or "")
    except ValueError:
        row = text
    return row if isinstance(row, dict) else {"row": row}


def declared_expectation(project: Project, of: Identity) -> Expectation | None:
    """The user's declaration of an expectation, as the YAML has it now: the one on the same columns. Of several, the
    one with the same parameters, and of these the one with the same condition. None: there is none like it any more,
    or it is a bound of ``volume``.
    """
    owner = project.sources.get(of.source) if of.metric is None else project.metrics.get(of.metric)
    if of.origin != "user" or owner is None:
        return None
    kind = (of.expectation, of.severity, of.unit, of.about)
    alike = [
        one
        for one in owner.expectations
        if (one.type, one.severity, one.about, ", ".join(columns_of(one.parameters))) == kind
    ]
    same = [one for one in alike if json.dumps(one.parameters, ensure_ascii=False, default=str) == of.parameters]
    if not same:
        return alike[0] if len(alike) == 1 else None
    exact = [one for one in same if (one.when or "") == of.condition]
    # The audit of an older Hourline has not kept the condition.
    return (exact or same)[0]


def advice(problems: Problems, audited: int, findings: Sequence[Finding] = ()) -> str:
    """What a person must do now, in a sentence or two. ``audited`` is the number of audited hours, and ``findings`` are
    those of sources and the speed layer that are open.
    """
    blocking, warning = problems.blocking, problems.warning
    failing = sum(one.fails for one in findings)
    told = [f"{counted(failing, 'finding')} {'needs' if failing == 1 else 'need'} you."] if failing else []
    if blocking:
        hours = len({one.hour for problem in blocking for one in problem.hours})
        what = f"{counted(len(blocking), 'problem')} {'blocks' if len(blocking) == 1 else 'block'}"
        told.append(
            f"{what} {counted(hours, 'hour')}: fix the data or the declaration and retry, "
            "or accept what is right as it is."
        )
    if told:
        return " ".join(told)
    only = [counted(len(some), word) for some, word in ((findings, "finding"), (warning, "problem")) if some]
    if only and (audited or findings):
        return f"You need not do anything; {' and '.join(only)} only warned."
    if not audited:
        return "Nothing has been audited yet."
    return "There is nothing to do: every audited hour is published, and nothing warned."


def counted(count: int, word: str) -> str:
    """``1 hour``, ``2 hours``."""
    return f"{count:,} {word}" + ("" if count == 1 else "s")
