"""Writes the overview page: what a person must do now, the problems, what is new since yesterday, and the trend of each
expectation over the last four weeks.
"""

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

import pyarrow as pa

from batch_layer.reports.cards import cards
from batch_layer.reports.news import list_news
from batch_layer.reports.site import moment_text, templates, write
from batch_layer.reports.trend_views import Hover, TrendView, describe_hour, hovered, trend_view
from batch_layer.reports.trends import Trend, hour_number, hour_of, trends
from hourline_core.ledger.problems import Problems, advice
from hourline_core.ledger.report_pages import anchor, page_name, page_path
from hourline_core.model import Project


def write_overview(
    site: Path,
    project: Project,
    rows: pa.Table,
    problems: Problems,
    blocked: Iterable[tuple[str, datetime]],
    moment: datetime,
) -> Path:
    """Write ``index.html`` below ``site``, and return its path.

    ``rows`` (QUALITY_SCHEMA) are those of finished publications: of the four weeks before each source's newest audited
    hour. Earlier rows are left out. ``blocked`` are the hours (metric, hour in UTC) that are blocked now. ``moment``
    (UTC) is the time of writing. Raises OSError.
    """
    all_trends = trends(rows, [(metric, hour_number(hour)) for metric, hour in blocked])
    audited = sum(len(trend.states) for trend in all_trends)
    page = (
        templates()
        .get_template("overview.html")
        .render(
            project=project.name,
            moment=moment_text(moment),
            grade="bad" if problems.blocking else "good" if audited else "fair",
            advice=advice(problems, audited),
            cards=cards(project, problems.open, all_trends, moment),
            there=lambda address: (site / address).is_file(),
            news=[line for trend in all_trends for line in list_news(trend, moment)],
            trends=[_trend_view(site, trend) for trend in all_trends],
        )
    )
    return write(site, "index.html", page)


def _trend_view(site: Path, trend: Trend) -> TrendView:
    name = page_name(trend.source, trend.metric)
    pages = {publication: page_path(publication, name) for publication in set(trend.publications.values())}
    there = {publication: path for publication, path in pages.items() if (site / path).is_file()}
    hovers = [
        Hover(
            hour - trend.first,
            describe_hour(
                hour, [line.findings[hour] for line in trend.lines if hour in line.findings], trend.states[hour]
            ),
            there.get(publication) and f"{there[publication]}#{anchor(hour_of(hour))}",
        )
        for hour in hovered(trend.states)
        for publication in [trend.publications[hour]]
    ]
    return trend_view(trend, trend.lines, hovers)
