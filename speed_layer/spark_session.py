"""The Spark session of the speed layer, and its warm-up."""

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from hourline_core.compute.aggregation import plan_aggregation
from hourline_core.compute.check import refuse_unresolved
from hourline_core.compute.projection import Projection
from hourline_core.ledger.layout import EVENT_SCHEMA
from hourline_core.ledger.source_clock import SourceClock
from hourline_core.lookups.pinning import find_pinned, names_of
from hourline_core.model import Project, Source
from hourline_core.model.branches import branches_of
from hourline_core.model.hours import wall_clock
from hourline_core.runtime.spark import spark_session, stop_spark
from speed_layer.derived.rows import no_events
from speed_layer.intake.micro_batch_size import TaskBounds
from speed_layer.intake.part import Assignment, IntakePlan
from speed_layer.intake.record_plan import RecordPlan
from speed_layer.intake.tasks import Evaluated, Tasks
from speed_layer.warm_workers import warm_workers

_SHORTEST_DELAY, _DELAY_PER_SOURCE = 50, 12
"""Milliseconds for which a stream without new records waits before it asks Kafka again. Each question costs nearly a
millisecond of CPU time, with Kafka's part. So the streams of many sources ask 83 times a second, all of them together.
"""

# Micro-batches are small, so planning takes most of their time. Re-planning at run time costs more than it saves.
_STREAMING = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.sql.streaming.numRecentProgressUpdates": "1",
    "spark.sql.streaming.stopTimeout": "20s",
    # What Spark holds of the records on their way to a task, and the task's worker, too.
    "spark.sql.execution.arrow.maxBytesPerBatch": "64m",
}


@contextmanager
def speed_session(project: Project) -> Iterator[SparkSession]:
    """A Spark session for ``run``, for the length of the block. All declared expressions are checked first.

    Raises DeclarationError, SetupError, SparkError.
    """
    delay = max(_SHORTEST_DELAY, _DELAY_PER_SOURCE * len(project.sources))
    spark = spark_session(project, "speed", {**_STREAMING, "spark.sql.streaming.pollingDelay": f"{delay}ms"})
    try:
        refuse_unresolved(spark, project)
        with warm_workers(spark):
            yield spark
    finally:
        stop_spark(spark)


def warm_up(spark: SparkSession, project: Project) -> None:
    """Run everything that a micro-batch of ``project`` runs, so that Spark compiles it now and the first events do not
    wait for seconds.

    It touches no tables, checkpoints or Kafka, so another speed layer may run meanwhile. Draining topics and importing
    files do without it: there nobody waits for the first event.
    """
    for source in project.sources.values():
        _warm_up(spark, project, source)


def _warm_up(spark: SparkSession, project: Project, source: Source) -> None:
    """Run everything that a micro-batch runs on one record without a value, of which nothing is written."""
    pinned = find_pinned(project, names_of(source))
    if pinned is None:
        return  # Its first micro-batch reads the tables of the lookups, which may take long.
    columns = (
        "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int, "
        "headers array<struct<key: string, value: binary>>"
    )
    metrics = [plan_aggregation(spark, source, metric) for metric in project.metrics_of(source.name)]
    projection = Projection(metrics)
    branches = branches_of(project.sources.values(), source)
    plan = RecordPlan(source, branches, projection)
    places = ("", "", "")
    without_files = IntakePlan(
        source, projection.metrics, *places, {}, EVENT_SCHEMA, {}, "", plan.native, plan.native_lookups
    )
    assignment = Assignment(0, {"": ""}, SourceClock(), wall_clock(), lookups=pinned)
    evaluated: Evaluated
    if source.is_derived:
        evaluated = no_events(spark, plan)
    else:
        evaluated = plan.apply(spark.createDataFrame([(None, None, "", 0, 0, None, 0, None)], columns))
    Tasks(without_files, plan).run(evaluated, assignment, TaskBounds(1, small_rows=False))
