"""Writes the page of one audit: a line for each expectation over the hours, in the order of what a person reads first.

All of it comes from rows of the quality table: those of the audit, and those of the four weeks before.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa

from batch_layer.reports.site import moment_text, shorten, templates, write
from batch_layer.reports.trend_views import Hover, TrendView, describe_hour, hovered, trend_view
from batch_layer.reports.trends import Line, QualityRow, Trend, hour_of, read_quality_rows, trend_of
from batch_layer.reports.words import columns, number, observed
from hourline_core.ledger.problems import NEW, counted, read_row
from hourline_core.ledger.report_pages import anchor, page_name, page_path
from hourline_core.model import Project
from hourline_core.model.value_text import value_text

SHOWN_ROWS = 20
"""The maximum number of failing rows that are shown of an expectation."""

_version = cache(version)
"""It is looked for among the files of all packages."""
_SHOWN_FINDINGS = 5
_WEEK = 7 * 24
_WEEKS = 4


@dataclass(frozen=True)
class Failure:
    """An expectation that failed in the audit, with its line and some of the failing rows."""

    view: TrendView
    found: list[tuple[str, str]]
    """The hours, and what was found in them."""
    other: str
    """How many hours are not among these. Empty: none."""
    columns: list[str]
    rows: list[list[str]]
    more: int


def write_page(
    site: Path,
    project: Project,
    publication: int,
    source: str,
    metric: str | None,
    rows: pa.Table,
    past: pa.Table,
    moment: datetime,
) -> Path:
    """Write the page of the audit of ``metric``, or of the source's events (None), below ``site``, and return its path.

    ``rows`` are those of the audit, and ``past`` those of earlier audits of the same that are shown beside them
    (QUALITY_SCHEMA, of this metric alone). ``moment`` (UTC) is the time of the audit. Raises OSError.
    """
    own = read_quality_rows(rows)
    audited = {finding.hour for finding in own}
    trend = trend_of(source, metric, [one for one in read_quality_rows(past) if one.hour not in audited] + own)
    mine = [line for line in trend.lines if audited & line.findings.keys()]
    by_state: dict[str, list[Line]] = {"failed": [], "warned": [], "new": [], "passed": []}
    for line in mine:
        state = _worst([line.findings[hour] for hour in audited & line.findings.keys()])
        by_state["new" if state == "passed" and _is_new(line, trend, moment) else state].append(line)
    hours = f"{hour_of(min(audited)):%-d %b %Y, %H:%M} UTC"
    page = (
        templates()
        .get_template("audit.html")
        .render(
            title=f"{metric}: results" if metric else f"{source}: events",
            hours=hours if len(audited) == 1 else f"{len(audited):,} hours from {hours}",
            audited=moment_text(moment),
            failed=len(by_state["failed"]),
            warned=len(by_state["warned"]),
            passed=len(by_state["new"] + by_state["passed"]),
            failures=[
                _failure(project, trend, line, audited, rows) for line in by_state["failed"] + by_state["warned"]
            ],
            fresh=_view(project, trend, by_state["new"], audited) if by_state["new"] else None,
            others=_view(project, trend, by_state["passed"], audited) if by_state["passed"] else None,
            weeks=_weeks(trend, mine, audited) if metric else None,
            anchors=[anchor(hour_of(hour)) for hour in sorted(audited)],
            gx_version=_version("great_expectations"),
        )
    )
    return write(site, page_path(publication, page_name(source, metric)), page)


def _worst(findings: Sequence[QualityRow]) -> str:
    states = {finding.state for finding in findings}
    return next(state for state in ("failed", "warned", "passed") if state in states)


def _is_new(line: Line, trend: Trend, moment: datetime) -> bool:
    """Whether it was evaluated for the first time within the last day, and others before."""
    since = (moment - NEW).timestamp()
    return (
        min(one.audited for one in line.findings.values())
        >= since
        > min(one.audited for other in trend.lines for one in other.findings.values())
    )


def _view(project: Project, trend: Trend, lines: list[Line], audited: set[int]) -> TrendView:
    """The view of ``lines``. The hours of the audit have tooltips, and those that did not pass. With those of all other
    hours, the pages of four weeks would take hundreds of megabytes.
    """
    found: dict[int, list[QualityRow]] = {}
    for line in lines:
        for hour, finding in line.findings.items():
            found.setdefault(hour, []).append(finding)
    worst = {hour: _worst(of) for hour, of in found.items()}
    shown = {hour: state for hour, state in worst.items() if hour in audited or state != "passed"}
    return trend_view(
        project, trend, lines, [Hover(hour - trend.first, describe_hour(hour, found[hour])) for hour in hovered(shown)]
    )


def _failure(project: Project, trend: Trend, line: Line, audited: set[int], rows: pa.Table) -> Failure:
    bad = [line.findings[hour] for hour in sorted(audited & line.findings.keys()) if not line.findings[hour].success]
    shown: list[dict[str, Any]] = []
    for finding in bad:
        shown += [read_row(text) for text in rows["rows"][finding.row].as_py() or []]
    count = max(sum(finding.unexpected or 0 for finding in bad), len(shown))
    names = list(dict.fromkeys(chain.from_iterable(shown)))
    found: dict[str, list[int]] = {}
    for one in bad:
        found.setdefault(shorten(one.found or "") or observed(one) or "failed", []).append(one.hour)
    others = list(found.values())[_SHOWN_FINDINGS:]
    hours = counted(sum(map(len, others)), "hour")
    return Failure(
        view=_view(project, trend, [line], audited),
        found=[(_tell_hours(hours), words) for words, hours in list(found.items())[:_SHOWN_FINDINGS]],
        other=f"and {counted(len(others), 'other finding')}, in {hours}" if others else "",
        columns=names,
        rows=[[shorten(value_text(row[name])) if name in row else "" for name in names] for row in shown[:SHOWN_ROWS]],
        more=count - min(len(shown), SHOWN_ROWS) if shown else 0,
    )


def _tell_hours(hours: Sequence[int]) -> str:
    """``2026-03-02 03:00 UTC``, or ``2 hours, 2026-03-02 03:00 to 2026-03-03 03:00 UTC``."""
    first, last = (f"{hour_of(hour):%Y-%m-%d %H:%M}" for hour in (hours[0], hours[-1]))
    return f"{first} UTC" if len(hours) == 1 else f"{len(hours):,} hours, {first} to {last} UTC"


def _weeks(trend: Trend, lines: list[Line], audited: set[int]) -> dict[str, Any] | None:
    """The values of one hour beside those of the same hour of past weeks: of the newest hour that failed, else of the
    newest one. None: nothing is known of past weeks.
    """
    failed = [hour for line in lines for hour in audited & line.findings.keys() if not line.findings[hour].success]
    hour = max(failed, default=max(audited))
    places = [hour - week * _WEEK for week in range(_WEEKS + 1)]
    table = []
    for line in lines:
        values = [line.findings[place].observed if place in line.findings else None for place in places]
        if values[0] is not None and any(value is not None for value in values[1:]):
            table.append(
                (
                    columns(line.newest).removesuffix(" beyond past days"),
                    ["" if value is None else number(value) for value in values],
                )
            )
    if not table:
        return None
    return {"hour": f"{hour_of(hour):%a %-d %b %Y, %H:%M} UTC", "rows": table, "weeks": range(1, _WEEKS + 1)}
