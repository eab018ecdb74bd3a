"""Plans a snapshot: what tasks read of the archive of the table and of earlier snapshots, and what a row becomes."""

from dataclasses import dataclass
from datetime import timedelta

from deltalake import DeltaTable

from hourline_core.ledger.layout import Layout
from hourline_core.model import Project, Source
from hourline_core.model.scratch_columns import HOUR, SEQUENCE
from hourline_core.model.snapshot import SNAPSHOT_ROW
from speed_layer.derived.inputs import Input
from speed_layer.tables.plan import ArchiveColumns, TablePlan, columns_of, plan_table


@dataclass(frozen=True)
class SnapshotPlan(TablePlan):
    """A snapshot of a table."""

    every: timedelta


def plan_snapshot(project: Project, source: Source, table: Input) -> SnapshotPlan:
    """The plan of ``source``, a snapshot of ``table``. Raises as ``plan_table``."""
    assert source.snapshot, "it is a snapshot"
    return SnapshotPlan(**vars(plan_table(project, source, source.snapshot, table)), every=source.snapshot.every)


def plan_own_archive(project: Project, source: Source, plan: SnapshotPlan, events: DeltaTable) -> ArchiveColumns:
    """What tasks read of the ``events`` of the source of the snapshot itself: earlier snapshots."""
    columns = [HOUR, SEQUENCE, SNAPSHOT_ROW, plan.event_time, *plan.key, *plan.columns]
    return columns_of(Layout.of(project), source, events, columns)
