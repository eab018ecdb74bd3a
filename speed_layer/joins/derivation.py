"""How the events of a joined source are made."""

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
from speed_layer.joins.plan import JoinPlan, plan_join
from speed_layer.joins.step import SideStep, plan_step
from speed_layer.joins.tasks import join_events


@dataclass(frozen=True)
class JoinStep:
    """A ``Step`` of a join."""

    spark: SparkSession
    plan: JoinPlan
    sides: tuple[SideStep, SideStep]
    passed: Passed

    @property
    def up_to(self) -> Sequence[int]:
        return [side.up_to for side in self.sides]

    @property
    def rows(self) -> int:
        return sum(files.rows for side in self.sides for files in (side.new, side.near, side.far))

    def derive(self, records: RecordPlan, arrived: datetime, parts: int) -> Evaluated | None:
        if not any(files.slices for side in self.sides for files in (side.new, side.near)):
            return None
        return join_events(self.spark, records, self.plan, self.sides, self.passed, parts, arrived)


class JoinDerivation:
    """A ``Derivation`` by a join. Raises as ``plan_join``."""

    def __init__(self, spark: SparkSession, project: Project, source: Source, inputs: Sequence[Input]) -> None:
        assert source.join, "it is joined"
        self._spark, self.inputs = spark, inputs
        self._plan = plan_join(project, source, inputs)
        self.wait = source.join.longest_wait

    def plan(self, read: Sequence[Sequence[ProgressRow]], after: Sequence[int], passed: Passed) -> JoinStep:
        sides = plan_step(self._plan, self.inputs, read, after, passed)
        return JoinStep(self._spark, self._plan, sides, passed)

    def reach_of_gap(self, place: int) -> tuple[timedelta, timedelta]:
        return reach_of_gap(self._plan, self.inputs[place].source.name)


def reach_of_gap(plan: JoinPlan, source: str) -> tuple[timedelta, timedelta]:
    """How much earlier, and later, than events that are lost of the input ``source`` pairs or partners may lack.

    A pair has the event time of the later partner, or that of the side that it is timed by. A lost event may also have
    been the partner of another one that is joined without it.
    """
    distances, nothing = (plan.before, plan.after), timedelta(0)
    lost = [place for place, side in enumerate(plan.sides) if side.source == source]
    earlier = [distances[of] if plan.outer[1 - of] or plan.timed_by[1 - of] else nothing for of in lost]
    later = [nothing if plan.timed_by[of] and not plan.outer[1 - of] else distances[1 - of] for of in lost]
    return max(earlier), max(later)
