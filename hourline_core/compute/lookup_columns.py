"""Adds the rows of lookups to events: as columns of Arrow tables where tasks evaluate expressions, as structs where
Spark does. Both find the rows by the same code.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import duckdb
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (as everywhere in Spark code)
from pyspark.sql.pandas.functions import arrow_udf

from hourline_core.compute.native_expressions import translate
from hourline_core.compute.resolve import are_comparable, lookup_type, with_names
from hourline_core.compute.worker_database import connect
from hourline_core.errors import TableError
from hourline_core.lookups.join import PinnedLookup, look_up
from hourline_core.model import Source
from hourline_core.model.expressions import attempt
from hourline_core.model.scratch_columns import EVENT_TIME, SEQUENCE, lookup_column
from hourline_core.sql.literals import identifier

Pinned = Mapping[str, PinnedLookup]
"""By the name of a lookup, the version that is used."""
NO_LOOKUPS: Pinned = {}
"""Of a source that has none."""


@dataclass(frozen=True)
class NativeLookup:
    """A lookup whose columns DuckDB's expressions need."""

    lookup: str
    keys: Sequence[str]
    """DuckDB's SQL over the columns of the events."""
    columns: Mapping[str, str]
    """By column of the events to add, that of the lookup."""


def native_lookups(source: Source, expressions: Iterable[str]) -> list[NativeLookup] | None:
    """The lookups whose columns ``expressions``, in DuckDB's SQL, name. None: Spark has to evaluate a key."""
    texts, found = list(expressions), []
    for name, use in source.lookups.items():
        lookup = source.lookup_of(name)
        columns = {lookup_column(name, column): column for column in lookup.columns}
        needed = {column: of for column, of in columns.items() if any(identifier(column) in text for text in texts)}
        if not needed:
            continue
        keys = [translate(source, text) for text in use.key]
        types = [lookup.columns[column].spark_type for column in lookup.key]
        native = [key.sql for key, of in zip(keys, types, strict=True) if key and are_comparable(key.type, of)]
        if len(native) < len(keys):
            return None
        found.append(NativeLookup(lookup.name, native, needed))
    return found


def add_lookup_columns(
    connection: duckdb.DuckDBPyConnection, rows: pa.Table, lookups: Sequence[NativeLookup], pinned: Pinned
) -> pa.Table:
    """The events ``rows``, which have EVENT_TIME, with the columns of ``lookups``. They are null for an event without a
    row. Archived events have SEQUENCE, too. Raises TableError if a version is no longer kept.
    """
    for one in lookups:
        keys = ", ".join(f"{sql} AS k{place}" for place, sql in enumerate(one.keys))
        connection.register("rows", rows)
        try:
            values = connection.execute(f"SELECT {keys} FROM rows").to_arrow_table()
        finally:
            connection.unregister("rows")
        lookup = pinned[one.lookup]
        sequences = rows[SEQUENCE] if lookup.used else None
        met = look_up(connection, lookup, list(one.columns.values()), values.columns, rows[EVENT_TIME], sequences)
        for name, values_of in zip(one.columns, met.columns.columns, strict=True):
            rows = rows.append_column(name, values_of)
    return rows


def with_lookups(events: DataFrame, source: Source, pinned: Pinned, lost: Collection[str] = ()) -> DataFrame:
    """The ``events``, which have no derived fields, with a struct for each lookup. It is null for an event without a
    row, and for all events of a lookup whose name is in ``lost``. Archived events have SEQUENCE.

    Raises TableError if another lookup is not in ``pinned``: no version of it is kept.
    """
    if unknown := sorted({source.lookup_name(name) for name in source.lookups} - {*pinned, *lost}):
        raise TableError(
            f"no version of lookup '{unknown[0]}' is kept that can be read as source '{source.name}' declared it when "
            f"its events were answered: `keep` in lookups/{unknown[0]}.yaml says how long versions are kept; a "
            "recompute of the hours uses the newest version"
        )
    named = with_names(events, source)
    structs = []
    for name, use in source.lookups.items():
        of = source.lookup_name(name)
        if of in lost:
            structs.append(F.lit(None).cast(lookup_type(source, name)).alias(name))
            continue
        lookup = pinned[of]
        keys = [F.expr(attempt(text)).alias(f"k{place}") for place, text in enumerate(use.key)]
        find = _finder(lookup, list(source.lookup_of(name).columns), len(keys))
        sequence = [F.col(SEQUENCE)] if lookup.used else []
        # The kind of function is told by its type hints, or Spark warns.
        row = arrow_udf(find, lookup_type(source, name))(F.struct(*keys, F.col(EVENT_TIME).alias("at"), *sequence))  # type: ignore[call-overload]
        structs.append(row.alias(name))
    return named.select(*events.columns, *structs) if structs else events


def _finder(pinned: PinnedLookup, columns: Sequence[str], keys: int):  # type: ignore[no-untyped-def] # Spark reads the hints of what it gives.
    def find(events: pa.Array) -> pa.Array:
        given = [pa.chunked_array([events.field(place)]) for place in range(events.type.num_fields)]
        met = look_up(connect(), pinned, columns, given[:keys], *given[keys:])
        found = [column.combine_chunks() for column in met.columns.columns]
        return pa.StructArray.from_arrays(found, columns, mask=met.has_no_row)

    return find
