"""Recomputes the events of a test up to each of its records, all of them at once.

A recompute of each prefix alone would be a Spark job each. Here, an event has a copy for each prefix that it is in. The
number of the prefix is one more dimension of each metric, and one more part of each id. All else is what a recompute
does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as everywhere in Spark code)

from batch_layer.folding.run import FrameFold
from hourline_core.compute.aggregation import AggregationPlan, plan_aggregation
from hourline_core.compute.archive import from_archive, read_version
from hourline_core.compute.lookup_columns import NO_LOOKUPS, Pinned, with_lookups
from hourline_core.compute.panes import tile_keys
from hourline_core.compute.projection import Projection
from hourline_core.model import Metric, Source
from hourline_core.model.expressions import attempt
from hourline_core.model.scratch_columns import SCRATCH_PREFIX, SEQUENCE, TOPIC_ID

_PREFIX = f"{SCRATCH_PREFIX}prefix"
"""bigint: the number of the prefix that a copy of an event is in."""


def compute_prefixes(
    spark: SparkSession,
    source: Source,
    metrics: Sequence[Metric],
    archive: DeltaTable,
    topics: Mapping[str, int],
    pinned: Pinned = NO_LOOKUPS,
) -> Mapping[str, Mapping[str, Sequence[pa.Table]]]:
    """By metric and topic id, the tiles of the events up to each sequence, from 1 on, as a recompute of all hours gives
    them. ``archive`` is the events table of ``source``. ``topics``: the last sequence of each topic id. ``pinned`` are
    the lookups of the source.

    Raises UnresolvedError, and PySparkException when Spark fails.
    """
    firsts = dict(zip(topics, accumulate(topics.values(), initial=0), strict=False))
    numbers = F.lit(None).cast("array<bigint>")
    for topic_id, first in firsts.items():
        within = F.sequence(F.col(SEQUENCE) + F.lit(first - 1), F.lit(first + topics[topic_id] - 1).cast("bigint"))
        numbers = F.when(F.col(TOPIC_ID) == topic_id, within).otherwise(numbers)
    events = with_lookups(from_archive(read_version(spark, archive), source), source, pinned)
    events = events.withColumn(_PREFIX, F.explode(numbers))
    plans = {metric.name: plan_aggregation(spark, source, metric) for metric in metrics}
    copies = sum(last * last for last in topics.values())
    projection = Projection(map(_with_prefix, plans.values()))
    folded = FrameFold.of(_with_prefix_in_id(source), projection, events, copies).run()
    tiles = {}
    for name, plan in plans.items():
        of_all, _ = folded[name]
        tiles[name] = {
            topic_id: [_of_prefix(plan, of_all, first + number) for number in range(topics[topic_id])]
            for topic_id, first in firsts.items()
        }
    return tiles


def _with_prefix_in_id(source: Source) -> Source:
    if source.id is None:
        return source
    identity = attempt(source.id)
    return source.model_copy(update={"id": f"if({identity} IS NULL, NULL, struct({_PREFIX}, {identity}))"})


def _with_prefix(plan: AggregationPlan) -> AggregationPlan:
    metric = plan.metric.model_copy(update={"dimensions": {_PREFIX: _PREFIX, **plan.metric.dimensions}})
    place = 1 + list(tile_keys(metric)).index(_PREFIX)
    return replace(plan, metric=metric, schema=plan.schema.insert(place, pa.field(_PREFIX, pa.int64())))


def _of_prefix(plan: AggregationPlan, tiles: pa.Table, number: int) -> pa.Table:
    return tiles.filter(pc.equal(tiles[_PREFIX], number)).select(plan.schema.names)
