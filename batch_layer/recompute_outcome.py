"""Reports what was published and blocked since a moment, for programs that run a recompute and may have run it before.

It is read from the tables alone. So a run that was killed after its publication, and is tried again, still reports what
it has published.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from hourline_core.ledger.coverage import read_coverage
from hourline_core.ledger.layout import Layout
from hourline_core.ledger.report_pages import page_name, page_path, report_site
from hourline_core.model import DeclaredMetric, Project
from hourline_core.model.hours import HourRange, hour_text
from hourline_core.storage.opening import exists, open_table

_PAGES = 50
"""The maximum number of reports that are named."""


def results_since(project: Project, moment: datetime, hours: HourRange | None = None) -> dict[str, Any]:
    """Return what was published and blocked at or after ``moment`` (UTC), of ``hours`` or of all, by the current
    declarations.

    ``published`` and ``blocked`` are lists of hours (``2013-01-05T14:00Z``) by metric. ``reports`` are the pages of
    these audits as URIs, the newest first. Raises TableError.
    """
    declared = [DeclaredMetric(project.source_of(metric), metric) for metric in project.metrics.values()]
    coverage = read_coverage(project).about(declared)
    if hours is not None:
        coverage = coverage.within(hours)
    audits = _audits_since(project, moment, coverage.publication)
    failed = {
        (row["source"], row["metric"], row["hour"])
        for row in audits
        if row["severity"] == "fail" and not row["success"]
    }
    # A finding on events is about each metric over them.
    sources = {metric.name: metric.source for metric in project.metrics.values()}
    blocked = {
        (mark.metric, mark.hour)
        for mark in coverage.blocked()
        for about in (mark.metric, None)
        if (sources[mark.metric], about, mark.hour) in failed
    }
    told = [row for row in audits if row["metric"] is not None and (hours is None or row["hour"] in hours)]
    pages = sorted({(row["publication"], page_name(row["source"], row["metric"])) for row in told}, reverse=True)
    site = report_site(project)
    return {
        "published": _by_metric((row.metric, row.hour) for row in coverage.published_since(moment)),
        "blocked": _by_metric(blocked),
        "reports": [(site / page_path(publication, name)).as_uri() for publication, name in pages[:_PAGES]],
    }


def _audits_since(project: Project, moment: datetime, publication: int | None) -> list[dict[str, Any]]:
    """Keep the rows of publications up to ``publication``. A later one was not finished."""
    layout = Layout.of(project)
    if publication is None or not exists(layout.quality, layout.storage_options):
        return []
    columns = ["publication", "source", "metric", "hour", "severity", "success"]
    table = open_table(layout.quality, layout.storage_options)
    rows: list[dict[str, Any]] = table.to_pyarrow_table(
        columns=columns, filters=[("audited", ">=", moment), ("publication", "<=", publication)]
    ).to_pylist()
    return rows


def _by_metric(pairs: Iterable[tuple[str, datetime]]) -> dict[str, list[str]]:
    by_metric: dict[str, list[str]] = {}
    for metric, hour in sorted(pairs):
        by_metric.setdefault(metric, []).append(hour_text(hour))
    return by_metric
