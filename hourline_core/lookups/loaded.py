"""The rows of a lookup at one version, in memory."""

from collections.abc import Sequence
from functools import cached_property

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hourline_core.model import Lookup
from hourline_core.sql.literals import identifier

BYTES_OF_A_VERSION = 8 << 10
"""The size of a version without rows. The objects of 100 small rows take more memory than their values."""
MOMENT = pa.timestamp("us", tz="UTC")
Hashes = npt.NDArray[np.uint64]
EVER, NEVER = int(np.iinfo(np.int64).min), int(np.iinfo(np.int64).max)
"""Bounds of validity that are null, in microseconds since 1970."""


class LoadedLookup:
    """The rows of a lookup at one version, in memory. At most one of them fits an event."""

    def __init__(self, lookup: Lookup, rows: pa.Table) -> None:
        self.rows = rows.combine_chunks()
        names = [f"k{place}" for place in range(len(lookup.key))]
        columns = dict(zip(names, self.rows.select(list(lookup.key)).columns, strict=True))
        self._key_columns, self._at_times = len(names), lookup.is_valid_at_times
        if self._at_times:
            columns |= {
                "first": _bound_of(self.rows, lookup.valid_from, EVER),
                "end": _bound_of(self.rows, lookup.valid_to, NEVER),
            }
        self._keys = pa.table({**columns, "place": np.arange(self.rows.num_rows)})
        equal = [f"e.{identifier(name)} = l.{identifier(name)}" for name in names]
        valid = ["l.first <= e.at", "e.at < l.end"] if self._at_times else []
        self.size = BYTES_OF_A_VERSION + self.rows.nbytes + self._keys.nbytes + 16 * self.rows.num_rows
        """The memory that it takes, in bytes, or somewhat more: its keys may be those of the rows."""
        self._sql = f"SELECT e.number, l.place FROM events e JOIN keys l ON {' AND '.join([*equal, *valid])}"

    def find(
        self, connection: duckdb.DuckDBPyConnection, keys: Sequence[pa.ChunkedArray], times: pa.ChunkedArray
    ) -> pa.Array:
        """For each event with ``keys`` and an event time, the place of its row. Null: it has none."""
        columns = {f"k{place}": key for place, key in enumerate(keys)}
        if self._at_times:
            columns["at"] = times.cast(MOMENT).cast(pa.int64())
        events = pa.table({**columns, "number": np.arange(len(times))})
        lookup = self._keys
        if events.num_rows < lookup.num_rows:  # A pass over a million rows costs more than a small micro-batch.
            lookup = lookup.take(self._rows_of(np.unique(_hash(connection, events, len(keys)))))
        connection.register("events", events)
        connection.register("keys", lookup)
        try:
            found = connection.execute(self._sql).to_arrow_table()
        finally:
            connection.unregister("keys")
            connection.unregister("events")
        # The join may give them in any order.
        places = np.full(len(times), -1)
        places[found["number"].to_numpy()] = found["place"].to_numpy()
        return pa.array(places, mask=places < 0)

    @cached_property
    def _sorted_hashes(self) -> tuple[npt.NDArray[np.int64], Hashes]:
        """The hashes of the keys, in order, after the places of their rows. Few events are compared with the rows of
        their hashes alone.
        """
        with duckdb.connect() as connection:
            hashes = _hash(connection, self._keys, self._key_columns)
        order = np.argsort(hashes, kind="stable")
        return order, hashes[order]

    def _rows_of(self, hashes: Hashes) -> pa.Array:
        """The places of the rows whose keys have these distinct hashes. Other keys may have one of them, too."""
        order, there = self._sorted_hashes
        first, end = (np.searchsorted(there, hashes, side) for side in ("left", "right"))
        counts = end - first
        before = np.repeat(np.cumsum(counts) - counts, counts)
        return pa.array(order[np.repeat(first, counts) + np.arange(counts.sum()) - before])


def _bound_of(rows: pa.Table, name: str | None, otherwise: int) -> pa.Array:
    """A bound of validity of each row, in microseconds since 1970: the column ``name``, or ``otherwise``."""
    if name is None:
        return pa.repeat(pa.scalar(otherwise, pa.int64()), rows.num_rows)
    return pc.fill_null(rows[name].cast(MOMENT).cast(pa.int64()), otherwise)


def _hash(connection: duckdb.DuckDBPyConnection, rows: pa.Table, keys: int) -> Hashes:
    """A hash of the first columns of each row, which are ``keys``. Equal keys have equal ones, whatever the width of a
    whole number.
    """
    columns = rows.columns[:keys]
    wide = [column.cast(pa.int64()) if pa.types.is_integer(column.type) else column for column in columns]
    names = rows.column_names[:keys]
    connection.register("hashed", pa.table(wide, names))
    try:
        hashes = connection.execute(f"SELECT hash({', '.join(map(identifier, names))}) FROM hashed").to_arrow_table()
        return np.asarray(hashes.column(0).to_numpy(), np.uint64)
    finally:
        connection.unregister("hashed")
