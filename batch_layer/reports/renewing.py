"""The overview page, written anew after each publication; what that takes does not grow with history."""

from batch_layer.reports.overview import write_overview
from batch_layer.reports.site import prune, writing
from hourline_core.ledger.layout import QUALITY_SCHEMA
from hourline_core.ledger.report_pages import SHOWN, report_site
from hourline_core.model import Project
from hourline_core.model.hours import Clock, sql_timestamp
from hourline_core.sql.database import open_database


def renew_overview(project: Project, clock: Clock) -> None:
    """Write the overview page anew, from four weeks of audited hours and all that is blocked, and remove pages that
    nothing links to any more.
    """
    with writing(project, "all else is done"), open_database(project, clock) as (database, snapshot):
        marks = list(snapshot.blocked)
        chosen = [
            f"(source = '{source}' AND hour >= '{sql_timestamp(newest - SHOWN)}')"
            for source, newest in snapshot.coverage.newest_hours().items()
        ]
        if marks:
            chosen.append(f"hour IN ({', '.join(sorted({repr(sql_timestamp(hour)) for _, hour in marks}))})")
        names = ", ".join(QUALITY_SCHEMA.names)
        rows = (
            database.execute(f"SELECT {names} FROM hourline.quality WHERE {' OR '.join(chosen) or 'false'}")
            .to_arrow_table()
            .cast(QUALITY_SCHEMA)
        )
        site = report_site(project)
        write_overview(site, project.name, rows, marks, clock())
        prune(site, set(rows["publication"].to_pylist()))
