"""How the events of a joined source are made."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from pyspark.sql import DataFrame, SparkSession

from hourline_core.ledger.progress_rows import ProgressRow
from hourline_core.model import Project, Source
from speed_layer.derived.inputs import Input
from speed_layer.derived.passed import Passed
from speed_layer.joins.plan import JoinPlan, plan_join
from speed_layer.joins.step import SideStep, plan_step
from speed_layer.joins.tasks import join_events, number_of_parts


@dataclass(frozen=True)
class JoinStep:
    """A ``Step`` of a join."""

    spark: SparkSession
    source: Source
    plan: JoinPlan
    sides: tuple[SideStep, SideStep]
    passed: Passed

    @property
    def up_to(self) -> Sequence[int]:
        return [side.up_to for side in self.sides]

    @property
    def parts(self) -> int:
        return number_of_parts(self.sides, self.spark.sparkContext.defaultParallelism)

    def derive(self, arrived: datetime) -> DataFrame | None:
        if not any(files.slices for side in self.sides for files in (side.new, side.near)):
            return None
        return join_events(self.spark, self.source, self.plan, self.sides, self.passed, self.parts, arrived)


class JoinDerivation:
    """A ``Derivation`` by a join. Raises as ``plan_join``."""

    def __init__(self, spark: SparkSession, project: Project, source: Source, inputs: Sequence[Input]) -> None:
        assert source.join, "it is joined"
        self._spark, self._source, self.inputs = spark, source, inputs
        self._plan = plan_join(project, source, inputs)
        self.wait = source.join.longest_wait

    def plan(self, read: Sequence[Sequence[ProgressRow]], after: Sequence[int], passed: Passed) -> JoinStep:
        sides = plan_step(self._plan, self.inputs, read, after, passed)
        return JoinStep(self._spark, self._source, self._plan, sides, passed)

    def reach_of_gap(self, place: int) -> tuple[timedelta, timedelta]:
        """A partner that comes later decides the hour of a pair. In earlier hours, events without a partner may have
        had one.
        """
        plan = self._plan
        earlier = (plan.before, plan.after)[place] if plan.outer[1 - place] else timedelta(0)
        return earlier, (plan.after, plan.before)[place]
