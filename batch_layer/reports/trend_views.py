"""What the pages show of trends: strips of hours, curves with their bounds, and what is told of each hour."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from batch_layer.reports.charts import Curve, cells, curve, date_marks, ticks
from batch_layer.reports.trends import Line, QualityRow, Trend, hour_of
from batch_layer.reports.words import bounds, columns, observed, sentence
from hourline_core.ledger.problems import declared_expectation
from hourline_core.model import Expectation, Project

_TOLD = 8
"""The maximum number of expectations in the tooltip of an hour."""
_TOOLTIP_CHARACTERS = 120

_SEPARATE = 120
"""Up to this number of hours, the cells of a strip have gaps between them."""

_HOVERED = 1000
"""Up to this number of hours, each has a tooltip. Of more, those that did not pass have one."""

_BEYOND = {"passed": 0.0, "warned": 0.1, "failed": 0.2, "blocked": 0.2, "accepted": 0.2}
"""How far the cell of an hour stands out of its strip. Its height shows the state, too, and not its colour alone."""


@dataclass(frozen=True)
class Strip:
    """A cell for each hour."""

    fills: list[tuple[str, str]]
    """One path for each state that occurs."""
    strokes: list[tuple[str, str]]
    """A mark that is visible however narrow an hour is. Hours that passed have none."""


@dataclass(frozen=True)
class Hover:
    """What is told of an hour when the pointer rests on it."""

    place: int
    told: str
    address: str | None = None
    anchor: str | None = None


@dataclass(frozen=True)
class LineView:
    """One expectation's line."""

    about: str
    words: str
    marks: list[str]
    details: str
    strip: Strip
    curve: Curve | None
    last: str
    expected: str
    bad: str
    """The severity of a failure: warned or failed."""
    failed: int
    warned: int
    since: str
    declared: Expectation | None
    """Its declaration, which has its description, owner and link. None: it follows from other declarations."""


@dataclass(frozen=True)
class TrendView:
    """What is shown of a metric, or of a source's events."""

    title: str
    kind: str
    hours: int
    span: str
    marks: list[tuple[float, str]]
    counts: list[tuple[str, int]]
    strip: Strip
    hovers: list[Hover]
    lines: list[LineView]


def trend_view(project: Project, trend: Trend, lines: Sequence[Line], hovers: list[Hover]) -> TrendView:
    """The view of some ``lines`` of a trend of ``project``."""
    length = trend.end - trend.first
    by_state = hours_by_state(trend)
    return TrendView(
        title=trend.metric or trend.source,
        kind=f"metric of {trend.source}" if trend.metric else "events",
        hours=length,
        span=f"{hour_of(trend.first):%-d %b %Y %H:%M} to {hour_of(trend.end - 1):%-d %b %Y %H:%M} UTC",
        marks=date_marks(trend.first, trend.end),
        counts=[(state, len(hours)) for state, hours in by_state.items() if hours],
        strip=strip(by_state, trend.first, length),
        hovers=hovers,
        lines=[_line_view(project, trend, line, length) for line in lines],
    )


def hours_by_state(trend: Trend) -> dict[str, list[int]]:
    """By state, the hours that are in it."""
    return {state: [hour for hour, of in trend.states.items() if of == state] for state in _BEYOND}


def _line_view(project: Project, trend: Trend, line: Line, length: int) -> LineView:
    newest = line.newest
    by_state = {state: line.hours_in(state) for state in ("passed", "warned", "failed")}
    bad = by_state["failed"] + by_state["warned"]
    return LineView(
        about=columns(newest),
        words=sentence(newest),
        marks=[newest.origin] + (["warns only"] if newest.severity == "warn" else []),
        details=f"{newest.expectation} {newest.parameters or ''}"[:_TOOLTIP_CHARACTERS],
        strip=strip(by_state, trend.first, length),
        curve=curve(line, trend.first),
        last=observed(newest),
        expected=bounds(newest.lower, newest.upper),
        bad="warned" if newest.severity == "warn" else "failed",
        failed=len(by_state["failed"]),
        warned=len(by_state["warned"]),
        since=f"last {hour_of(max(bad)):%-d %b %H:%M}" if bad else "",
        declared=declared_expectation(project, newest.identity),
    )


def strip(by_state: dict[str, list[int]], first: int, length: int) -> Strip:
    """A strip of ``length`` hours from ``first`` on."""
    gap = 0.15 if length <= _SEPARATE else 0.0
    fills = [(state, cells(hours, first, _BEYOND[state], gap)) for state, hours in by_state.items() if hours]
    strokes = [
        (state, ticks(hours, first, _BEYOND[state]))
        for state, hours in by_state.items()
        if hours and state != "passed" and not gap
    ]
    return Strip(fills, strokes)


def hovered(states: dict[int, str]) -> list[int]:
    """The hours that have a tooltip, in order."""
    return sorted(hour for hour, state in states.items() if len(states) <= _HOVERED or state != "passed")


def describe_hour(hour: int, findings: Iterable[QualityRow], state: str = "") -> str:
    """The tooltip of an hour: failures and warnings first, then values."""
    ordered = sorted(findings, key=lambda finding: (finding.success, finding.observed is None))
    texts = [f"{hour_of(hour):%Y-%m-%d %H:%M} UTC{state and f': {state}'}"]
    for finding in ordered[:_TOLD]:
        if finding.success and finding.observed is None and len(texts) > 1:
            break
        within = bounds(finding.lower, finding.upper)
        words = f"{finding.state}: {columns(finding)} {sentence(finding)} {observed(finding)}"
        texts.append(f"{' '.join(words.split())}{within and f' ({within})'}"[:_TOOLTIP_CHARACTERS])
    return "\n".join(texts)
