"""Reads a source as a table. The newest event of each key is its row, and a tombstone deletes it (a KTable).

The event time decides what is newest, and the arrival among events with the same one. So the rows do not depend on the
order of events with different times, as in a versioned state store of Kafka Streams.
"""

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import NamedTuple

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from hourline_core.errors import TableError, first_line
from hourline_core.ledger.decode_records import ARCHIVED, REFUSED, RecordDecoder, needs_no_spark
from hourline_core.ledger.decodings import ArchiveDecodings
from hourline_core.ledger.layout import Layout, archived_names
from hourline_core.ledger.open_progress import find_progress
from hourline_core.lookups.rows import schema_of_table
from hourline_core.model import Lookup, Project, Source
from hourline_core.model.decoding import TOMBSTONE
from hourline_core.model.lookup import EVENT_TIME, RECORD_KEY, VALID_TO
from hourline_core.model.scratch_columns import (
    DECODING,
    OFFSET,
    PARTITION,
    PLACE,
    RECORD,
    SCRATCH_PREFIX,
    SEQUENCE,
    TOPIC_ID,
)
from hourline_core.sql.literals import identifier, literal
from hourline_core.storage.opening import open_table
from hourline_core.validation.keys import read_keys

_AT, _DELETED, _NUMBER = f"{SCRATCH_PREFIX}at", f"{SCRATCH_PREFIX}deleted", f"{SCRATCH_PREFIX}number"
_ORDER = {SEQUENCE: "sequence", TOPIC_ID: "topic_id", PARTITION: "partition", OFFSET: "offset", PLACE: PLACE}
"""The order of arrival of events with the same event time, with the names in the archive. A field may have these."""


class SourceRows(NamedTuple):
    """The rows of a source as a table."""

    rows: pa.Table
    """The declared columns, with their names in the table. At most one row more than is allowed."""
    null_keys: int
    """The number of events with a null in their key, which are no rows."""


def state_of(project: Project, lookup: Lookup) -> str:
    """A text that changes whenever the rows of ``lookup``, whose table is a source, may have changed. Raises
    TableError.
    """
    source = project.sources[lookup.table_source or ""]
    progress = find_progress(project, source)
    if progress is None or not progress.sequence:
        return "nothing was read"
    decoding = ArchiveDecodings.read(Layout.of(project), source).now.hash
    return json.dumps([source.name, progress.sequence, decoding, lookup.names_in_table])


def read_source(project: Project, lookup: Lookup) -> SourceRows:
    """The rows of the source of ``lookup``, by its finished micro-batches.

    Raises TableError if the archive cannot be read, if only Spark can decode a part of it anew, or if fields of
    records are not known since their bytes were not kept.
    """
    try:
        return _read_source(project, lookup)
    except TableError:
        raise
    except Exception as error:  # What libraries raise for a damaged file is no common class.
        raise TableError(f"{lookup.table} cannot be read: {first_line(error)}") from error


def _read_source(project: Project, lookup: Lookup) -> SourceRows:
    source = project.sources[lookup.table_source or ""]
    progress = find_progress(project, source)
    if progress is None or not progress.sequence:
        return SourceRows(schema_of_table(lookup).empty_table(), 0)
    archive = _Archive(Layout.of(project), source, lookup, progress.sequence)
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        archive.register(connection)
        keys = [identifier(lookup.names_in_table[name]) for name in lookup.key]
        has_key = " AND ".join(f"{key} IS NOT NULL" for key in keys)
        count = f"SELECT count(*) FROM log WHERE NOT ({has_key}) AND NOT {_DELETED}"
        ((null_keys,),) = connection.execute(count).fetchall()
        rows = connection.execute(_rows_sql(lookup, ", ".join(keys), has_key)).to_arrow_table()
    if RECORD_KEY in rows.column_names:
        place = rows.column_names.index(RECORD_KEY)
        rows = rows.set_column(place, RECORD_KEY, read_keys(rows[RECORD_KEY].combine_chunks(), source.key_type))
    return SourceRows(rows, null_keys)


def _rows_sql(lookup: Lookup, keys: str, has_key: str) -> str:
    """The rows that the view ``log`` makes."""
    arrival = ", ".join(f"{identifier(name)} DESC" for name in _ORDER)
    limit = f"LIMIT {lookup.most_rows + 1}"
    columns = ", ".join(map(identifier, dict.fromkeys(lookup.names_in_table.values())))
    if lookup.is_valid_at_times:
        newest = f"row_number() OVER (PARTITION BY {keys}, {_AT} ORDER BY {arrival})"
        until = f"lead({_AT}) OVER (PARTITION BY {keys} ORDER BY {_AT})"
        validity = f"REPLACE ({_AT} AS {EVENT_TIME}, {until} AS {VALID_TO})"
    else:
        newest = f"row_number() OVER (PARTITION BY {keys} ORDER BY {_AT} DESC, {arrival})"
        validity = ""
    numbered = f"SELECT *, {newest} AS {_NUMBER} FROM log WHERE {has_key}"
    valid = f"SELECT * {validity} FROM ({numbered}) WHERE {_NUMBER} = 1"
    return f"SELECT {columns} FROM ({valid}) WHERE NOT {_DELETED} {limit}"


class _Archive:
    """What was archived of ``source`` up to ``sequence``, with the columns that ``lookup`` needs."""

    def __init__(self, layout: Layout, source: Source, lookup: Lookup, sequence: int) -> None:
        self._source, self._sequence = source, sequence
        self._names = lookup.names_in_table
        self._reads_tombstones = [self._names[name] for name in lookup.key] == [RECORD_KEY]
        """Of all that a row has, a tombstone has the key of the record alone."""
        events = open_table(layout.events(source), layout.storage_options)
        self._decodings = ArchiveDecodings.of(events, source)
        self._events = events.to_pyarrow_dataset()
        self._rejected = open_table(layout.rejected(source), layout.storage_options).to_pyarrow_dataset()
        self._refuse_lost_fields()

    def register(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Make the view ``log``: the columns, _AT, _ORDER, and _DELETED (boolean), of each record with a key."""
        connection.register("events", self._events)
        connection.register("rejected", self._rejected)
        finished = f"sequence <= {self._sequence}"
        parts = [f"{self._select('events', self._events.schema)} WHERE {finished} AND NOT coalesce(duplicate, false)"]
        if self._decodings.others:
            decoded = pa.concat_tables(self._decode_others())
            connection.register("decoded", decoded)
            standing = ", ".join(map(literal, self._decodings.standing))
            parts[0] += f" AND coalesce({DECODING}, '') IN ({standing})"
            parts.append(f"{self._select('decoded', decoded.schema)} WHERE hour IS NOT NULL AND NOT duplicate")
        if self._reads_tombstones:
            order = _order_sql(self._rejected.schema)
            # Events may be that much ahead of their arrival. A tombstone of next year would delete the row for ever.
            ahead = self._source.ahead // timedelta(microseconds=1)
            latest = f"least(timestamp, arrived + to_microseconds({ahead}))"
            parts.append(f"""
                SELECT key AS {identifier(RECORD_KEY)}, {latest} AS {_AT}, {order}, true AS {_DELETED}
                FROM rejected WHERE {finished} AND decoding = {literal(TOMBSTONE)}""")
        connection.execute(f"CREATE VIEW log AS {' UNION ALL BY NAME '.join(parts)}")

    def _select(self, table: str, schema: pa.Schema) -> str:
        stored = archived_names(self._source, schema.names)
        columns = {RECORD_KEY: f"{RECORD}.key", EVENT_TIME: "event_time", VALID_TO: "NULL::TIMESTAMPTZ"}
        # A field that was declared after the last micro-batch is no column yet.
        columns |= {
            name: identifier(stored[name]) if stored[name] in schema.names else "NULL"
            for name in self._source.event_fields
        }
        chosen = [f"{columns[name]} AS {identifier(name)}" for name in dict.fromkeys(self._names.values())]
        own = f"event_time AS {_AT}, {_order_sql(schema)}, false AS {_DELETED}"
        return f"SELECT {', '.join(chosen)}, {own} FROM {table}"

    def _refuse_lost_fields(self) -> None:
        """Raise TableError if a field is not known of records whose bytes were not kept."""
        for lost in self._decodings.lost_fields:
            if named := sorted(name for name in self._names.values() if name.casefold() in lost.fields):
                raise TableError(
                    f"field '{named[0]}' of source '{self._source.name}' is not known of records from before it was "
                    "declared, since their bytes were not kept (`raw: false`): leave it out of the columns"
                )

    def _decode_others(self) -> Iterator[pa.Table]:
        """The events that today's declaration makes of records which another one has decoded."""
        if not needs_no_spark(self._source, self._decodings.others):
            changes = "; ".join(self._decodings.describe_changes())
            raise TableError(
                f"records of source '{self._source.name}' were decoded by another declaration ({changes}), and only "
                "Spark can decode them anew: let `event_time` name a field, without `explode`, or declare it as before"
            )
        decoder = RecordDecoder(self._source, self._decodings.others)
        finished = pc.field("sequence") <= self._sequence
        for dataset, schema, decode in (
            (self._events, ARCHIVED, decoder.of_events),
            (self._rejected, REFUSED, decoder.of_rejected),
        ):
            for batch in dataset.to_batches(columns=schema.names, filter=finished):
                yield decode(pa.Table.from_batches([batch]).cast(schema), 0, self._sequence)


def _order_sql(schema: pa.Schema) -> str:
    # An older version of Hourline wrote no places.
    stored = {**{name: identifier(of) for name, of in _ORDER.items()}, PLACE: f"coalesce({PLACE}, 0)"}
    stored |= {} if PLACE in schema.names else {PLACE: "0"}
    return ", ".join(f"{of} AS {name}" for name, of in stored.items())
