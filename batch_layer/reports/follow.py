"""Writes the reports of what was published since the last time: a page for each audit, and the overview.

The reports follow the publications. They are written from the tables, after the commits, so a page that cannot be
written stops no publication. What a killed process has not written, the next one does.
"""

from contextlib import nullcontext, suppress
from datetime import datetime

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from batch_layer.reports.audit_page import write_page
from batch_layer.reports.overview import write_overview
from batch_layer.reports.site import prune
from hourline_core.faults import explain_fault, log_fault
from hourline_core.feed.positions import REPORTS, read_position, write_position
from hourline_core.ledger.findings import read_findings
from hourline_core.ledger.layout import QUALITY_SCHEMA
from hourline_core.ledger.report_pages import SHOWN, page_name, page_path, report_site
from hourline_core.ledger.snapshot import Snapshot
from hourline_core.model import Project
from hourline_core.model.hours import Clock, sql_timestamp
from hourline_core.runtime.fault_context import surroundings_of
from hourline_core.runtime.unwritten_reports import forget_unwritten, note_unwritten
from hourline_core.sql.database import open_database
from hourline_core.sql.problems import read_problems

_WITHOUT_FAILING_ROWS = ", ".join(
    name if name != "rows" else "NULL::VARCHAR[] AS rows" for name in QUALITY_SCHEMA.names
)
"""The columns of the quality table. The failing rows that it has are long, and an audit's own page alone shows them."""


def follow(project: Project, clock: Clock, opened: tuple[duckdb.DuckDBPyConnection, Snapshot] | None = None) -> None:
    """Write the pages of the publications since the last time, then the overview with what is found of the sources.
    They are read from ``opened``, a database with the ``tables_of_reports`` of a snapshot, or from the newest one.

    Raises no error of the reports: it is noted in the workspace, and is a finding from then on. To be called under the
    lease of the batch layer. ``clock`` dates the overview (UTC).
    """
    try:
        with (
            nullcontext(opened) if opened else open_database(project, clock, tables_of_reports) as (database, snapshot)
        ):
            newest = snapshot.publication or 0
            position = read_position(project, REPORTS)
            # A later position is one in tables that are gone.
            _write(project, database, snapshot, position if position <= newest else 0, clock())
        write_position(project, REPORTS, newest)
        forget_unwritten(project.workspace)
    except Exception as error:  # Whatever a template or a disk raises, the hours are published.
        log_fault(error, project.workspace / "logs" / "errors.log", "the writing of the reports")
        with suppress(OSError):
            note_unwritten(project.workspace, clock(), str(explain_fault(error, surroundings_of(project))))


def tables_of_reports(snapshot: Snapshot) -> set[str]:
    """The tables and views of ``snapshot`` that ``follow`` reads. The states of hours are only asked for where one is
    blocked. They are read from the tables of all metrics.
    """
    return {"hourline.quality", *(["hourline.metric_hours"] if snapshot.sources_of_blocked else [])}


def _write(
    project: Project, database: duckdb.DuckDBPyConnection, snapshot: Snapshot, after: int, moment: datetime
) -> None:
    """Write the pages of publications ``after`` one, and the overview from four weeks of audited hours and all open
    problems. Remove pages that nothing links to any more.
    """
    blocked, site = snapshot.sources_of_blocked, report_site(project)
    chosen = [
        f"(source = '{source}' AND hour > '{sql_timestamp(hour - SHOWN)}')"
        for source, hour in snapshot.coverage.newest_hours().items()
    ]
    problems = read_problems(database, blocked)
    shown = {one.publication for problem in problems.open for one in problem.hours}
    rows = _read_rows(database, " OR ".join(chosen) or "false", _WITHOUT_FAILING_ROWS)
    linked = " OR ".join([*chosen, *(f"publication = {number}" for number in sorted(shown) if number > after)])
    fresh = _read_rows(database, f"publication > {after} AND ({linked or 'false'})", ", ".join(QUALITY_SCHEMA.names))
    _write_pages(project, database, fresh)
    findings = [one for one in read_findings(project, moment) if one.closed is None]
    changed = {*fresh["source"].to_pylist()}
    write_overview(site, project, rows, problems, blocked, moment, changed, findings)
    prune(site, {*rows["publication"].to_pylist(), *shown})


def _read_rows(database: duckdb.DuckDBPyConnection, condition: str, columns: str) -> pa.Table:
    """Rows of the quality table (QUALITY_SCHEMA)."""
    found = database.execute(f"SELECT {columns} FROM hourline.quality WHERE {condition}").to_arrow_table()
    return found.cast(QUALITY_SCHEMA)


def _write_pages(project: Project, database: duckdb.DuckDBPyConnection, rows: pa.Table) -> None:
    """Write the page of each audit in ``rows``, but for those whose page is there. An acceptance is no audit."""
    site, own = report_site(project), {}
    audits = rows.filter(pc.field("expectation") != "accepted").group_by(["publication", "source", "metric"])
    for audit in audits.aggregate([]).to_pylist():
        publication, source, metric = audit["publication"], audit["source"], audit["metric"]
        if not (site / page_path(publication, page_name(source, metric))).exists():
            own[publication, source, metric] = rows.filter(
                (pc.field("publication") == publication) & _is_of(source, metric)
            )
    # What earlier audits found of the same in the four weeks before, read at once for all pages.
    last = {of: pc.max(found["hour"]).as_py() for of, found in own.items()}
    spans = sorted({(source, last[publication, source, metric]) for publication, source, metric in own})
    weeks = [
        f"(source = '{source}' AND hour > '{sql_timestamp(end - SHOWN)}' AND hour <= '{sql_timestamp(end)}')"
        for source, end in spans
    ]
    all_past = _read_rows(database, " OR ".join(weeks) or "false", _WITHOUT_FAILING_ROWS)
    for (publication, source, metric), found in own.items():
        end = last[publication, source, metric]
        within = (pc.field("hour") > end - SHOWN) & (pc.field("hour") <= end)
        past = all_past.filter((pc.field("publication") < publication) & within & _is_of(source, metric))
        write_page(site, project, publication, source, metric, found, past, pc.max(found["audited"]).as_py())


def _is_of(source: str, metric: str | None) -> pc.Expression:
    """Whether a row of QUALITY_SCHEMA is about ``metric``, or about the events of ``source`` (None)."""
    of_metric = pc.field("metric").is_null() if metric is None else pc.field("metric") == metric
    return (pc.field("source") == source) & of_metric
