"""Finds the rows of lookups that events have, in the process where the events are. Both layers join by this alone."""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import duckdb
import numpy as np
import pyarrow as pa

from hourline_core.ledger.layout import Layout
from hourline_core.lookups.limited_memory import scan
from hourline_core.lookups.loaded import LoadedLookup
from hourline_core.lookups.stored import StoredLookup
from hourline_core.lookups.version_files import scan_rows
from hourline_core.lookups.versions import naming_damage, open_version
from hourline_core.model import Lookup
from hourline_core.storage.opening import Table

_MOST_VERSIONS = 2
"""The number of versions of a lookup that a process holds: tasks of two micro-batches may run at once."""
_MOST_BYTES = 64 << 20
"""The maximum size of all versions of a lookup with ``used`` ones, if there are more: events of an hour may be of
several.
"""
_MOST_ROWS = 1_000_000
_MOST_FILE_BYTES = 64 << 20
_MOST_ROW_BYTES = 128 << 20
"""The maximum number of rows, the size of files, and that of their rows in memory, of a version that is loaded. Of a
larger one, a process reads the rows of its events each time.
"""
_MOST_STORED = 8
"""The maximum number of such versions of a lookup that a process holds open."""


@dataclass(frozen=True)
class PinnedLookup:
    """A lookup at one version, or with ``on_change: keep`` at those that the micro-batches of a source have used."""

    lookup: Lookup
    layout: Layout
    version: int
    used: tuple[tuple[int, int], ...] = ()
    """In order, the last sequence of micro-batches that used a version, and that version. Events of later ones, and all
    if there are none, are of ``version``.
    """
    forgotten: tuple[tuple[int, int], ...] = ()
    """The first and last sequences of micro-batches whose version is no longer kept. ``version`` stands in for it."""

    @property
    def versions(self) -> set[int]:
        """All versions that events may be of."""
        return {version for _, version in self.used} or {self.version}


class LookedUp(NamedTuple):
    """What events have met in a lookup."""

    columns: pa.Table
    """Of each event, the requested columns of its row. They are null if it has none."""
    has_no_row: pa.Array
    """For each event, whether it has none."""


def look_up(
    connection: duckdb.DuckDBPyConnection,
    pinned: PinnedLookup,
    columns: Sequence[str],
    keys: Sequence[pa.ChunkedArray],
    times: pa.ChunkedArray,
    sequences: pa.ChunkedArray | None = None,
) -> LookedUp:
    """What events with ``keys`` and event times meet. ``sequences`` are those of their micro-batches, which are needed
    if the lookup has ``used`` versions. Raises TableError if a version is no longer kept.
    """
    if not pinned.used or not len(times):
        return _meet(connection, load(pinned), columns, keys, times)
    assert sequences is not None, "events of several versions have sequences"
    last, used = (np.array(of) for of in zip(*pinned.used, strict=True))
    versions = np.append(used, pinned.version)[np.searchsorted(last, sequences.to_numpy())]
    parts, order = [], []
    for version in np.unique(versions):
        among = np.flatnonzero(versions == version)
        loaded = load(replace(pinned, version=int(version)))
        parts.append(_meet(connection, loaded, columns, [key.take(among) for key in keys], times.take(among)))
        order.append(among)
    places = np.argsort(np.concatenate(order))
    together = pa.concat_tables([part.columns for part in parts]).combine_chunks()
    return LookedUp(together.take(places), pa.concat_arrays([part.has_no_row for part in parts]).take(places))


def _meet(
    connection: duckdb.DuckDBPyConnection,
    lookup: LoadedLookup | StoredLookup,
    columns: Sequence[str],
    keys: Sequence[pa.ChunkedArray],
    times: pa.ChunkedArray,
) -> LookedUp:
    loaded = lookup.load(connection, columns, keys, times) if isinstance(lookup, StoredLookup) else lookup
    places = loaded.find(connection, keys, times)
    return LookedUp(loaded.rows.select(list(columns)).take(places), places.is_null())


_LOADED: dict[tuple[str, str], OrderedDict[int, LoadedLookup | StoredLookup]] = {}
"""By the address of its table, and its declaration, the versions of a lookup that this process holds, the last one used
at the end.
"""
_LOCK = threading.Lock()


def open_lookup(pinned: PinnedLookup) -> LoadedLookup | StoredLookup:
    """The lookup, loaded if it is small. Raises TableError if the version is no longer kept."""
    table = open_version(pinned.layout, pinned.lookup, pinned.version)
    added = pa.table(table.get_add_actions())
    if sum(added["num_records"].to_pylist()) > _MOST_ROWS or sum(added["size_bytes"].to_pylist()) > _MOST_FILE_BYTES:
        return StoredLookup(pinned.lookup, table)
    rows = _read_small(table, pinned.lookup)
    return StoredLookup(pinned.lookup, table) if rows is None else LoadedLookup(pinned.lookup, rows)


def _read_small(table: Table, lookup: Lookup) -> pa.Table | None:
    """The rows. None: they are too large for memory. A small file may have many texts that repeat."""
    scanner, size, batches = scan(scan_rows(table, lookup), list(lookup.columns)), 0, list[pa.RecordBatch]()
    with naming_damage(table, lookup):
        for batch in scanner.to_batches():
            size += batch.nbytes
            if size > _MOST_ROW_BYTES:
                return None
            batches.append(batch)
    return pa.Table.from_batches(batches, scanner.projected_schema)


def load(pinned: PinnedLookup) -> LoadedLookup | StoredLookup:
    """The lookup in this process, which keeps it. Raises TableError if the version is no longer kept."""
    lookup = pinned.lookup
    with _LOCK:
        versions = _LOADED.setdefault((pinned.layout.lookup(lookup), lookup.declaration), OrderedDict())
        if pinned.version not in versions:
            versions[pinned.version] = open_lookup(pinned)
            most_bytes = _MOST_BYTES if pinned.used else 0
            while len(versions) > _MOST_VERSIONS and sum(one.size for one in versions.values()) > most_bytes:
                versions.popitem(last=False)
            stored = [number for number, one in versions.items() if isinstance(one, StoredLookup)]
            for number in stored[:-_MOST_STORED]:
                del versions[number]
        versions.move_to_end(pinned.version)
        return versions[pinned.version]
