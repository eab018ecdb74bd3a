"""Writes the overview page again after each publication."""

import pyarrow as pa

from batch_layer.job import Job
from batch_layer.publication import MetricPublication
from batch_layer.reports.overview import write_overview
from batch_layer.reports.site import prune, writing
from hourline_core.ledger.layout import QUALITY_SCHEMA
from hourline_core.ledger.report_pages import SHOWN, report_site
from hourline_core.model.hours import sql_timestamp
from hourline_core.sql.problems import read_problems


def renew_overview(job: Job, published: list[MetricPublication], findings: pa.Table) -> None:
    """Write the overview page from four weeks of audited hours and all open problems, and remove pages that nothing
    links to any more.

    The job's snapshot is from before the publication. ``published`` and its ``findings`` (QUALITY_SCHEMA) have changed
    since. Raises HourlineError.
    """
    project, snapshot = job.project, job.snapshot
    blocked = snapshot.sources_of_blocked
    newest = snapshot.coverage.newest_hours()
    for metric in published:
        name, source = metric.aggregation.metric.name, metric.aggregation.source.name
        passed = {(name, hour) for hour in metric.passed}
        blocked = {cell: of for cell, of in blocked.items() if cell not in passed}
        blocked |= {(name, hour): source for hour in metric.blocked}
        newest[source] = max([*metric.staged.hours, *([newest[source]] if source in newest else [])])
    chosen = [f"(source = '{source}' AND hour > '{sql_timestamp(hour - SHOWN)}')" for source, hour in newest.items()]
    job.database.register("_findings", findings)
    job.database.execute(
        "CREATE OR REPLACE TEMP VIEW _audited AS FROM hourline.quality UNION ALL BY NAME FROM _findings"
    )
    names = ", ".join(name if name != "rows" else "NULL::VARCHAR[] AS rows" for name in QUALITY_SCHEMA.names)
    rows = (
        job.database.execute(f"SELECT {names} FROM _audited WHERE {' OR '.join(chosen) or 'false'}")
        .to_arrow_table()
        .cast(QUALITY_SCHEMA)
    )
    problems = read_problems(job.database, blocked, "_audited")
    with writing(project, "all else is done"):
        site = report_site(project)
        sources = {metric.aggregation.source.name for metric in published}
        write_overview(site, project, rows, problems, blocked, job.clock(), sources)
        shown = {one.publication for problem in problems.open for one in problem.hours}
        prune(site, {*rows["publication"].to_pylist(), *shown})
