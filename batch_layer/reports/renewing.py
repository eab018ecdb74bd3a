"""Writes the overview page again: after each publication, and when something was found of a source, or has gone."""

from collections.abc import Collection, Mapping
from datetime import datetime

import duckdb
import pyarrow as pa

from batch_layer.job import Job
from batch_layer.publication import MetricPublication
from batch_layer.reports.overview import write_overview
from batch_layer.reports.site import prune, writing
from hourline_core.ledger.findings import read_findings
from hourline_core.ledger.layout import QUALITY_SCHEMA
from hourline_core.ledger.report_pages import SHOWN, report_site
from hourline_core.ledger.snapshot import Snapshot
from hourline_core.model import Project
from hourline_core.model.hours import sql_timestamp
from hourline_core.sql.problems import read_problems


def renew_overview(job: Job, published: list[MetricPublication], findings: pa.Table) -> None:
    """Write the overview page from four weeks of audited hours and all open problems, and remove pages that nothing
    links to any more.

    The job's snapshot is from before the publication. ``published`` and its ``findings`` (QUALITY_SCHEMA) have changed
    since. Raises HourlineError.
    """
    blocked = job.snapshot.sources_of_blocked
    newest = job.snapshot.coverage.newest_hours()
    for metric in published:
        name, source = metric.aggregation.metric.name, metric.aggregation.source.name
        passed = {(name, hour) for hour in metric.passed}
        blocked = {cell: of for cell, of in blocked.items() if cell not in passed}
        blocked |= {(name, hour): source for hour in metric.blocked}
        newest[source] = max([*metric.staged.hours, *([newest[source]] if source in newest else [])])
    changed = {metric.aggregation.source.name for metric in published}
    _renew(job.project, job.database, findings, blocked, newest, changed, job.clock())


def renew_with_findings(
    project: Project, database: duckdb.DuckDBPyConnection, snapshot: Snapshot, moment: datetime
) -> None:
    """Write the overview page with what is recorded of the sources now. ``database`` has the tables of ``snapshot``.
    Raises HourlineError.
    """
    newest = snapshot.coverage.newest_hours()
    _renew(project, database, QUALITY_SCHEMA.empty_table(), snapshot.sources_of_blocked, newest, (), moment)


def _renew(
    project: Project,
    database: duckdb.DuckDBPyConnection,
    findings: pa.Table,
    blocked: Mapping[tuple[str, datetime], str],
    newest: Mapping[str, datetime],
    changed: Collection[str],
    moment: datetime,
) -> None:
    """Write the page with the rows of ``findings`` beside those of the quality table. ``blocked`` and ``newest`` (the
    newest audited hour of each source, in UTC) are after them. ``changed`` are the sources of what was published.
    """
    chosen = [f"(source = '{source}' AND hour > '{sql_timestamp(hour - SHOWN)}')" for source, hour in newest.items()]
    database.register("_findings", findings)
    database.execute("CREATE OR REPLACE TEMP VIEW _audited AS FROM hourline.quality UNION ALL BY NAME FROM _findings")
    names = ", ".join(name if name != "rows" else "NULL::VARCHAR[] AS rows" for name in QUALITY_SCHEMA.names)
    rows = (
        database.execute(f"SELECT {names} FROM _audited WHERE {' OR '.join(chosen) or 'false'}")
        .to_arrow_table()
        .cast(QUALITY_SCHEMA)
    )
    problems = read_problems(database, blocked, "_audited")
    of_sources = [one for one in read_findings(project, moment) if one.closed is None]
    with writing(project, "all else is done"):
        site = report_site(project)
        write_overview(site, project, rows, problems, blocked, moment, changed, of_sources)
        shown = {one.publication for problem in problems.open for one in problem.hours}
        prune(site, {*rows["publication"].to_pylist(), *shown})
