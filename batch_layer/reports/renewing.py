"""Writes the overview page again after each publication. Its cost does not grow with history."""

import pyarrow as pa

from batch_layer.plan import Job
from batch_layer.publication import MetricPublication
from batch_layer.reports.overview import write_overview
from batch_layer.reports.site import prune, writing
from hourline_core.ledger.layout import QUALITY_SCHEMA
from hourline_core.ledger.report_pages import SHOWN, report_site
from hourline_core.model.hours import sql_timestamp


def renew_overview(job: Job, published: list[MetricPublication], findings: pa.Table) -> None:
    """Write the overview page from four weeks of audited hours and all blocked hours, and remove pages that nothing
    links to any more.

    The job's snapshot is from before the publication. ``published`` and its ``findings`` (QUALITY_SCHEMA) have changed
    since. Raises HourlineError.
    """
    project, snapshot = job.project, job.snapshot
    blocked = set(snapshot.blocked)
    newest = snapshot.coverage.newest_hours()
    for metric in published:
        name, source = metric.aggregation.metric.name, metric.aggregation.source.name
        blocked -= {(name, hour) for hour in metric.passed}
        blocked |= {(name, hour) for hour in metric.blocked}
        newest[source] = max([*metric.staged.hours, *([newest[source]] if source in newest else [])])
    chosen = [f"(source = '{source}' AND hour >= '{sql_timestamp(hour - SHOWN)}')" for source, hour in newest.items()]
    if blocked:
        chosen.append(f"hour IN ({', '.join(sorted({repr(sql_timestamp(hour)) for _, hour in blocked}))})")
    job.database.register("_findings", findings)
    names = ", ".join(QUALITY_SCHEMA.names)
    rows = (
        job.database.execute(
            f"SELECT {names} FROM (FROM hourline.quality UNION ALL BY NAME FROM _findings) "
            f"WHERE {' OR '.join(chosen) or 'false'}"
        )
        .to_arrow_table()
        .cast(QUALITY_SCHEMA)
    )
    with writing(project, "all else is done"):
        site = report_site(project)
        write_overview(site, project.name, rows, blocked, job.clock())
        prune(site, set(rows["publication"].to_pylist()))
