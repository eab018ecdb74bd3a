"""How the events of the source of an upsert are made."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from pyspark.sql import SparkSession

from hourline_core.ledger.progress_rows import ProgressRow
from hourline_core.model import Project, Source
from speed_layer.derived.inputs import Input
from speed_layer.derived.passed import Passed
from speed_layer.intake.record_plan import RecordPlan
from speed_layer.intake.tasks import Evaluated
from speed_layer.tables.tombstones import open_tombstones
from speed_layer.upserts.plan import UpsertPlan, plan_upsert
from speed_layer.upserts.step import UpsertFiles, plan_step
from speed_layer.upserts.tasks import find_versions


@dataclass(frozen=True)
class UpsertStep:
    """A ``Step`` of an upsert."""

    spark: SparkSession
    plan: UpsertPlan
    files: UpsertFiles

    @property
    def up_to(self) -> Sequence[int]:
        return [self.files.up_to]

    @property
    def rows(self) -> int:
        return self.files.rows

    def derive(self, records: RecordPlan, arrived: datetime, parts: int) -> Evaluated | None:
        if not (self.files.new.slices or self.files.tombstones):
            return None
        return find_versions(self.spark, records, self.plan, self.files, parts, arrived)


class UpsertDerivation:
    """A ``Derivation`` by the newest versions of a table. Raises as ``plan_upsert``."""

    wait = timedelta(0)
    """A version counts at once: a newer one takes it back."""

    def __init__(self, spark: SparkSession, project: Project, source: Source, inputs: Sequence[Input]) -> None:
        self._spark, self.inputs = spark, inputs
        (table,) = inputs
        self._plan = plan_upsert(project, source, table)
        self._tombstones = open_tombstones(project, table.source, self._plan)

    def plan(self, read: Sequence[Sequence[ProgressRow]], after: Sequence[int], passed: Passed) -> UpsertStep:
        (table,), (rows,), (before,) = self.inputs, read, after
        if self._tombstones:
            self._tombstones.update_incremental()
        return UpsertStep(self._spark, self._plan, plan_step(self._plan, table, self._tombstones, rows, before))

    def reach_of_gap(self, place: int) -> tuple[timedelta, timedelta]:
        """A lost event may be a newer version of any within the distance."""
        return self._plan.within, self._plan.within
