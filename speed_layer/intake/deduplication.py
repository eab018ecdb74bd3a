"""Recognises duplicates in the stream, so that they do not count in provisional results either.

The layer holds 64-bit hashes of (id, hour), by hour: 8 bytes an event within the source's horizon. Beyond a bound,
those of the oldest hours are in files. Two different ids of an hour may share a hash. Then the second event is taken
for a duplicate until its hour is recomputed, because the recompute compares the ids themselves. Nothing is dropped: a
duplicate is archived and marked.
"""

import json
import re
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from itertools import accumulate, groupby
from pathlib import Path

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
from hourline_core.compute.resolve import shorten_error, with_derived, with_no_rows
from hourline_core.errors import SparkError
from hourline_core.model import Source
from hourline_core.model.expressions import attempt
from hourline_core.model.hours import sql_timestamp
from hourline_core.model.scratch_columns import HOUR, ID, ID_HASH, OFFSET, OUTCOME, PARTITION, PLACE, TOPIC_ID
from hourline_core.storage.file_ranges import file_ranges
from speed_layer.intake.id_hashes import with_id_hash
from speed_layer.intake.sorted_arrays import Integers, distinct, in_file, is_among, is_in_file

_READ = 8_000_000
"""The number of archived ids that are read at once: 128 MB."""


class Deduplicator:
    """The ids of a source's recent hours. An hour is forgotten once it is more than ``horizon`` behind the source's
    clock.

    The hashes of an hour are in several sorted arrays, as in a log-structured merge tree: what is new is merged with
    what is not larger. So a micro-batch does not sort again all that its hour has had.

    At most ``memory`` bytes of them stay in memory. The others, those of the oldest hours, are mapped from files
    without a name below ``folder``.
    """

    def __init__(self, horizon: timedelta, memory: int, folder: Path) -> None:
        self._horizon, self._memory, self._folder = horizon, memory, folder
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
        """Add the ids of ``rows`` (HOUR, ID_HASH). Forget hours that are further behind ``clock`` than the horizon.

        Raises OSError when a file cannot be written, such as on a full disk. Then all ids are known as before.
        """
        hashes, hours = _columns(rows.filter(pc.is_valid(rows[ID_HASH])), ID_HASH, HOUR)
        order = np.argsort(hours, kind="stable")
        there, starts = np.unique(hours[order], return_index=True)
        # Of no rows, numpy makes one empty part.
        for hour, some in zip(there.tolist(), np.split(hashes[order], starts[1:]), strict=False):
            self._add(hour, distinct(some))
        if clock is not None:
            oldest = int((clock - self._horizon).timestamp() * 1_000_000)
            self._by_hour = {hour: known for hour, known in self._by_hour.items() if hour >= oldest}
        self._bound_memory()

    def _add(self, hour: int, fresh: Integers) -> None:
        known = self._by_hour.setdefault(hour, [])
        while known and len(known[-1]) <= len(fresh):
            fresh = distinct(known.pop(), fresh)
        known.append(fresh)

    def _bound_memory(self) -> None:
        """Write arrays to files until the others are within the bound: those of the oldest hours first, since new ids
        are least likely to be merged with them.
        """
        held = [
            (known, place)
            for _, known in sorted(self._by_hour.items())
            for place, array in enumerate(known)
            if not is_in_file(array)
        ]
        excess = sum(known[place].nbytes for known, place in held) - self._memory
        for known, place in held:
            if excess <= 0:
                return
            excess -= known[place].nbytes
            known[place] = in_file(known[place], self._folder)


def with_id(validated: DataFrame, source: Source) -> DataFrame:
    """The validated events with ID, if the speed layer remembers it."""
    if source.id is None or not source.remembers_ids:
        return validated
    with_ids = with_derived(validated, source).withColumn(
        ID, F.when(F.col(OUTCOME) == "accepted", F.expr(attempt(source.id)))
    )
    return with_nullable_parts(with_ids.select(*validated.columns, ID), [ID])


def archived_id_hashes(
    spark: SparkSession, source: Source, address: str, events: DeltaTable, since: datetime, most: int = _READ
) -> Iterator[pa.Table]:
    """HOUR and ID_HASH of the archived events of hours from ``since`` on, in parts of about ``most`` rows, or of one
    file. ``events`` is their table at ``address``; the version that it is open at is read.

    The files are read as Parquet. A session's first query on a Delta table takes Spark seconds, in which the next
    events would wait. Raises SparkError when a file cannot be read.
    """
    schema = StructType.fromJson(json.loads(events.schema().to_json()))
    files = [file for file in file_ranges(events, "hour") if file.last >= since]
    ends = accumulate(file.rows for file in files)
    for _, part in groupby(zip(files, ends, strict=True), key=lambda one: one[1] // most):
        paths = [_literally(f"{address}/{file.path}") for file, _ in part]
        try:
            recent = spark.read.schema(schema).parquet(*paths)
            recent = recent.where(F.col("hour") >= F.lit(sql_timestamp(since)).cast("timestamp"))
            # An id may not depend on a lookup, but derived fields may name one.
            derived = with_derived(with_no_rows(from_archive(recent, source), source), source)
            ids = with_nullable_parts(derived.select(HOUR, F.expr(attempt(source.id or "null")).alias(ID)), [ID])
            yield ids.mapInArrow(_hash, f"{HOUR} timestamp, {ID_HASH} bigint").toArrow()
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
