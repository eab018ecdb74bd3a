"""Recognises duplicates in the stream, so that they do not count in provisional results either.

The layer holds 64-bit hashes of (id, hour), by hour: 8 bytes an event within the source's horizon. Two different ids
of an hour may share a hash. Then the second event is taken for a duplicate until its hour is recomputed, because the
recompute compares the ids themselves. Nothing is dropped: a duplicate is archived and marked.
"""

import json
import re
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as everywhere in Spark code)
from pyspark.sql.types import StructType

from hourline_core.compute.archive import from_archive
from hourline_core.compute.nullable import with_nullable_parts
from hourline_core.compute.resolve import shorten_error, with_derived
from hourline_core.errors import SparkError
from hourline_core.model import Source
from hourline_core.model.expressions import attempt
from hourline_core.model.hours import sql_timestamp
from hourline_core.model.scratch_columns import HOUR, ID, ID_HASH, OFFSET, OUTCOME, PARTITION, PLACE, TOPIC_ID
from hourline_core.storage.file_ranges import files_with
from speed_layer.intake.id_hashes import with_id_hash
from speed_layer.intake.sorted_arrays import Integers, is_among


class Deduplicator:
    """The ids of a source's recent hours. An hour is forgotten once it is more than ``horizon`` behind the source's
    clock.

    The hashes of an hour are in several sorted arrays, as in a log-structured merge tree: what is new is merged with
    what is not larger. So a micro-batch does not sort again all that its hour has had.
    """

    def __init__(self, horizon: timedelta) -> None:
        self._horizon = horizon
        self._by_hour: dict[int, list[Integers]] = {}
        """By hour (microseconds since 1970), sorted arrays, each of which is larger than the next one."""

    def duplicates(self, rows: pa.Table) -> npt.NDArray[np.bool_]:
        """Return by row whether the id of ``rows`` (HOUR, ID_HASH, TOPIC_ID, PARTITION, OFFSET, PLACE) was seen before,
        in these rows or earlier.

        If several of these rows share an id, the first by topic id, partition, offset and place is no duplicate, as in
        a recompute. A row without an ID_HASH is never one.
        """
        duplicate = np.zeros(rows.num_rows, dtype=np.bool_)
        identified = np.flatnonzero(pc.is_valid(rows[ID_HASH]).to_numpy())
        if not len(identified):
            return duplicate
        chosen = rows.take(identified)
        hashes, hours, *address = _columns(chosen, ID_HASH, HOUR, PARTITION, OFFSET, PLACE)
        topics = pc.rank(chosen[TOPIC_ID], tiebreaker="dense").to_numpy()
        order = np.lexsort((*reversed(address), topics, hashes))
        again = np.concatenate(([False], hashes[order][1:] == hashes[order][:-1]))
        repeated = np.zeros(len(identified), dtype=np.bool_)
        repeated[order] = again
        for hour in self._by_hour.keys() & set(np.unique(hours).tolist()):
            here = hours == hour
            for known in self._by_hour[hour]:
                repeated[here] |= is_among(hashes[here], known)
        duplicate[identified] = repeated
        return duplicate

    def remember(self, rows: pa.Table, clock: datetime | None) -> None:
        """Add the ids of ``rows`` (HOUR, ID_HASH). Forget hours that are further behind ``clock`` than the horizon."""
        hashes, hours = _columns(rows.filter(pc.is_valid(rows[ID_HASH])), ID_HASH, HOUR)
        order = np.argsort(hours, kind="stable")
        there, starts = np.unique(hours[order], return_index=True)
        # Of no rows, numpy makes one empty part.
        for hour, some in zip(there.tolist(), np.split(hashes[order], starts[1:]), strict=False):
            self._add(hour, np.unique(some))
        if clock is not None:
            oldest = int((clock - self._horizon).timestamp() * 1_000_000)
            self._by_hour = {hour: known for hour, known in self._by_hour.items() if hour >= oldest}

    def _add(self, hour: int, fresh: Integers) -> None:
        known = self._by_hour.setdefault(hour, [])
        while known and len(known[-1]) <= len(fresh):
            fresh = np.union1d(known.pop(), fresh)
        known.append(fresh)


def with_id(validated: DataFrame, source: Source) -> DataFrame:
    """The validated events with ID, if the source declares one."""
    if source.id is None:
        return validated
    with_ids = with_derived(validated, source).withColumn(
        ID, F.when(F.col(OUTCOME) == "accepted", F.expr(attempt(source.id)))
    )
    return with_nullable_parts(with_ids.select(*validated.columns, ID), [ID])


def archived_id_hashes(
    spark: SparkSession, source: Source, address: str, events: DeltaTable, since: datetime
) -> pa.Table:
    """HOUR and ID_HASH of the archived events of hours from ``since`` on. ``events`` is their table at ``address``; the
    version that it is open at is read.

    The files are read as Parquet. A session's first query on a Delta table takes Spark seconds, in which the next
    events would wait. Raises SparkError when a file cannot be read.
    """
    schema = StructType.fromJson(json.loads(events.schema().to_json()))
    try:
        archived = spark.read.schema(schema).parquet(
            *(_literally(f"{address}/{path}") for path in files_with(events, "hour", since))
        )
        recent = archived.where(F.col("hour") >= F.lit(sql_timestamp(since)).cast("timestamp"))
        derived = with_derived(from_archive(recent, source), source)
        ids = with_nullable_parts(derived.select(HOUR, F.expr(attempt(source.id or "null")).alias(ID)), [ID])
        return ids.mapInArrow(_hash, f"{HOUR} timestamp, {ID_HASH} bigint").toArrow()
    except PySparkException as error:
        words = shorten_error(error).rstrip(".")
        raise SparkError(
            f"the ids of archived events cannot be read: {words}; `hourline verify` names each damaged file"
        ) from error


def _literally(path: str) -> str:
    """The path with those characters escaped that Spark would read as a pattern."""
    return re.sub(r"([{}*?\\])", r"\\\1", path)


def _hash(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield from with_id_hash(pa.table(batch)).select([HOUR, ID_HASH]).to_batches()


def _columns(rows: pa.Table, *names: str) -> list[Integers]:
    return [rows[name].cast(pa.int64()).to_numpy() for name in names]
