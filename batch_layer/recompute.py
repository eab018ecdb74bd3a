"""Recompute hours from the archived events: take a cut, aggregate, stage, publish; all metrics of a chunk of hours at once."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 (as everywhere in Spark code)

from batch_layer.plan import Wanted, done_meanwhile
from batch_layer.publish import Publication, Staged
from hourline.check import refuse_unresolved
from hourline.declarations import Project, Source
from hourline.errors import HourlineError
from hourline.hours import HOUR, Clock, wall_clock
from hourline.layout import Layout, sql_timestamp
from hourline.lease import turn
from hourline.snapshot import SPEED_WRITER
from hourline.tables import open_table
from hourline.tiling import Tiling, counted, explain, resolve, with_derived
from infra.spark import spark_session


@dataclass(frozen=True)
class Recomputed:
    """What one job has published."""

    hours: list[datetime]
    metrics: list[str]
    events: int
    """Events that were counted, duplicates left out."""
    cuts: dict[str, int]
    """By source, the sequence up to which it counted."""


def recompute(
    project: Project,
    wanted: list[Wanted],
    clock: Clock = wall_clock,
    *,
    on_waiting: Callable[[int], None] = lambda process: None,
    on_left_out: Callable[[list[Wanted]], None] = lambda left_out: None,
    on_published: Callable[[Recomputed], None] = lambda done: None,
) -> list[Recomputed]:
    """Recompute and publish ``wanted``, as many hours in one job as the settings say.

    The lease is given up between two jobs, to whoever has been waiting for it longest; ``on_waiting`` is told whom this one waits for. What
    somebody else has published meanwhile is left out, and ``on_left_out`` is told. Running it again changes no answer. ``clock`` dates the
    publication (UTC). Raises DeclarationError, ConflictError (another process, on another workspace, has published to the same tables
    meanwhile), TableError; what was published before stays published.
    """
    spark: SparkSession | None = None
    done = []
    try:
        for planned in _jobs(wanted, project.settings.batch.hours_per_job):
            with turn(project.workspace, "batch", on_waiting):
                left_out = done_meanwhile(project, planned, clock)
                if left_out:
                    on_left_out(left_out)
                job = [item for item in planned if item not in left_out]
                if not job:
                    continue
                if spark is None:  # not while waiting: there may be nothing left to do for it
                    spark = spark_session(project, "batch")
                    refuse_unresolved(spark, project)
                done.append(_run(spark, project, job, clock))
            on_published(done[-1])
        return done
    except PySparkException as error:
        raise HourlineError(f"Spark could not recompute: {explain(error)}") from error
    finally:
        if spark is not None:
            spark.stop()


def _jobs(wanted: list[Wanted], most: int) -> Iterator[list[Wanted]]:
    hours = sorted({item.hour for item in wanted})
    for first in range(0, len(hours), most):
        chosen = set(hours[first : first + most])
        yield [item for item in wanted if item.hour in chosen]


def _run(spark: SparkSession, project: Project, job: list[Wanted], clock: Clock) -> Recomputed:
    metrics = sorted({item.metric for item in job})
    tilings = [resolve(spark, project.sources[project.metrics[name].source], project.metrics[name]) for name in metrics]
    publication = Publication(project, tilings)
    staged: list[Staged] = []
    cuts: dict[str, int] = {}
    counted_events = 0
    for name in sorted({item.source for item in job}):
        source = project.sources[name]
        hours = sorted({item.hour for item in job if item.source == name})
        cuts[name], events = _events(spark, project, source, hours)
        events = events.persist()
        try:
            counted_events += events.count()
            for tiling in tilings:
                if tiling.source is source:
                    own = sorted(item.hour for item in job if item.metric == tiling.metric.name)
                    staged.append(publication.stage(tiling, _tiles(tiling, events, own), own, cuts[name]))
        finally:
            events.unpersist()
    publication.publish(staged, clock())
    return Recomputed(sorted({item.hour for item in job}), metrics, counted_events, cuts)


def _events(spark: SparkSession, project: Project, source: Source, hours: list[datetime]) -> tuple[int, DataFrame]:
    """The cut, and the events of ``hours`` that count up to it; derived fields included, of each id in an hour the first one."""
    layout = Layout.of(project)
    # Progress before events: all that the cut speaks of was archived before progress was committed.
    cut = open_table(layout.progress(source), layout.storage_options).transaction_version(SPEED_WRITER) or 0
    version = open_table(layout.events(source), layout.storage_options).version()
    events = spark.read.format("delta").option("versionAsOf", version).load(layout.events(source))
    first, last = _timestamps([hours[0], hours[-1] + HOUR])
    # The bounds let Delta skip files by their statistics; a long IN list alone would not.
    events = events.where((F.col("hour") >= first) & (F.col("hour") < last) & F.col("hour").isin(*_timestamps(hours)) & (F.col("sequence") <= cut))
    events = with_derived(events, source)
    return cut, counted(_first_of_each_id(events, source), source)


def _first_of_each_id(events: DataFrame, source: Source) -> DataFrame:
    if source.id is None:
        return events
    arrivals = Window.partitionBy("hour", F.expr(source.id)).orderBy("sequence", "partition", "offset")
    numbered = events.withColumn("_arrival", F.row_number().over(arrivals))
    # Events without an id cannot be told apart: each of them counts.
    return numbered.where((F.col("_arrival") == 1) | F.expr(source.id).isNull()).drop("_arrival")


def _tiles(tiling: Tiling, events: DataFrame, hours: list[datetime]) -> pa.Table:
    """The metric's tiles of ``hours``, sorted as they are to lie in final."""
    tiles: pa.Table = tiling.tiles(events.where(F.col("hour").isin(*_timestamps(hours)))).toArrow().cast(tiling.schema)
    sortable = [name for name in tiling.metric.dimensions if not pa.types.is_nested(tiling.schema.field(name).type)]
    return tiles.sort_by([(name, "ascending") for name in ["hour", *sortable]])


def _timestamps(moments: list[datetime]) -> list[Column]:
    return [F.lit(sql_timestamp(moment)).cast("timestamp") for moment in moments]
