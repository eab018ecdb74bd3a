"""Writes the overview page: which hours are blocked and what to do about them, then each expectation's trend over
the last four weeks.
"""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import pyarrow as pa

from batch_layer.reports.charts import Curve, cells, curve, date_marks, ticks
from batch_layer.reports.problems import problems
from batch_layer.reports.site import moment_text, shorten, templates, write
from batch_layer.reports.trends import Finding, Line, Trend, hour_number, hour_of, trends
from hourline_core.ledger.report_pages import anchor, page_name, page_path

_TOLD = 5
"""The maximum number of expectations in the tooltip of an hour."""
_TOOLTIP_CHARACTERS = 120

_SEPARATE = 120
"""Up to this number of hours, the cells of a strip have gaps between them."""

_BEYOND = {"passed": 0.0, "warned": 0.1, "failed": 0.2, "blocked": 0.2, "accepted": 0.2}
"""How far the cell of an hour stands out of its strip. Its height shows the state, too, and not its colour alone."""

_COMPARED = {"expect_column_pair_values_to_be_equal": " = ", "expect_column_pair_values_a_to_be_greater_than_b": " ≥ "}


@dataclass(frozen=True)
class Strip:
    """A cell for each hour."""

    fills: list[tuple[str, str]]
    """One path for each state that occurs."""
    strokes: list[tuple[str, str]]
    """A mark that is visible however narrow an hour is. Hours that passed have none."""


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


@dataclass(frozen=True)
class TrendView:
    """What is shown of a metric, or of a source's events."""

    key: str
    title: str
    kind: str
    hours: int
    span: str
    marks: list[tuple[float, str]]
    counts: list[tuple[str, int]]
    strip: Strip
    links: list[tuple[int, str | None, str]]
    """For each audited hour: its place, the address of its page, and its tooltip."""
    lines: list[LineView]


def write_overview(
    site: Path, project_name: str, rows: pa.Table, blocked: Iterable[tuple[str, datetime]], moment: datetime
) -> Path:
    """Write ``index.html`` below ``site``, and return its path.

    ``rows`` (QUALITY_SCHEMA) are those of finished publications: of the four weeks before each source's newest audited
    hour, and of the hours in ``blocked`` (metric, hour in UTC). Earlier rows are left out. ``moment`` (UTC) is the time
    of writing. Raises OSError.
    """
    open_hours = sorted((metric, hour_number(hour)) for metric, hour in blocked)
    all_trends = trends(rows, open_hours)
    metrics = [trend for trend in all_trends if trend.metric is not None]
    page = (
        templates()
        .get_template("overview.html")
        .render(
            project=project_name,
            moment=moment_text(moment),
            good=not open_hours,
            verdict=_verdict(all_trends, open_hours),
            accepted=sum(state == "accepted" for trend in metrics for state in trend.states.values()),
            warned=sum(state == "warned" for trend in all_trends for state in trend.states.values()),
            problems=problems(rows, all_trends, open_hours),
            there=lambda address: address is not None and (site / address).is_file(),
            trends=[_trend_view(site, trend) for trend in all_trends],
            height=100,
        )
    )
    return write(site, "index.html", page)


def _verdict(all_trends: list[Trend], blocked: list[tuple[str, int]]) -> str:
    metrics = [trend for trend in all_trends if trend.metric is not None]
    audited = {(trend.source, hour) for trend in metrics for hour in trend.states}
    if blocked:
        counts = [f"{count} of {metric}" for metric, count in Counter(metric for metric, _ in blocked).items()]
        if len(counts) == 1:
            return f"{_counted(len(blocked), 'hour')} of {blocked[0][0]} {'is' if len(blocked) == 1 else 'are'} blocked"
        return f"{_counted(len(blocked), 'hour')} are blocked: {', '.join(counts)}"
    if not audited:
        return "Nothing has been audited yet"
    hours = "The one audited hour" if len(audited) == 1 else f"All {len(audited):,} audited hours"
    return f"{hours} of {_counted(len(metrics), 'metric')} {'is' if len(audited) == 1 else 'are'} published"


def _trend_view(site: Path, trend: Trend) -> TrendView:
    length = trend.end - trend.first
    gap = 0.15 if length <= _SEPARATE else 0.0
    by_state = {state: [hour for hour, of in trend.states.items() if of == state] for state in _BEYOND}
    name = page_name(trend.source, trend.metric)
    pages = {publication: page_path(publication, name) for publication in set(trend.publications.values())}
    there = {publication: path for publication, path in pages.items() if (site / path).is_file()}
    return TrendView(
        key=name,
        title=trend.metric or trend.source,
        kind=f"metric of {trend.source}" if trend.metric else "events",
        hours=length,
        span=f"{hour_of(trend.first):%-d %b %Y %H:%M} to {hour_of(trend.end - 1):%-d %b %Y %H:%M} UTC",
        marks=date_marks(trend.first, trend.end),
        counts=[(state, len(hours)) for state, hours in by_state.items() if hours],
        strip=_strip(by_state, trend.first, gap),
        links=[
            (
                hour - trend.first,
                there.get(publication) and f"{there[publication]}#{anchor(hour_of(hour))}",
                _describe_hour(trend, hour),
            )
            for hour, publication in sorted(trend.publications.items())
        ],
        lines=[_line_view(trend, line, gap) for line in trend.lines],
    )


def _line_view(trend: Trend, line: Line, gap: float) -> LineView:
    newest = line.newest
    by_state = {state: line.hours_in(state) for state in ("passed", "warned", "failed")}
    bad = by_state["failed"] + by_state["warned"]
    return LineView(
        about=shorten(_about(newest)),
        words=_words(newest),
        marks=[newest.origin] + (["warns only"] if newest.severity == "warn" else []),
        details=f"{newest.expectation} {shorten(newest.parameters or '')}",
        strip=_strip(by_state, trend.first, gap),
        curve=curve(line, trend.first),
        last="" if newest.observed is None else _number(newest.observed),
        expected=_bounds(newest.lower, newest.upper),
        bad="warned" if newest.severity == "warn" else "failed",
        failed=len(by_state["failed"]),
        warned=len(by_state["warned"]),
        since=f"last {hour_of(max(bad)):%-d %b %H:%M}" if bad else "",
    )


def _strip(by_state: dict[str, list[int]], first: int, gap: float) -> Strip:
    fills = [(state, cells(hours, first, _BEYOND[state], gap)) for state, hours in by_state.items() if hours]
    strokes = [
        (state, ticks(hours, first, _BEYOND[state]))
        for state, hours in by_state.items()
        if hours and state != "passed" and not gap
    ]
    return Strip(fills, strokes)


def _describe_hour(trend: Trend, hour: int) -> str:
    """The tooltip of an hour: failures and warnings first, then values."""
    findings = [line.findings[hour] for line in trend.lines if hour in line.findings]
    findings.sort(key=lambda finding: (finding.success, finding.observed is None))
    told = [f"{hour_of(hour):%Y-%m-%d %H:%M} UTC: {trend.states[hour]}"]
    for finding in findings[:_TOLD]:
        if finding.success and finding.observed is None:
            break
        value = "" if finding.observed is None else f" {_number(finding.observed)}"
        bounds = _bounds(finding.lower, finding.upper)
        state = "" if finding.success else f"{finding.state}: "
        line = f"{state}{_about(finding)} {_words(finding)}{value}{bounds and f' ({bounds})'}"
        told.append(line[:_TOOLTIP_CHARACTERS])
    return "\n".join(told)


def _about(finding: Finding) -> str:
    """The columns. Two that are compared have the sign of the comparison between them."""
    return (finding.about or "").replace(", ", _COMPARED.get(finding.expectation, ", "))


def _words(finding: Finding) -> str:
    """``expect_column_mean_to_be_between`` becomes ``mean to be between``. Facts have no words, since their columns
    say it all.
    """
    if finding.expectation in _COMPARED or (
        finding.origin != "user" and finding.expectation == "expect_column_values_to_be_between"
    ):
        return ""
    words = finding.expectation.removeprefix("expect_").removeprefix("column_").replace("_", " ")
    return {"audit": "the audit itself"}.get(words, shorten(f"{words}{_parameters(finding)}"))


def _parameters(finding: Finding) -> str:
    """The parameters that a user has given beside the columns."""
    if finding.origin != "user":
        return ""
    given = json.loads(finding.parameters or "{}").items()
    told = [
        f"{name.replace('_', ' ')} {value}"
        for name, value in given
        if name not in ("column", "column_A", "column_B", "column_list")
    ]
    return f": {', '.join(told)}" if told else ""


def _bounds(lower: float | None, upper: float | None) -> str:
    if lower is not None and upper is not None:
        return f"{_number(lower)} to {_number(upper)}"
    if lower is not None:
        return f"at least {_number(lower)}"
    return f"at most {_number(upper)}" if upper is not None else ""


def _number(value: float) -> str:
    if abs(value) < 1e7 and value == int(value):
        return f"{int(value):,}"
    return f"{value:,.1f}" if 1000 <= abs(value) < 1e7 else f"{value:.4g}"


def _counted(count: int, word: str) -> str:
    return f"{count:,} {word}" + ("" if count == 1 else "s")
