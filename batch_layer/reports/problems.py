"""Groups the blocked hours for people: successive hours of one metric with the same failures are one problem."""

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa

from batch_layer.reports.site import shorten
from batch_layer.reports.trends import Finding, Trend, hour_of
from hourline_core.ledger.report_pages import page_name, page_path
from hourline_core.model.hours import hour_text

_SHOWN_COMMANDS = 5
_SHOWN_ROWS = 5

_Kind = tuple[tuple[str, str | None], ...]
"""What failed."""


@dataclass(frozen=True)
class Failure:
    """An expectation that failed."""

    expectation: str
    about: str
    found: str
    columns: list[str]
    rows: list[list[str]]
    more: int
    """The number of failing rows beyond those shown."""


@dataclass(frozen=True)
class Problem:
    """Successive blocked hours of a metric, and the failures in the first of them."""

    metric: str
    hours: list[int]
    page: str | None
    """The address of the first hour's Data Docs page."""
    trend: str | None
    """The address of its metric's trend on the overview."""
    audited: datetime | None
    failures: list[Failure]

    @property
    def when(self) -> str:
        """The hours, as text."""
        first, last = hour_of(self.hours[0]), hour_of(self.hours[-1])
        if len(self.hours) == 1:
            return f"{first:%a %-d %b %Y, %H:%M} UTC"
        return (
            f"{first:%a %-d %b %Y, %H:%M} to {last:%H:%M}"
            + (f" on {last:%a %-d %b %Y}" if first.date() != last.date() else "")
            + " UTC"
        )

    @property
    def commands(self) -> list[tuple[str, str]]:
        """What to do, with the command."""
        start, end = hour_text(hour_of(self.hours[0])), hour_text(hour_of(self.hours[-1] + 1))
        accepts = [
            f'hourline publish --accept {self.metric} {hour_text(hour_of(hour))} --reason "…"'
            for hour in self.hours[:_SHOWN_COMMANDS]
        ]
        return [
            ("Once it is mended, recompute:", f"hourline recompute --from {start} --to {end} --metric {self.metric}"),
            (
                "Or publish what is staged all the same" + (", each hour by itself:" if len(self.hours) > 1 else ":"),
                "\n".join(accepts),
            ),
        ]


def problems(table: pa.Table, trends: Iterable[Trend], blocked: Iterable[tuple[str, int]]) -> list[Problem]:
    """The open problems, the newest hours first."""
    by_metric = {trend.metric: trend for trend in trends if trend.metric is not None}
    about_events = {trend.source: trend for trend in trends if trend.metric is None}
    apart: dict[tuple[str, _Kind, int], list[int]] = defaultdict(list)
    failed: dict[tuple[str, int], list[Finding]] = {}
    for metric, hour in sorted(blocked):
        trend = by_metric.get(metric)
        parts = [part for part in (trend, about_events.get(trend.source) if trend else None) if part]
        findings = [line.findings[hour] for part in parts for line in part.lines if hour in line.findings]
        failed[metric, hour] = [finding for finding in findings if finding.state == "failed"]
        kind: _Kind = tuple((finding.expectation, finding.about) for finding in failed[metric, hour])
        run = next(
            (key for key, hours in apart.items() if key[:2] == (metric, kind) and hours[-1] == hour - 1),
            (metric, kind, hour),
        )
        apart[run].append(hour)
    made = []
    for (metric, _, _), hours in apart.items():
        trend = by_metric.get(metric)
        publication = trend.publications.get(hours[0]) if trend else None
        first = failed[metric, hours[0]]
        name = page_name(trend.source, trend.metric) if trend else None
        page = page_path(publication, name) if name and publication is not None else None
        audited = datetime.fromtimestamp(first[0].audited, hour_of(0).tzinfo) if first else None
        made.append(Problem(metric, hours, page, name, audited, [_failure(table, finding) for finding in first]))
    return sorted(made, key=lambda problem: (-problem.hours[-1], problem.metric))


def _failure(table: pa.Table, finding: Finding) -> Failure:
    kept = [_row(text) for text in table["rows"][finding.row].as_py() or []]
    shown = kept[:_SHOWN_ROWS]
    columns = list(dict.fromkeys(column for row in shown for column in row))
    cells = [[shorten(row[column]) if column in row else "" for column in columns] for row in shown]
    more = max(finding.unexpected or 0, len(kept)) - len(shown) if shown else 0
    about = f"{finding.about or ''}{' of the events' if finding.metric is None else ''}".strip()
    return Failure(finding.expectation, shorten(about), shorten(finding.found or ""), columns, cells, more)


def _row(text: str | None) -> dict[str, object]:
    try:
        row: object = json.loads(text or "")
    except ValueError:
        row = text  # shown as it is
    return row if isinstance(row, dict) else {"row": row}
