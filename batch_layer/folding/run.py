"""Runs the tasks that fold archived events, and merges what they tell."""

import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from batch_layer.folding.plan import FoldPlan
from batch_layer.folding.shares import divide_archive
from batch_layer.folding.tasks import COUNTED, OF_METRIC, READ, FoldedShare, work
from batch_layer.folding.totals import add_up_states
from batch_layer.tiles_and_totals import HourTotals, magnitudes
from hourline_core.compute.fold_tiles import Fold, connect_for_folds
from hourline_core.compute.tasks import run_tasks
from hourline_core.errors import TableError
from hourline_core.model.scratch_columns import HOUR
from hourline_core.storage.data_files import damage_of


@dataclass(frozen=True)
class ArchiveFold:
    """The fold of ``archive`` at the version that it is open at."""

    plan: FoldPlan
    archive: DeltaTable

    def run(self, spark: SparkSession) -> dict[str, tuple[pa.Table, HourTotals]]:
        """By metric, its tiles (not sorted) and its totals by hour.

        Raises TableError if a file cannot be read, and PySparkException when Spark fails.
        """
        tasks, by_id = spark.sparkContext.defaultParallelism, self.plan.source.id is not None
        shares = divide_archive(self.archive, self.plan.hours, tasks, by_id=by_id)
        numbers = spark.range(0, len(shares), 1, len(shares))
        try:
            told = run_tasks(numbers, partial(work, pickle.dumps(self.plan), shares))
        except (OSError, pa.ArrowInvalid) as error:
            if damage := damage_of(self.archive):
                raise TableError(damage) from error
            raise
        return merge_shares(self.plan, [pickle.loads(one) for one in told])  # noqa: S301 (from tasks of this process)


def merge_shares(plan: FoldPlan, shares: Sequence[FoldedShare]) -> dict[str, tuple[pa.Table, HourTotals]]:
    """By metric, its tiles and totals of all that tasks have told."""
    read = _add_up([table for share in shares for table in share.read])
    merged = {}
    for name, metric in plan.metrics.items():
        told = [share.metrics[name] for share in shares if name in share.metrics]
        counts = _add_up([table for one in told for table in one.counts])
        rows = add_up_states(metric.totals, [table for one in told for table in one.totals])
        totals = HourTotals(
            rows,
            of_metric=counts.get(OF_METRIC, {}),
            counted=counts.get(COUNTED, {}),
            quarantined={},
            read=read.get(READ, {}),
            without={field: read.get(field, {}) for field in plan.required},
            sizes=magnitudes(
                metric.tiles.aggregation, rows, _add_up([table for one in told for table in one.absolute])
            ),
        )
        tiles = [metric.tiles.aggregation.schema.empty_table(), *(table for one in told for table in one.tiles)]
        merged[name] = (Fold(connect_for_folds([]), metric.tiles).merge(tiles), totals)
    return merged


def _add_up(tables: Sequence[pa.Table]) -> dict[str, dict[datetime, Any]]:
    """By column, the sums by hour."""
    if not tables:
        return {}
    names = [name for name in tables[0].column_names if name != HOUR]
    sums = pa.concat_tables(tables).group_by(HOUR).aggregate([(name, "sum") for name in names])
    hours = sums[HOUR].to_pylist()
    return {name: dict(zip(hours, sums[f"{name}_sum"].to_pylist(), strict=True)) for name in names}
