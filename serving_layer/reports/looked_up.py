"""The rows of lookups that the events of a cell met, and why others met none."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from hourline_core.compute.native_expressions import translate
from hourline_core.errors import TableError
from hourline_core.ledger.layout import Layout
from hourline_core.ledger.progress import Progress
from hourline_core.lookups.join import PinnedLookup, open_lookup
from hourline_core.lookups.loaded import LoadedLookup
from hourline_core.lookups.pinning import pin_recorded, versions_of
from hourline_core.lookups.stored import StoredLookup
from hourline_core.model import Lookup, Source
from hourline_core.model.scratch_columns import EVENT_TIME
from hourline_core.sql.literals import identifier, literal
from hourline_core.storage.opening import open_table
from serving_layer.connection import Connection
from serving_layer.described import Described
from serving_layer.reports.cell import Cell

_MOST_ROWS = 100
Missed = Literal["null key", "no row", "not valid then", "version not kept"]


class MetRow(Described):
    """Events with one key that met the same row of a lookup, or none for the same reason."""

    key: dict[str, str | None]
    """By column of the lookup's key, the value that the events have, as text."""
    version: int | None
    """The version of the lookup that was used. Null: it was never read."""
    row: dict[str, str | None] | None
    """The row, by column, as text. Null: they met none."""
    missed: Missed | None
    """Why they met none: `null key`; `no row` has the key; `not valid then`: rows of the key are valid at other times;
    or `version not kept`, so that it is not known any more. Null: they met one.
    """
    events: int
    """The number of events."""
    topic: str
    """The name of the topic, or of the file, of the first one."""
    partition: int
    """The partition of the first one."""
    offset: int
    """The offset of the first one."""


class LookedUp(Described):
    """What the events of the cell met in one lookup, at the versions that the answer was computed with."""

    name: str
    """What the source calls the lookup."""
    lookup: str
    """The name of the lookup."""
    unknown: str | None
    """Why this is not known, in words. Null: it is."""
    matched: int
    """The number of events that met a row."""
    unmatched: int
    """The number of events with a key that met none."""
    null_keys: int
    """The number of events with a null in their key, which meet none."""
    rows: list[MetRow]
    """By key and row, those with the most events first; at most 100."""


class LookupKeys:
    """The keys by which the events of a source, as it is served, find the rows of lookups."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.columns: list[str] = []
        """The columns with the keys, in DuckDB's SQL over columns with Hourline's own names."""
        self.names: list[str] = []
        """The names of these columns."""
        self._known: set[str] = set()
        for name, use in source.lookups.items():
            native = [key for text in use.key if (key := translate(source, text))]
            if len(native) == len(use.key):
                self._known.add(name)
                names = _key_columns(name, source.lookup_of(name))
                self.names += names
                self.columns += [f"{key.sql} AS {column}" for key, column in zip(native, names, strict=True)]

    def is_known(self, name: str) -> bool:
        """Whether the keys of a lookup can be computed without Spark."""
        return name in self._known


def find_looked_up(connection: Connection, cell: Cell, keys: LookupKeys, stands: bool) -> list[LookedUp]:
    """What the events in the temporary table ``_events``, which has the columns of ``keys``, met in each lookup.
    ``stands``: whether they count with the values that the archive has. Raises TableError.
    """
    source = keys.source
    if not source.lookups:
        return []
    of_metric = connection.snapshot.coverage.of(cell.metric.name, cell.tables.declaration)
    covered = of_metric.covered([cell.hour]).get(cell.hour)
    published = versions_of(covered.lookups if covered else None)
    found = []
    for name in source.lookups:
        lookup, unknown = source.lookup_of(name), None
        if not keys.is_known(name):
            unknown = "only Spark evaluates its key"
        elif not stands:
            unknown = "a recompute has decoded the records anew, and the archive has other values"
        if unknown:
            of_name = LookedUp(
                name=name, lookup=lookup.name, unknown=unknown, matched=0, unmatched=0, null_keys=0, rows=[]
            )
        else:
            of_name = _find(connection, name, source, published)
        found.append(of_name)
    return found


def _find(connection: Connection, name: str, source: Source, published: Mapping[str, int]) -> LookedUp:
    lookup = source.lookup_of(name)
    by_key = ", ".join(f"{key} AS k{place}" for place, key in enumerate(_key_columns(name, lookup)))
    at = EVENT_TIME if lookup.is_valid_at_times else "NULL::TIMESTAMPTZ"
    recorded = f"[one.version FOR one IN lookups IF one.lookup = {literal(lookup.name)}][1]"
    used = _read_used(connection, source, lookup)
    connection.database.register("_used", used)
    # Without a version in coverage, each event kept that of its micro-batch.
    of_final = published.get(lookup.name, "(SELECT arg_min(version, last) FROM _used WHERE last >= sequence)")
    asked = connection.database.execute(f"""
        SELECT {by_key}, {at} AS at, if(layer = 'final', {of_final}, {recorded})::BIGINT AS version,
               count(*) AS events, min(struct_pack(topic, partition, "offset")) AS first
        FROM _events WHERE NOT duplicate GROUP BY ALL""").to_arrow_table()
    connection.database.unregister("_used")
    layout = Layout.of(connection.project)
    with duckdb.connect() as own:
        own.execute("SET TimeZone = 'UTC'")
        met = [
            _meet(own, lookup, layout, source, version, asked.filter(_is(asked["version"], version)))
            for version in asked["version"].unique().to_pylist()
        ]
        own.register("met", pa.concat_tables(met, promote_options="permissive"))
        return _describe(own, name, lookup)


def _read_used(connection: Connection, source: Source, lookup: Lookup) -> pa.Table:
    """The versions that micro-batches have used, each with the last sequence."""
    layout = Layout.of(connection.project)
    used = Progress(open_table(layout.progress(source), layout.storage_options)).versions_used(lookup.name, ())
    columns = {"last": [one.last for one in used], "version": [one.version for one in used]}
    return pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()})


def _meet(
    connection: duckdb.DuckDBPyConnection,
    lookup: Lookup,
    layout: Layout,
    source: Source,
    recorded: int | None,
    asked: pa.Table,
) -> pa.Table:
    """``asked`` with the row of each, the version that was used, and why it has none."""
    pinned = pin_recorded(source, layout, {} if recorded is None else {lookup.name: recorded}).get(lookup.name)
    keys = _places(lookup)
    of_keys = asked.select(keys).columns
    loaded = _load(connection, pinned, of_keys)
    has_null = " OR ".join(f"{key} IS NULL" for key in keys)
    number = "NULL::BIGINT" if pinned is None else str(pinned.version)
    connection.register("asked", asked)
    if loaded is None:
        why = f"if({has_null}, 'null key', 'version not kept')"
        query = f"SELECT * EXCLUDE (version), {number} AS version, NULL AS row, {why} AS missed FROM asked"
        return connection.execute(query).to_arrow_table()
    # The same code as in both layers finds the rows.
    places = loaded.find(connection, of_keys, asked["at"])
    connection.register("placed", asked.append_column("place", pa.chunked_array([places])))
    of_row = ", ".join(f"{identifier(column)} := {identifier(column)}::VARCHAR" for column in lookup.columns)
    connection.register("rows", loaded.rows.append_column("place", pa.array(range(loaded.rows.num_rows), pa.int64())))
    same = " AND ".join(f"r.{identifier(column)} = p.{key}" for column, key in zip(lookup.key, keys, strict=True))
    return connection.execute(f"""
        SELECT p.* EXCLUDE (place, version), {number} AS version, r.row,
               CASE WHEN p.place IS NOT NULL THEN NULL
                    WHEN {has_null} THEN 'null key'
                    WHEN EXISTS (FROM rows r WHERE {same}) THEN 'not valid then'
                    ELSE 'no row' END AS missed
        FROM placed p
        LEFT JOIN (SELECT place, struct_pack({of_row}) AS row FROM rows) r ON r.place = p.place""").to_arrow_table()


def _load(
    connection: duckdb.DuckDBPyConnection, pinned: PinnedLookup | None, keys: Sequence[pa.ChunkedArray]
) -> LoadedLookup | None:
    """The rows with ``keys``, or more. None: they are no longer kept."""
    if pinned is None:
        return None
    try:
        opened = open_lookup(pinned)
        # A vacuum may delete its files now.
        if isinstance(opened, StoredLookup):
            return opened.load(connection, list(pinned.lookup.columns), keys)
    except TableError:
        return None
    return opened


def _describe(connection: duckdb.DuckDBPyConnection, name: str, lookup: Lookup) -> LookedUp:
    keys = _places(lookup)
    by_key = ", ".join(f"{column}::VARCHAR AS {column}" for column in keys)
    totals = connection.execute("""
        SELECT coalesce(sum(events) FILTER (missed IS NULL), 0)::BIGINT,
               coalesce(sum(events) FILTER (missed <> 'null key'), 0)::BIGINT,
               coalesce(sum(events) FILTER (missed = 'null key'), 0)::BIGINT
        FROM met""")
    ((matched, unmatched, null_keys),) = totals.fetchall()
    rows = connection.execute(f"""
        SELECT {by_key}, version, row, missed, sum(events)::BIGINT AS events, unnest(min(first))
        FROM met GROUP BY {", ".join(keys)}, version, row, missed
        ORDER BY events DESC, missed NULLS FIRST, {", ".join(keys)}, version, row LIMIT {_MOST_ROWS}""")
    return LookedUp(
        name=name,
        lookup=lookup.name,
        unknown=None,
        matched=matched,
        unmatched=unmatched,
        null_keys=null_keys,
        rows=[_row(lookup, keys, one) for one in rows.to_arrow_table().to_pylist()],
    )


def _row(lookup: Lookup, keys: list[str], columns: dict[str, Any]) -> MetRow:
    key = {column: columns.pop(place) for column, place in zip(lookup.key, keys, strict=True)}
    return MetRow(key=key, **columns)


def _key_columns(name: str, lookup: Lookup) -> list[str]:
    return [identifier(f"key_{name}_{place}") for place in range(len(lookup.key))]


def _places(lookup: Lookup) -> list[str]:
    return [f"k{place}" for place in range(len(lookup.key))]


def _is(column: pa.ChunkedArray, value: int | None) -> pa.ChunkedArray:
    return column.is_null() if value is None else pc.equal(column, value)
