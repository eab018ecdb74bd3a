"""How the events of the source of a snapshot are made."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from pyspark.sql import DataFrame, SparkSession

from hourline_core.ledger.layout import Layout
from hourline_core.ledger.progress_rows import ProgressRow
from hourline_core.model import Project, Source
from hourline_core.storage.opening import open_table
from speed_layer.derived.inputs import Input
from speed_layer.derived.passed import Passed
from speed_layer.snapshots.plan import ArchiveColumns, SnapshotPlan, plan_snapshot, read_own_archive
from speed_layer.snapshots.step import SnapshotStep, plan_step
from speed_layer.snapshots.tasks import number_of_parts, take_snapshots

_FOR_EVER = timedelta(days=4_000_000)
"""More than all times that Python has."""


@dataclass(frozen=True)
class TakenStep:
    """A ``Step`` of a snapshot."""

    spark: SparkSession
    source: Source
    plan: SnapshotPlan
    earlier: ArchiveColumns
    files: SnapshotStep

    @property
    def up_to(self) -> Sequence[int]:
        return [self.files.up_to]

    @property
    def parts(self) -> int:
        return number_of_parts(self.files, self.spark.sparkContext.defaultParallelism)

    def derive(self, arrived: datetime) -> DataFrame | None:
        if self.files.is_empty:
            return None
        return take_snapshots(self.spark, self.source, self.plan, self.earlier, self.files, self.parts, arrived)


class SnapshotDerivation:
    """A ``Derivation`` by snapshots of a table. Raises as ``plan_snapshot``."""

    def __init__(self, spark: SparkSession, project: Project, source: Source, inputs: Sequence[Input]) -> None:
        self._spark, self._project, self._source, self.inputs = spark, project, source, inputs
        (table,) = inputs
        self._plan = plan_snapshot(project, source, table)
        self.wait = table.source.grace
        """So events that come in time are in the snapshot."""

    def plan(self, read: Sequence[Sequence[ProgressRow]], after: Sequence[int], passed: Passed) -> TakenStep:
        layout, (table,) = Layout.of(self._project), self.inputs
        rejected = open_table(layout.rejected(table.source), layout.storage_options)
        # What was committed is finished, since a start deletes what was not.
        earlier = open_table(layout.events(self._source), layout.storage_options)
        files = plan_step(self._plan, table, rejected, earlier, read[0], after[0], passed)
        columns = read_own_archive(self._project, self._source, self._plan, earlier)
        return TakenStep(self._spark, self._source, self._plan, columns, files)

    def reach_of_gap(self, place: int) -> tuple[timedelta, timedelta]:
        """A lost event may be the row of its key in all snapshots that follow."""
        return timedelta(0), _FOR_EVER
