"""Opens a snapshot for queries: the newest one, that of an earlier time, or what is left of damaged tables."""

from datetime import datetime

import duckdb

from hourline_core.ledger.degraded_snapshot import degraded_snapshot
from hourline_core.ledger.snapshot import Snapshot
from hourline_core.ledger.time_travel import moment_of, snapshot_at, token_of
from hourline_core.model import Project
from hourline_core.model.hours import Clock
from hourline_core.sql.attach_on_demand import AttachedParts
from hourline_core.sql.database import connect
from hourline_core.sql.shared_snapshot import Opened, SharedSnapshot
from hourline_core.sql.tables import table_parts
from hourline_core.sql.user_functions import install_functions
from serving_layer.findings_view import findings_part, install_findings
from serving_layer.views import view_parts

NEWEST = SharedSnapshot()
"""The newest snapshot, for all readers of this process."""


def open_snapshot(project: Project, clock: Clock, as_of: str | None, *, degraded: bool) -> Opened:
    """The newest snapshot, which all readers of this process share. Or that of ``as_of``, a token or a time. Or, if
    ``degraded``, as much as can be read. Raises TableError, and UsageError when there is no answer of that time.
    """

    def attachable(snapshot: Snapshot, taken: datetime) -> tuple[duckdb.DuckDBPyConnection, AttachedParts]:
        """A new database, and the tables of a snapshot and the views on them, to be attached to it."""
        database = connect()
        install_functions(database, (tables.metric for tables in snapshot.metrics))
        tables = [*table_parts(project, snapshot, taken, snapshot.files)]
        views = [*view_parts(project, snapshot)]
        if has_findings(snapshot, as_of):
            install_findings(database, project, snapshot, clock)
            views.append(findings_part(tables))
        return database, AttachedParts(database, [*tables, *views])

    if as_of is None and not degraded:
        return NEWEST.open(project, clock, attachable)
    taken = clock()
    if as_of is None:
        snapshot, damage = degraded_snapshot(project)
        return Opened(snapshot, taken, *attachable(snapshot, taken), tuple(sorted(damage)))
    token = token_of(project, as_of, taken)
    snapshot = snapshot_at(project, token)
    return Opened(snapshot, taken, *attachable(snapshot, moment_of(project, token) or taken))


def has_findings(snapshot: Snapshot, as_of: str | None) -> bool:
    """Whether there is a view of findings. An earlier time would be told by what the workspace has noted since."""
    return as_of is None and not snapshot.unreadable
