"""Read the archived events of a job's hours, up to its cutoff."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (as everywhere in Spark code)

from batch_layer.deduplication import mark_first
from batch_layer.folding.batches import are_small
from batch_layer.folding.plan import plan_fold, plan_read
from batch_layer.folding.run import ArchiveFold, DriverFold, FrameFold, RunnableFold
from batch_layer.folding.shares import ROWS_OF_TASK, is_brief
from batch_layer.job import Job
from hourline_core.compute.aggregation import AggregationPlan, plan_aggregation, plan_native_aggregation
from hourline_core.compute.archive import as_declared, from_archive, read_version
from hourline_core.compute.lookup_columns import with_lookups
from hourline_core.compute.projection import Projection
from hourline_core.compute.resolve import apply_where, empty_events, with_derived
from hourline_core.ledger.coverage_rows import NO_CUTOFF, CoveredHour
from hourline_core.ledger.decodings import ArchiveDecodings, refuse_other_derivation
from hourline_core.ledger.layout import FROM_HOUR, FROM_SEQUENCE, Layout
from hourline_core.model import Source
from hourline_core.model.expressions import attempt
from hourline_core.model.hours import sql_timestamp
from hourline_core.model.scratch_columns import COUNTS, DECODING, DUPLICATE, HOUR, IS_FIRST, PLACE, SEQUENCE
from hourline_core.model.windows import HOURLY
from hourline_core.storage.opening import exists, open_table


@dataclass(frozen=True)
class SourceEvents:
    """The archived events of one source that a job recomputes."""

    job: Job
    source: Source
    cutoff: int
    """The sequence up to which they are read."""
    archived: DataFrame | None
    """All of them, for the source's expectations. COUNTS says which of them count. None: it has none; or by progress
    there are no events, so Spark is not asked.
    """
    fold: RunnableFold | None = None
    """How tasks fold them. None: there are none."""


@contextmanager
def read_events(job: Job, source: Source, fold: RunnableFold | None) -> Iterator[SourceEvents]:
    """The events of a job's hours of ``source``, up to the sequence that the job's snapshot has finished. ``fold`` is
    as ``plan_source`` gives it.

    Within the block, those that expectations need are persisted.
    """
    cutoff = job.snapshot.progress[source.name].sequence
    if not fold or not source.expectations:
        yield SourceEvents(job, source, cutoff, None, fold)
        return
    archived = ArchivedEvents(job, source, job.hours_of_source(source), cutoff).mark_counted().persist()
    try:
        yield SourceEvents(job, source, cutoff, archived, fold)
    finally:
        archived.unpersist()


def plan_source(job: Job, source: Source) -> RunnableFold | None:
    """How the events of a job's hours of ``source`` are folded. None: there are none. Starts Spark if that, or the
    source's expectations, need it. Raises UnresolvedError, and SourceError for another join than that of the events.
    """
    if not job.has_events(source):
        return None
    if source.expectations:
        job.spark()
    cutoff = job.snapshot.progress[source.name].sequence
    hours, layout = job.hours_of_source(source), Layout.of(job.project)
    projection = Projection(_plan_aggregations(job, source))
    plan = plan_fold(source, projection)
    version = job.snapshot.other_tables[f"events/{source.name}"]
    archive = open_table(layout.events(source), layout.storage_options, version)
    refuse_other_derivation(archive, source)
    read = plan_read(plan, projection, archive, layout.storage_options, hours, cutoff, job.pin_lookups(source))
    if read is not None:
        # The log takes a full hour among empty ones for a few rows, and progress does not count repeated ids.
        brief = job.count_events(source, hours) <= ROWS_OF_TASK and is_brief(archive, hours)
        return DriverFold(plan, read, archive) if brief else ArchiveFold(plan, read, archive, job.spark())
    events = ArchivedEvents(job, source, hours, cutoff)
    return FrameFold.of(
        source, projection, events.with_fields(), job.count_events(source, hours), small=events.are_small
    )


def _plan_aggregations(job: Job, source: Source) -> list[AggregationPlan]:
    metrics = job.metrics_of(source)
    native = [plan for metric in metrics if (plan := plan_native_aggregation(source, metric))]
    if len(native) == len(metrics):
        return native
    return [plan_aggregation(job.spark(), source, metric) for metric in metrics]


class ArchivedEvents:
    """The events of ``hours`` of one source up to the sequence ``cutoff``, in the version of the archive that the
    job's snapshot names. ``source`` says how they are identified and which ones count. Starts Spark unless it runs.

    Records that another declaration has decoded are taken as today's decodes them, which ``decode_anew`` has done up to
    the cutoff. If ``served`` is given, what was published of each hour, events are taken as they were served: up to the
    cutoff of their hour as it was published, and after it as they were archived.
    """

    def __init__(
        self,
        job: Job,
        source: Source,
        hours: list[datetime],
        cutoff: int,
        *,
        served: Mapping[datetime, CoveredHour] | None = None,
        look_up: Callable[[DataFrame], DataFrame] | None = None,
    ) -> None:
        """``look_up`` adds the structs of the source's lookups. None: at the versions that the job uses."""
        self._source, self._layout, self._spark = source, Layout.of(job.project), job.spark()
        self._chosen = _among("hour", hours) & (F.col("sequence") <= cutoff)
        table = open_table(
            self._layout.events(source),
            self._layout.storage_options,
            job.snapshot.other_tables[f"events/{source.name}"],
        )
        self.are_small = are_small(table)
        """Whether Spark may pass them on in batches that only their number bounds."""
        self._archived = read_version(self._spark, table).where(self._chosen)
        self._decodings = ArchiveDecodings.of(table, source)
        if not self._decodings.others:
            events = from_archive(self._archived, source)
        elif served is None:
            events = self._declared(self._decoded_as(self._decodings.now.hash, F.lit(cutoff)))
        else:
            events = self._declared(self._as_served(served))
        looked_up = look_up(events) if look_up else with_lookups(events, source, job.pin_lookups(source))
        self._events = with_derived(looked_up, source)

    def _declared(self, parts: list[DataFrame]) -> DataFrame:
        """The events of tables whose columns differ, with the fields as they are declared."""
        columns = empty_events(self._spark, self._source)
        return reduce(DataFrame.unionByName, (as_declared(from_archive(part, self._source), columns) for part in parts))

    def _decoded_as(self, decoding: str, last: Column) -> list[DataFrame]:
        """The events up to the sequence ``last`` as the decoding makes them: those of the archive that stand, and those
        that were decoded anew.
        """
        lost = [one.hash for one in self._decodings.used if not one.raw]
        stand = [decoding, *lost]
        # By their sequences, Delta leaves out the files that other decodings have made.
        sequence, unbounded = F.col("sequence"), F.lit(True)
        spans = [
            (sequence >= first) & (unbounded if end is None else sequence <= end)
            for first, end in self._decodings.sequences_of(stand)
        ]
        made = F.coalesce(F.col(DECODING), F.lit(""))
        standing = self._archived.where(reduce(or_, spans, F.lit(False)) & made.isin(stand) & (sequence <= last))
        uri, options = self._layout.decoded(self._source, decoding), self._layout.storage_options
        if not exists(uri, options):
            return [standing]
        table = read_version(self._spark, open_table(uri, options))
        anew = table.where(self._chosen & (sequence <= last))
        if lost and FROM_SEQUENCE in table.columns:
            standing = _without_replaced(standing, table, last)
            # Among the events of an id, one stays where it was.
            anew = anew.withColumn("sequence", F.coalesce(FROM_SEQUENCE, "sequence"))
        return [standing, anew]

    def _as_served(self, served: Mapping[datetime, CoveredHour]) -> list[DataFrame]:
        by_decoding: dict[str, dict[datetime, int]] = {}
        for hour, covered in served.items():
            if covered.decoding is not None:
                by_decoding.setdefault(covered.decoding, {})[hour] = covered.cutoff
        every = {hour: cutoff for cutoffs in by_decoding.values() for hour, cutoff in cutoffs.items()}
        parts = [self._archived.where(F.col("sequence") > cutoff_of("hour", every))]
        for decoding, cutoffs in by_decoding.items():
            parts += self._decoded_as(decoding, cutoff_of("hour", cutoffs))
        return parts

    def with_fields(self) -> DataFrame:
        """All events, with the derived fields."""
        return self._events

    def mark_counted(self) -> DataFrame:
        """All events, with COUNTS."""
        return mark_counted(self._events, self._source)

    def keep_counted_before(self, cutoffs: Mapping[datetime, int]) -> DataFrame:
        """The events that had counted before: up to the earlier cutoff of its hour, the first of each id; after it,
        all that were not recognised as duplicates.
        """
        is_before = F.col(SEQUENCE) <= cutoff_of(HOUR, cutoffs)
        # An event that is taken back after the cutoff had counted.
        events = mark_first(self._events, self._source, apart=is_before)
        return apply_where(
            events.where(F.when(is_before, F.col(IS_FIRST)).otherwise(~F.col(DUPLICATE))).drop(IS_FIRST), self._source
        )


def mark_counted(events: DataFrame, source: Source) -> DataFrame:
    """The events, which have the derived fields, with COUNTS: the first event of an id in an hour counts if it fulfils
    the source's ``where``. Each event without an id counts.
    """
    condition = F.expr(attempt(source.where or "true"))
    counts = F.coalesce(F.col(IS_FIRST) & condition, F.lit(False))
    return mark_first(events, source).withColumn(COUNTS, counts).drop(IS_FIRST)


def _without_replaced(standing: DataFrame, decoded: DataFrame, last: Column) -> DataFrame:
    """The archived events ``standing`` without those that were decoded anew up to the sequence ``last``, since a reset
    has brought the bytes of their records.
    """
    brought = f"{FROM_SEQUENCE}_brought"
    replaced = decoded.where(F.col(FROM_SEQUENCE).isNotNull() & F.col(FROM_HOUR).isNotNull()).select(
        *(F.col(name).alias(f"{FROM_SEQUENCE}_{name}") for name in ("topic_id", "partition", "offset")),
        F.col(PLACE).alias(f"{FROM_SEQUENCE}_place"),
        F.col("sequence").alias(brought),
    )
    same = [F.col(name) == F.col(f"{FROM_SEQUENCE}_{name}") for name in ("topic_id", "partition", "offset")]
    same.append(F.coalesce(F.col(PLACE), F.lit(0)) == F.col(f"{FROM_SEQUENCE}_place"))
    return standing.join(replaced, [*same, F.col(brought) <= last], "left_anti")


def cutoff_of(hour: str, cutoffs: Mapping[datetime, int]) -> Column:
    """The cutoff of the hour in the column ``hour``; NO_CUTOFF if it has none."""
    hours: dict[int, list[datetime]] = {}
    for known, cutoff in cutoffs.items():
        hours.setdefault(cutoff, []).append(known)
    return F.coalesce(*(F.when(_is_in(hour, known), cutoff) for cutoff, known in hours.items()), F.lit(NO_CUTOFF))


def _among(hour: str, hours: list[datetime]) -> Column:
    """Whether the column ``hour`` is one of ``hours``, which are sorted.

    The bounds let Delta skip files by their statistics. A long IN list alone would not, and it costs more for each
    event than all other conditions.
    """
    between = F.expr(f"`{hour}` BETWEEN {_literal(hours[0])} AND {_literal(hours[-1])}")
    without_gaps = len(hours) == (hours[-1] - hours[0]) // HOURLY.size + 1
    return between if without_gaps else between & _is_in(hour, hours)


def _is_in(hour: str, hours: Iterable[datetime]) -> Column:
    # One text for Spark's parser. A literal for each hour would take calls of Java for each.
    return F.expr(f"`{hour}` IN ({', '.join(map(_literal, hours))})")


def _literal(moment: datetime) -> str:
    return f"TIMESTAMP '{sql_timestamp(moment)}'"
