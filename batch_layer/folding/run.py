"""Has archived events folded, in tasks or here, and merges what is told."""

import pickle
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Protocol, Self

import duckdb
import pyarrow as pa
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as everywhere in Spark code)

from batch_layer.folding.batches import bounded_by_rows, may_grow
from batch_layer.folding.failures import list_first
from batch_layer.folding.identities import FIRST, IDS, LATER, REPEATED
from batch_layer.folding.plan import FoldPlan, ReadPlan, looked_up_expressions, plan_fold
from batch_layer.folding.shares import divide_archive, number_of_tasks
from batch_layer.folding.tasks import (
    COUNTED,
    OF_METRIC,
    QUARANTINED,
    READ,
    FoldedShare,
    fold_shares,
    work_on_events,
    work_on_shares,
)
from batch_layer.folding.totals import add_up_states
from batch_layer.hour_totals import HourTotals, IdCounts, LookedUpCounts, magnitudes
from hourline_core.compute.fold_tiles import Fold, connect_for_folds
from hourline_core.compute.nullable import with_nullable_parts
from hourline_core.compute.projection import Projection
from hourline_core.compute.resolve import with_derived
from hourline_core.compute.tasks import run_tasks
from hourline_core.errors import TableError
from hourline_core.model import Source
from hourline_core.model.expressions import attempt
from hourline_core.model.scratch_columns import HOUR, ID, OFFSET, PARTITION, PLACE
from hourline_core.runtime.freed_memory import give_back_memory
from hourline_core.storage.data_files import damage_of

Result = dict[str, tuple[pa.Table, HourTotals]]
"""By metric, its tiles (not sorted) and its totals by hour."""


class RunnableFold(Protocol):
    """A fold of the archived events of a source."""

    @property
    def plan(self) -> FoldPlan:
        """What is folded."""

    def run(self) -> Result:
        """The tiles and totals. Raises TableError if a file cannot be read, and PySparkException when Spark fails."""


@dataclass(frozen=True)
class DriverFold:
    """This process reads the few events of ``archive`` at the version that it is open at. Spark starts in seconds, and
    its tasks would do the same.
    """

    plan: FoldPlan
    read: ReadPlan
    archive: DeltaTable

    def run(self) -> Result:
        """See RunnableFold."""
        shares = divide_archive(self.archive, self.read.hours, 1, by_id=self.plan.source.id is not None)
        with _telling_damage(self.archive):
            return merge_shares(self.plan, [fold_shares(self.plan, self.read, shares)])


@dataclass(frozen=True)
class ArchiveFold:
    """Tasks read the events of ``archive`` at the version that it is open at."""

    plan: FoldPlan
    read: ReadPlan
    archive: DeltaTable
    spark: SparkSession

    def run(self) -> Result:
        """See RunnableFold."""
        tasks, by_id = self.spark.sparkContext.defaultParallelism, self.plan.source.id is not None
        shares = divide_archive(self.archive, self.read.hours, tasks, by_id=by_id)
        numbers = self.spark.range(0, len(shares), 1, len(shares))
        with _telling_damage(self.archive):
            told = run_tasks(numbers, partial(work_on_shares, pickle.dumps((self.plan, self.read)), shares))
        return _merge(self.plan, told)


@contextmanager
def _telling_damage(archive: DeltaTable) -> Iterator[None]:
    """Raise TableError instead of what a damaged file makes a reader raise."""
    try:
        yield
    except (duckdb.OutOfMemoryException, duckdb.InterruptException, duckdb.BinderException):
        raise
    except (OSError, pa.ArrowInvalid, duckdb.Error) as error:
        if damage := damage_of(archive):
            raise TableError(damage) from error
        raise


@dataclass(frozen=True)
class FrameFold:
    """Spark reads ``events``, evaluates the columns of ``plan``, and hands them to the tasks."""

    plan: FoldPlan
    events: DataFrame
    rows: int
    """About the number of events."""
    small: bool = False
    """Whether they are ``are_small``, and what is computed of them is, too."""

    @classmethod
    def of(cls, source: Source, projection: Projection, events: DataFrame, rows: int, *, small: bool = False) -> Self:
        """The fold of ``events``, which are archived ones of ``source``, with its fields and their addresses."""
        plan = plan_fold(source, projection)
        if source.id:
            identity = F.expr(attempt(source.id)).alias(ID)
            events = with_nullable_parts(with_derived(events, source).select(*events.columns, identity), [ID])
        projected = projection.add_to(events)
        there = {name.casefold() for name in projected.columns}
        # A field that was declared after the last micro-batch is no column yet.
        missing = {name: F.lit(None).cast("string") for name in plan.required if name.casefold() not in there}
        if plan.lookups:
            flags = [F.expr(attempt(text)).alias(name) for name, text in looked_up_expressions(plan).items()]
            projected = with_derived(projected, source).select(*projected.columns, *flags)
        texts = [text for _, text in projection.expressions.values()]
        small = small and not may_grow([*texts, *source.derived.values(), source.id or ""])
        chosen = projected.withColumns(missing).select(*(F.col(f"`{name}`").alias(name) for name in plan.columns))
        return cls(plan, chosen, rows, small)

    def run(self) -> Result:
        """See RunnableFold."""
        by_id = self.plan.source.id is not None
        spark = self.events.sparkSession
        tasks = number_of_tasks(self.rows, spark.sparkContext.defaultParallelism, by_id=by_id)
        if by_id:
            # Events without an id may be in any task.
            alone = F.when(F.col(ID).isNull(), F.struct(PARTITION, OFFSET, PLACE))
            events = self.events.repartition(tasks, HOUR, ID, alone)
        else:
            events = self.events.coalesce(tasks)
        with bounded_by_rows(spark) if self.small else nullcontext():
            told = run_tasks(events, partial(work_on_events, pickle.dumps((self.plan, None))))
        return _merge(self.plan, told)


def _merge(plan: FoldPlan, told: list[bytes]) -> Result:
    shares = []
    while told:  # What is read is freed: both would be held until the end of the merge.
        shares.append(pickle.loads(told.pop()))  # noqa: S301 (from tasks of this process)
    merged = merge_shares(plan, shares[::-1])
    give_back_memory()
    return merged


def merge_shares(plan: FoldPlan, shares: Sequence[FoldedShare]) -> Result:
    """The tiles and totals of all that tasks have told. The shares give up their tiles."""
    read = _add_up([table for share in shares for table in share.read])
    ids = _count_ids(shares) if plan.source.id and not plan.source.takes_back else None
    merged = {}
    for name, metric in plan.metrics.items():
        told = [share.metrics[name] for share in shares if name in share.metrics]
        counts = _add_up([table for one in told for table in one.counts])
        rows = add_up_states(metric.totals, [table for one in told for table in one.totals])
        totals = HourTotals(
            rows,
            of_metric=counts.get(OF_METRIC, {}),
            counted=counts.get(COUNTED, {}),
            quarantined=counts.get(QUARANTINED, {}),
            read=read.get(READ, {}),
            without={field: read.get(field, {}) for field in plan.required},
            sizes=magnitudes(
                metric.tiles.aggregation, rows, _add_up([table for one in told for table in one.absolute])
            ),
            ids=ids,
            failures=list_first(table for one in told for table in one.failures),
            looked_up={
                lookup: LookedUpCounts(read.get(columns.null_key, {}), read.get(columns.no_row, {}))
                for lookup, columns in plan.lookups.items()
            },
        )
        tiles = [metric.tiles.aggregation.schema.empty_table(), *(table for one in told for table in one.tiles)]
        for one in told:
            one.tiles = []
        merged[name] = (Fold(connect_for_folds([metric.tiles.aggregation.metric]), metric.tiles).merge(tiles), totals)
    return merged


def _count_ids(shares: Sequence[FoldedShare]) -> IdCounts:
    kept = _add_up([table for share in shares for table in share.kept])
    left_out = _add_up([table for share in shares for table in share.left_out])
    return IdCounts(
        *(kept.get(name, {}) for name in (FIRST, IDS)), *(left_out.get(name, {}) for name in (REPEATED, LATER))
    )


def _add_up(tables: Sequence[pa.Table]) -> dict[str, dict[datetime, Any]]:
    """By column, the sums by hour."""
    if not tables:
        return {}
    names = [name for name in tables[0].column_names if name != HOUR]
    sums = pa.concat_tables(tables).group_by(HOUR).aggregate([(name, "sum") for name in names])
    hours = sums[HOUR].to_pylist()
    return {name: dict(zip(hours, sums[f"{name}_sum"].to_pylist(), strict=True)) for name in names}
