"""How the events of the source of a snapshot are made."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from deltalake import DeltaTable
from pyspark.sql import SparkSession

from hourline_core.ledger.layout import Layout
from hourline_core.ledger.progress_rows import ProgressRow
from hourline_core.model import Project, Source
from hourline_core.storage.opening import open_table
from speed_layer.derived.inputs import Input
from speed_layer.derived.passed import Passed
from speed_layer.derived.stream import Step
from speed_layer.intake.record_plan import RecordPlan
from speed_layer.intake.tasks import Evaluated
from speed_layer.snapshots.plan import SnapshotPlan, plan_own_archive, plan_snapshot
from speed_layer.snapshots.step import SnapshotStep, find_times, plan_step
from speed_layer.snapshots.tasks import take_snapshots
from speed_layer.tables.plan import ArchiveColumns
from speed_layer.tables.tombstones import open_tombstones

_FOR_EVER = timedelta(days=4_000_000)
"""More than all times that Python has."""


@dataclass(frozen=True)
class TakenStep:
    """A ``Step`` of a snapshot."""

    spark: SparkSession
    plan: SnapshotPlan
    earlier: ArchiveColumns
    files: SnapshotStep

    @property
    def up_to(self) -> Sequence[int]:
        return [self.files.up_to]

    @property
    def rows(self) -> int:
        return self.files.table.rows + self.files.snapshots.rows

    def derive(self, records: RecordPlan, arrived: datetime, parts: int) -> Evaluated | None:
        return take_snapshots(self.spark, records, self.plan, self.earlier, self.files, parts, arrived)


@dataclass(frozen=True)
class EmptyStep:
    """A ``Step`` in which no snapshot is taken or changed."""

    up_to: Sequence[int]
    rows: int = 0

    def derive(self, records: RecordPlan, arrived: datetime, parts: int) -> Evaluated | None:
        return None


class SnapshotDerivation:
    """A ``Derivation`` by snapshots of a table. Raises as ``plan_snapshot``."""

    def __init__(self, spark: SparkSession, project: Project, source: Source, inputs: Sequence[Input]) -> None:
        self._spark, self._project, self._source, self.inputs = spark, project, source, inputs
        (table,) = inputs
        self._layout = Layout.of(project)
        self._plan = plan_snapshot(project, source, table)
        self._rejected = open_tombstones(project, table.source, self._plan)
        self._earlier: DeltaTable | None = None
        self.wait = table.source.grace
        """So events that come in time are in the snapshot."""

    def plan(self, read: Sequence[Sequence[ProgressRow]], after: Sequence[int], passed: Passed) -> Step:
        (table,), (rows,), (before,) = self.inputs, read, after
        if self._rejected:
            self._rejected.update_incremental()
        up_to = rows[-1].sequence if rows else before
        times = find_times(self._plan, self._rejected, rows, before, passed)
        if times.are_none:
            return EmptyStep([up_to])
        earlier = self._read_earlier()
        files = plan_step(self._plan, table, self._rejected, earlier, times, (before, up_to))
        columns = plan_own_archive(self._project, self._source, self._plan, earlier)
        return TakenStep(self._spark, self._plan, columns, files)

    def reach_of_gap(self, place: int) -> tuple[timedelta, timedelta]:
        """A lost event may be the row of its key in all snapshots that follow."""
        return timedelta(0), _FOR_EVER

    def _read_earlier(self) -> DeltaTable:
        """The archive of the snapshots. What was committed is finished, since a start deletes what was not."""
        if self._earlier is None:  # It is there once the source has been opened.
            self._earlier = open_table(self._layout.events(self._source), self._layout.storage_options)
        self._earlier.update_incremental()
        return self._earlier
