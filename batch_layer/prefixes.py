"""Recomputes the events of a test up to each of its records, all of them at once.

A recompute of each prefix alone would be a Spark job each. Here, an event has a copy for each prefix that it is in. The
number of the prefix is one more dimension of each metric, and one more part of each id. All else is what a recompute
does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as everywhere in Spark code)

from batch_layer.read_archive import mark_counted
from batch_layer.tiles_and_totals import compute_tiles_and_totals
from hourline_core.compute.aggregation import AggregationPlan, plan_aggregation
from hourline_core.compute.archive import from_archive, read_version
from hourline_core.compute.resolve import with_derived
from hourline_core.model import Metric, Source
from hourline_core.model.expressions import attempt
from hourline_core.model.scratch_columns import SCRATCH_PREFIX, SEQUENCE, TOPIC_ID

_PREFIX = f"{SCRATCH_PREFIX}prefix"
"""int: the number of the prefix that a copy of an event is in."""


@dataclass(frozen=True)
class Prefix:
    """The events of a topic up to a sequence."""

    topic_id: str
    last: int


def compute_prefixes(
    spark: SparkSession, source: Source, metrics: Sequence[Metric], archive: DeltaTable, prefixes: Sequence[Prefix]
) -> Mapping[str, Sequence[pa.Table]]:
    """By metric, the tiles of each of ``prefixes``, as a recompute of all hours gives them. ``archive`` is the events
    table of ``source``. Raises UnresolvedError, and PySparkException when Spark fails.
    """
    archived = with_derived(from_archive(read_version(spark, archive), source), source)
    events = mark_counted(archived.withColumn(_PREFIX, F.explode(_prefixes_of(prefixes))), _with_prefix_in_id(source))
    tiles = {}
    for metric in metrics:
        plan = plan_aggregation(spark, source, metric)
        of_all, _ = compute_tiles_and_totals(_with_prefix(plan), events)
        tiles[metric.name] = [_of_prefix(plan, of_all, number) for number in range(len(prefixes))]
    return tiles


def _prefixes_of(prefixes: Sequence[Prefix]) -> Column:
    """The numbers of the prefixes that an event is in."""
    of_topics: dict[str, list[Column]] = {}
    for number, prefix in enumerate(prefixes):
        of_topics.setdefault(prefix.topic_id, []).append(F.when(F.col(SEQUENCE) <= prefix.last, number))
    numbers = F.lit(None).cast("array<int>")
    for topic_id, within in of_topics.items():
        numbers = F.when(F.col(TOPIC_ID) == topic_id, F.array_compact(F.array(*within))).otherwise(numbers)
    return numbers


def _with_prefix_in_id(source: Source) -> Source:
    if source.id is None:
        return source
    identity = attempt(source.id)
    return source.model_copy(update={"id": f"if({identity} IS NULL, NULL, struct({_PREFIX}, {identity}))"})


def _with_prefix(plan: AggregationPlan) -> AggregationPlan:
    metric = plan.metric.model_copy(update={"dimensions": {_PREFIX: _PREFIX, **plan.metric.dimensions}})
    return replace(plan, metric=metric, schema=plan.schema.append(pa.field(_PREFIX, pa.int32())))


def _of_prefix(plan: AggregationPlan, tiles: pa.Table, number: int) -> pa.Table:
    return tiles.filter(pc.equal(tiles[_PREFIX], number)).select(plan.schema.names)
