"""Read the archived events of a job's hours, up to its cutoff."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (as everywhere in Spark code)

from batch_layer.deduplication import mark_first
from batch_layer.plan import Job
from hourline_core.compute.archive import as_declared, from_archive, read_version
from hourline_core.compute.resolve import apply_where, empty_events, with_derived
from hourline_core.ledger.coverage_rows import NO_CUTOFF
from hourline_core.ledger.decodings import ArchiveDecodings
from hourline_core.ledger.layout import Layout
from hourline_core.model import Source
from hourline_core.model.hours import sql_timestamp
from hourline_core.model.scratch_columns import COUNTS, DECODING, DUPLICATE, HOUR, IS_FIRST, SEQUENCE
from hourline_core.model.windows import HOURLY
from hourline_core.storage.opening import open_table

_SORTED_AGAIN = 3
"""Up to this number of metrics, it is faster to read the events again and sort them than to hold all their columns
in memory.
"""


@dataclass(frozen=True)
class SourceEvents:
    """The archived events of one source that a job recomputes."""

    job: Job
    source: Source
    cutoff: int
    """The sequence up to which they are read."""
    archived: DataFrame | None
    """All of them. COUNTS says which of them count. None: by progress there are none, so Spark is not asked."""


@contextmanager
def read_events(job: Job, source: Source) -> Iterator[SourceEvents]:
    """The events of a job's hours of ``source``, up to the sequence that the job's snapshot has finished.

    Within the block they are persisted if more than one pass over them needs all columns.
    """
    cutoff = job.snapshot.progress[source.name].sequence
    if not job.has_events(source):
        yield SourceEvents(job, source, cutoff, None)
        return
    archived = ArchivedEvents(job, source, job.hours_of_source(source), cutoff).mark_counted()
    if source.expectations or (source.id and len(job.metrics_of(source)) > _SORTED_AGAIN):
        archived = archived.persist()
    try:
        yield SourceEvents(job, source, cutoff, archived)
    finally:
        archived.unpersist()


class ArchivedEvents:
    """The events of ``hours`` of one source up to the sequence ``cutoff``, in the version of the archive that the
    job's snapshot names. ``source`` says how they are identified and which ones count. Starts Spark unless it runs.

    Records that another declaration has decoded are taken as today's decodes them, which ``decode_anew`` has done up to
    the cutoff; with ``as_archived``, as they were archived.
    """

    def __init__(
        self, job: Job, source: Source, hours: list[datetime], cutoff: int, *, as_archived: bool = False
    ) -> None:
        self._source = source
        chosen = _among(F.col("hour"), hours) & (F.col("sequence") <= cutoff)
        layout, spark = Layout.of(job.project), job.spark()
        table = open_table(
            layout.events(source), layout.storage_options, job.snapshot.other_tables[f"events/{source.name}"]
        )
        archived = read_version(spark, table).where(chosen)
        decodings = ArchiveDecodings.of(table, source)
        if as_archived or not decodings.others:
            self._events = with_derived(from_archive(archived, source), source)
            return
        standing = F.coalesce(F.col(DECODING), F.lit("")).isin(decodings.standing)
        anew = open_table(layout.decoded(source, decodings.now.hash), layout.storage_options)
        columns = empty_events(spark, source)
        parts = [archived.where(standing), read_version(spark, anew).where(chosen)]
        of_now, others = (from_archive(part, source) for part in parts)
        events = as_declared(of_now, columns).unionByName(as_declared(others, columns))
        self._events = with_derived(events, source)

    def mark_counted(self) -> DataFrame:
        """All events, with COUNTS: the first event of an id in an hour counts if it fulfils the source's ``where``.
        Each event without an id counts.
        """
        events = mark_first(self._events, self._source)
        condition = F.expr(self._source.where or "true")
        return events.withColumn(COUNTS, F.coalesce(F.col(IS_FIRST) & condition, F.lit(False))).drop(IS_FIRST)

    def keep_counted_before(self, cutoffs: Mapping[datetime, int]) -> DataFrame:
        """The events that had counted before: up to the earlier cutoff of its hour, the first of each id; after it,
        all that were not recognised as duplicates.
        """
        covered = [F.when(F.col(HOUR) == _timestamps([hour])[0], cutoff) for hour, cutoff in cutoffs.items()]
        before = F.coalesce(*covered, F.lit(NO_CUTOFF))
        events = mark_first(self._events, self._source)
        return apply_where(
            events.where(F.when(F.col(SEQUENCE) <= before, F.col(IS_FIRST)).otherwise(~F.col(DUPLICATE))).drop(
                IS_FIRST
            ),
            self._source,
        )


def keep_counted(marked: DataFrame) -> DataFrame:
    """Keep the events that count, of those that ``ArchivedEvents.mark_counted`` gives."""
    return marked.where(COUNTS).drop(COUNTS)


def keep_hours(events: DataFrame, hours: list[datetime]) -> DataFrame:
    """Keep the events of ``hours`` (UTC)."""
    return events.where(_among(F.col(HOUR), hours))


def _among(column: Column, hours: list[datetime]) -> Column:
    """Whether ``column`` is one of ``hours``, which are sorted.

    The bounds let Delta skip files by their statistics. A long IN list alone would not, and it costs more for each
    event than all other conditions.
    """
    chosen = _timestamps(hours)
    between = column.between(chosen[0], chosen[-1])
    without_gaps = len(hours) == (hours[-1] - hours[0]) // HOURLY.size + 1
    return between if without_gaps else between & column.isin(*chosen)


def _timestamps(moments: list[datetime]) -> list[Column]:
    return [F.lit(sql_timestamp(moment)).cast("timestamp") for moment in moments]
