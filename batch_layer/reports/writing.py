"""When the reports are written: the pages of an audit before its hours are published, the overview after. What a run writes is bounded."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta

from batch_layer.audit.auditing import Audited
from batch_layer.reports.data_docs import write_page
from batch_layer.reports.overview import write_overview
from batch_layer.reports.site import prune
from hourline.database import open_database
from hourline.declarations import Project
from hourline.errors import HourlineError
from hourline.hours import Clock
from hourline.layout import QUALITY_SCHEMA, sql_timestamp
from hourline.report_pages import page_name, report_site

_SHOWN = timedelta(days=28)


def write_pages(project: Project, publication: int, found: Sequence[Audited], moment: datetime) -> None:
    """Write the Data Docs pages of an audit, dated ``moment`` (UTC). Raises HourlineError when they cannot be written: nothing is published then."""
    with _writing(project, "nothing was published"):
        for audited in found:
            for metric, result in audited.pages.items():
                hours = sorted({finding.hour for finding in audited.findings[metric]})
                told = hours[0] if len(hours) == 1 else f"{len(hours)} hours, {hours[0]} to {hours[-1]}"
                title = f"{metric}: results" if metric else f"{audited.source.name}: events"
                write_page(report_site(project), publication, page_name(audited.source.name, metric), result, title, told, moment)


def renew_overview(project: Project, clock: Clock) -> None:
    """Write the overview page anew, from four weeks of audited hours and all that is blocked, and remove pages that nothing links to any more."""
    with _writing(project, "all else is done"), open_database(project, clock) as (database, snapshot):
        marks = database.execute("SELECT metric, hour FROM hourline.metric_hours WHERE blocked_cut IS NOT NULL").fetchall()
        newest = snapshot.coverage.group_by("source").aggregate([("hour", "max")]).to_pylist()
        chosen = [f"(source = '{row['source']}' AND hour >= '{sql_timestamp(row['hour_max'] - _SHOWN)}')" for row in newest if row["hour_max"]]
        if marks:
            chosen.append(f"hour IN ({', '.join(sorted({repr(sql_timestamp(hour)) for _, hour in marks}))})")
        names = ", ".join(QUALITY_SCHEMA.names)
        rows = database.execute(f"SELECT {names} FROM hourline.quality WHERE {' OR '.join(chosen) or 'false'}").to_arrow_table().cast(QUALITY_SCHEMA)
        site = report_site(project)
        write_overview(site, project.name, rows, marks, clock())
        prune(site, set(rows["publication"].to_pylist()))


@contextmanager
def _writing(project: Project, consequence: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise HourlineError(f"the reports in {report_site(project)} cannot be written ({error.strerror or error}); {consequence}") from error
