"""Writes the overview page: what a person must do now, the problems, what is new since yesterday, and a row for each
source and metric. The trend of their expectations over the last four weeks is a page of its own.
"""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from pathlib import Path

import pyarrow as pa

from batch_layer.reports.cards import cards
from batch_layer.reports.news import list_news
from batch_layer.reports.site import moment_text, templates, write
from batch_layer.reports.trend_pages import describe_trend, write_trends
from batch_layer.reports.trends import hour_number, trends
from hourline_core.ledger.finding import Finding
from hourline_core.ledger.problems import Problems, advice
from hourline_core.model import Project


def write_overview(
    site: Path,
    project: Project,
    rows: pa.Table,
    problems: Problems,
    blocked: Iterable[tuple[str, datetime]],
    moment: datetime,
    changed: Collection[str] | None = None,
    findings: Sequence[Finding] = (),
) -> Path:
    """Write ``index.html`` and the pages of trends below ``site``, and return the path of the first.

    ``rows`` (QUALITY_SCHEMA) are those of finished publications: of the four weeks before each source's newest audited
    hour. Earlier rows are left out. ``blocked`` are the hours (metric, hour in UTC) that are blocked now. ``moment``
    (UTC) is the time of writing. Of trends, those of the sources in ``changed`` are written, and those that are not
    there. None: all. ``findings`` are those of the sources that are open. Raises OSError.
    """
    all_trends = trends(rows, [(metric, hour_number(hour)) for metric, hour in blocked])
    audited = sum(len(trend.states) for trend in all_trends)
    write_trends(site, project, all_trends, changed)
    described = sorted(map(describe_trend, all_trends), key=lambda row: row.need)
    page = (
        templates()
        .get_template("overview.html")
        .render(
            project=project.name,
            moment=moment_text(moment),
            grade=_grade(problems, findings, audited),
            advice=advice(problems, audited, findings),
            findings=findings,
            moment_text=moment_text,
            cards=cards(project, problems.open, all_trends, moment),
            there=lambda address: (site / address).is_file(),
            news=[line for trend in all_trends for line in list_news(trend, moment)],
            bad=[row for row in described if not row.passed],
            good=[row for row in described if row.passed],
        )
    )
    return write(site, "index.html", page)


def _grade(problems: Problems, findings: Sequence[Finding], audited: int) -> str:
    if problems.blocking or any(one.fails for one in findings):
        return "bad"
    return "good" if audited and not findings else "fair"
