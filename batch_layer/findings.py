"""Records what is found of the sources and the speed layer. The batch layer's runs are the one writer of that table."""

from collections.abc import Callable
from datetime import datetime

from batch_layer.reports.follow import follow, tables_of_reports
from hourline_core.feed.positions import REPORTS, read_position
from hourline_core.findings.look import look, tables_to_look_at
from hourline_core.ledger.finding import Finding
from hourline_core.ledger.findings import read_findings, record_findings
from hourline_core.ledger.snapshot import Snapshot
from hourline_core.model import Project
from hourline_core.model.hours import Clock, wall_clock
from hourline_core.runtime.lease import turn
from hourline_core.sql.database import open_database


def look_and_record(
    project: Project, clock: Clock = wall_clock, on_waiting: Callable[[int], None] = lambda process: None
) -> list[Finding]:
    """What is found now, those that fail first: it is recorded since when each is open, and which have gone.

    ``on_waiting`` is called with the process that this one waits for. The overview page shows them. Raises
    ConflictError, TableError.
    """
    with (
        turn(project.workspace, "batch", on_waiting),
        open_database(project, clock, _needed) as (database, snapshot),
    ):
        if read_position(project, REPORTS) != (snapshot.publication or 0):
            follow(project, clock, (database, snapshot))  # what a killed process, or a full disk, has left out
        now = clock()
        found = look(project, database, snapshot, now)
        if not has_news(project, found, now):
            return []
        recorded = record_findings(project, found, now)
        follow(project, clock, (database, snapshot))
    return recorded


def has_news(project: Project, found: list[Finding], now: datetime) -> bool:
    """Whether a run at ``now`` (UTC) has something to record: something is ``found``, or is recorded as open. Raises
    TableError.
    """
    return bool(found) or any(one.closed is None for one in read_findings(project, now))


def look_now(project: Project, clock: Clock = wall_clock) -> list[Finding]:
    """What is found now, those that fail first, without recording it. Raises TableError."""
    with open_database(project, clock, tables_to_look_at) as (database, snapshot):
        return look(project, database, snapshot, clock())


def _needed(snapshot: Snapshot) -> set[str]:
    return tables_to_look_at(snapshot) | tables_of_reports(snapshot)
