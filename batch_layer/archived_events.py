"""The archived events of some hours, as a recompute counts them, and the tiles that they give."""

from collections.abc import Mapping
from datetime import datetime

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 (as everywhere in Spark code)

from hourline_core.aggregates import aggregate_of
from hourline_core.compute.aggregation import AggregationPlan, counted, with_derived
from hourline_core.ledger.layout import Layout
from hourline_core.model import Project, Source
from hourline_core.model.hours import HOUR, sql_timestamp
from hourline_core.storage.tables import open_table


class ArchivedEvents:
    """The events of ``hours`` of one source up to the sequence ``cutoff``; ``source`` says how they are identified and
    which ones count.
    """

    def __init__(
        self, spark: SparkSession, project: Project, source: Source, hours: list[datetime], cutoff: int
    ) -> None:
        layout = Layout.of(project)
        version = open_table(layout.events(source), layout.storage_options).version()
        events = spark.read.format("delta").option("versionAsOf", version).load(layout.events(source))
        first, last = _timestamps([hours[0], hours[-1] + HOUR])
        # The bounds let Delta skip files by their statistics; a long IN list alone would not.
        within = (F.col("hour") >= first) & (F.col("hour") < last) & F.col("hour").isin(*_timestamps(hours))
        self._source = source
        self._events = with_derived(events.where(within & (F.col("sequence") <= cutoff)), source)

    def marked(self) -> DataFrame:
        """All of them, with ``_counts``: of the events of one id in one hour the first, if the source's condition lets
        it through.

        Events without an id cannot be told apart: each of them counts.
        """
        events = self._numbered() if self._source.id else self._events.withColumn("_first", F.lit(True))
        condition = F.expr(self._source.where or "true")
        return events.withColumn("_counts", F.coalesce(F.col("_first") & condition, F.lit(False))).drop("_first")

    def counted_before(self, cutoffs: Mapping[datetime, int]) -> DataFrame:
        """The events that had counted: up to the earlier cutoff of their hour the first of each id, after it those not
        recognised as duplicates.
        """
        covered = [F.when(F.col("hour") == _timestamps([hour])[0], cutoff) for hour, cutoff in cutoffs.items()]
        before = F.coalesce(*covered, F.lit(-1)) if covered else F.lit(-1)
        events = self._numbered() if self._source.id else self._events.withColumn("_first", F.lit(True))
        return counted(
            events.where(F.when(F.col("sequence") <= before, F.col("_first")).otherwise(~F.col("duplicate"))).drop(
                "_first"
            ),
            self._source,
        )

    def _numbered(self) -> DataFrame:
        identity = F.expr(self._source.id or "null")
        arrivals = Window.partitionBy("hour", identity).orderBy("sequence", "partition", "offset")
        return self._events.withColumn("_first", (F.row_number().over(arrivals) == 1) | identity.isNull())


def counting(marked: DataFrame) -> DataFrame:
    """The events that count, of those that ``marked`` gives."""
    return marked.where("_counts").drop("_counts")


def tiles_of(aggregation: AggregationPlan, events: DataFrame, hours: list[datetime]) -> pa.Table:
    """The metric's tiles of ``hours``, sorted as they are to lie in final."""
    tiles: pa.Table = (
        aggregation.tiles(events.where(F.col("hour").isin(*_timestamps(hours)))).toArrow().cast(aggregation.schema)
    )
    sortable = [
        name for name in aggregation.metric.dimensions if not pa.types.is_nested(aggregation.schema.field(name).type)
    ]
    return tiles.sort_by([(name, "ascending") for name in ["hour", *sortable]])


def magnitudes(aggregation: AggregationPlan, events: DataFrame) -> dict[tuple[datetime, str], float]:
    """By hour and measure, the size of what is added up, for measures that add up more than counts."""
    metric = aggregation.metric
    sizes = {
        name: F.expr(size).alias(name)
        for name, measure in metric.measures.items()
        if (size := aggregate_of(measure).magnitude)
    }
    if not sizes:
        return {}
    counting = events.where(metric.where) if metric.where else events
    rows = counting.groupBy("hour").agg(*sizes.values()).toArrow().to_pylist()
    return {(row["hour"], name): row[name] for row in rows for name in sizes if row[name] is not None}


def _timestamps(moments: list[datetime]) -> list[Column]:
    return [F.lit(sql_timestamp(moment)).cast("timestamp") for moment in moments]
