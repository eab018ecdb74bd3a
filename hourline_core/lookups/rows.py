"""What a refresh takes of a table: typed and sorted rows, of which at most one fits an event."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import NamedTuple

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from hourline_core.errors import TableError, did_you_mean
from hourline_core.formats.arrow_types import arrow_type
from hourline_core.lookups.convert_column import convert_column
from hourline_core.lookups.limited_memory import ROWS_AT_ONCE, limited_database, map_rows, scan, working_folder
from hourline_core.model.lookup import Lookup
from hourline_core.model.scratch_columns import SCRATCH_PREFIX
from hourline_core.sql.literals import identifier

_MOMENT = pa.timestamp("us", tz="UTC")
_EVER, _NEVER = np.iinfo(np.int64).min, np.iinfo(np.int64).max
_PLACE = f"{SCRATCH_PREFIX}place"
_MICROSECONDS_OF_DAY = 86_400_000_000
_Mask = np.ndarray[tuple[int], np.dtype[np.bool_]]


class LookupRows(NamedTuple):
    """The rows of a lookup that events can find, and the number of those that none can."""

    rows: pa.Table
    """Of ``schema_of``, sorted by the key and the first declared bound of validity. They are in a mapped file."""
    null_keys: int
    """The number of rows with a null in their key, which are left out."""


def schema_of(lookup: Lookup) -> pa.Schema:
    """The columns of a lookup."""
    return pa.schema({name: arrow_type(column.tree) for name, column in lookup.columns.items()})


def schema_of_table(lookup: Lookup) -> pa.Schema:
    """The same, with their names in the table."""
    return pa.schema({named: schema_of(lookup).field(name).type for name, named in lookup.names_in_table.items()})


def refuse_missing(lookup: Lookup, there: Sequence[str]) -> None:
    """Raise TableError if a column is not among those that are ``there`` in the table."""
    for name in lookup.names_in_table.values():
        if name not in there:
            raise TableError(f"{lookup.table} has no column '{name}'{did_you_mean(name, there)}")


def take_rows(lookup: Lookup, read: Iterable[pa.Table], workspace: Path) -> LookupRows:
    """The rows of ``read``, which are parts of a table in its order. They have the declared columns with their names in
    the table. Beyond the memory for it, it works in files in ``workspace``.

    Raises TableError for a value of another type, a key that comes twice, validities that are empty or overlap, and if
    there is no space.
    """
    schema, null_keys = schema_of(lookup), 0
    with working_folder(workspace) as folder, limited_database(folder) as database:
        database.register("part", schema.empty_table())
        database.execute(f"CREATE TABLE found AS SELECT *, 0::BIGINT AS {_PLACE} FROM part")
        count = 0
        for part in read:
            columns = {name: _cast(lookup, name, part) for name in lookup.columns}
            has_key = np.ones(part.num_rows, np.bool_)
            for name in lookup.key:
                has_key &= columns[name].is_valid().to_numpy()
            null_keys += int(part.num_rows - has_key.sum())
            places = pa.array(np.arange(count, count + part.num_rows))
            rows = pa.table(columns, schema=schema).append_column(_PLACE, places)
            database.register("part", rows.filter(pa.array(has_key)))
            database.execute("INSERT INTO found FROM part")
            count += part.num_rows
        return LookupRows(map_rows(schema, _check(lookup, _sort(lookup, database)), folder), null_keys)


def _sort(lookup: Lookup, database: duckdb.DuckDBPyConnection) -> Iterator[pa.Table]:
    """The rows of ``found``, in parts."""
    order = [identifier(name) for name in lookup.key]
    if lookup.is_valid_at_times:  # A bound that is null stands for the earliest time.
        order.append(f"{identifier(str(lookup.valid_from or lookup.valid_to))} NULLS FIRST")
    # Of several rows with a key, the last one counts.
    order.append(f"{_PLACE} DESC" if lookup.on_duplicate == "first" else _PLACE)
    found = database.execute(f"SELECT * EXCLUDE ({_PLACE}) FROM found ORDER BY {', '.join(order)}")
    return (pa.Table.from_batches([batch]).cast(schema_of(lookup)) for batch in found.to_arrow_reader(ROWS_AT_ONCE))


def _check(lookup: Lookup, parts: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The sorted rows of ``parts`` that count. Raises TableError as ``take_rows`` does."""
    check = _without_overlap if lookup.is_valid_at_times else _without_duplicates
    held = schema_of(lookup).empty_table()
    for part in filter(len, parts):
        rows = check(lookup, pa.concat_tables([held, part]).combine_chunks())
        # The next part may have another row of the last key.
        yield rows.slice(0, rows.num_rows - 1)
        held = rows.slice(rows.num_rows - 1)
    yield held


def is_same(rows: pa.Table, stored: ds.Dataset) -> bool:
    """Whether ``rows`` are those that are ``stored``, in the same order. NaN is equal to itself."""
    if rows.schema.names != stored.schema.names or rows.num_rows != stored.count_rows():
        return False
    place = 0
    for batch in scan(stored, stored.schema.names).to_batches():
        part, of = pa.Table.from_batches([batch]), rows.slice(place, batch.num_rows)
        if not all(_bits(one).equals(_bits(other)) for one, other in zip(part.columns, of.columns, strict=True)):
            return False
        place += batch.num_rows
    return True


def _bits(column: pa.ChunkedArray) -> pa.Array:
    whole = column.combine_chunks()
    return whole.view(f"int{whole.type.bit_width}") if pa.types.is_floating(whole.type) else whole


def _cast(lookup: Lookup, name: str, part: pa.Table) -> pa.ChunkedArray:
    """The values of a column as declared. Nothing is rounded, and no time without a zone is taken for one in UTC."""
    declared, there = lookup.columns[name], part[lookup.names_in_table[name]].type
    if pa.types.is_dictionary(there):
        there = there.value_type
    to = arrow_type(declared.tree)
    suits = {
        "integer": pa.types.is_integer(there) or pa.types.is_decimal(there) or pa.types.is_floating(there),
        "floating": pa.types.is_integer(there) or (pa.types.is_floating(there) and there.bit_width <= _width(to)),
        "decimal": pa.types.is_integer(there) or pa.types.is_decimal(there),
        "text": pa.types.is_string(there) or pa.types.is_large_string(there) or pa.types.is_string_view(there),
        "boolean": pa.types.is_boolean(there),
        "date": pa.types.is_date(there),
        "timestamp": pa.types.is_timestamp(there) and there.tz is not None,
    }[_group(to)]
    if not suits and not pa.types.is_null(there):
        without = pa.types.is_timestamp(there) and there.tz is None
        hint = "; a time needs a zone" if without and _group(to) == "timestamp" else ""
        raise TableError(
            f"column '{lookup.names_in_table[name]}' of {lookup.table} is of type {there}, and declared as "
            f"{declared.type}{hint}: declare another type"
        )
    return convert_column(lookup, name, part, lambda values: _convert(values.cast(there), to, declared.type))


def _convert(values: pa.ChunkedArray, to: pa.DataType, declared: str) -> pa.ChunkedArray:
    """The values as they are ``declared``. Raises ValueError with what they are instead."""
    try:
        cast = values.cast(to)
        cast.validate(full=True)  # Arrow and Parquet take any bytes as a text, and DuckDB fails on those.
    except pa.ArrowInvalid as error:
        raise ValueError(f"a value that is no {declared}: {error}; mend the row") from error
    if not _is_within_calendar(cast):
        raise ValueError(
            f"a {declared} outside of the years 1 to 9999, which are allowed: mend the row, or use null for a bound "
            "that never comes"
        )
    return cast


def _is_within_calendar(values: pa.ChunkedArray) -> bool:
    """Whether dates and times are in the years that the types of events have. Python has no others."""
    first, end = (one - date(1970, 1, 1).toordinal() for one in (date.min.toordinal(), date.max.toordinal() + 1))
    if pa.types.is_date(values.type):
        numbers = values.cast(pa.int32())
    elif pa.types.is_timestamp(values.type):
        numbers, first, end = values.cast(pa.int64()), first * _MICROSECONDS_OF_DAY, end * _MICROSECONDS_OF_DAY
    else:
        return True
    found = pc.min_max(numbers).as_py()
    return found["min"] is None or (first <= found["min"] and found["max"] < end)


def _group(of: pa.DataType) -> str:
    if pa.types.is_floating(of):
        return "floating"
    if pa.types.is_string(of):
        return "text"
    return next(name for name in ("integer", "decimal", "boolean", "date", "timestamp") if _IS[name](of))


_IS = {
    "integer": pa.types.is_integer,
    "decimal": pa.types.is_decimal,
    "boolean": pa.types.is_boolean,
    "date": pa.types.is_date,
    "timestamp": pa.types.is_timestamp,
}


def _width(of: pa.DataType) -> int:
    return int(of.bit_width) if pa.types.is_floating(of) else 0


def _same_as_before(rows: pa.Table, names: tuple[str, ...]) -> _Mask:
    """For each of the sorted ``rows`` but the first, whether it has the same values as the row before."""
    same = np.ones(max(rows.num_rows - 1, 0), np.bool_)
    for name in names:
        column = rows[name].combine_chunks()
        same &= pc.equal(column[1:], column[:-1]).to_numpy(zero_copy_only=False)
    return same


def _without_duplicates(lookup: Lookup, rows: pa.Table) -> pa.Table:
    same = _same_as_before(rows, lookup.key)
    if not same.any():
        return rows
    if lookup.on_duplicate == "error":
        key = _key_text(lookup, rows, int(same.argmax()))
        ways = ", or declare on_duplicate: first or last" if lookup.kind in ("csv", "parquet") else ""
        raise TableError(
            f"{lookup.table} has several rows of {key}, allowed is one for each key: delete the others{ways}"
        )
    return rows.filter(pa.array(~np.append(same, False)))


def _without_overlap(lookup: Lookup, rows: pa.Table) -> pa.Table:
    """The rows. Raises TableError if the validity of one is empty, or two of one key overlap."""
    size = rows.num_rows
    starts, ends = np.full(size, _EVER, np.int64), np.full(size, _NEVER, np.int64)
    for name, bounds in ((lookup.valid_from, starts), (lookup.valid_to, ends)):
        if name is not None:
            times = rows[name].cast(_MOMENT)
            there = times.is_valid().to_numpy()
            bounds[there] = times.drop_null().cast(pa.int64()).to_numpy()
    if (starts >= ends).any():
        at = int((starts >= ends).argmax())
        raise TableError(
            f"{lookup.table} has a row of {_key_text(lookup, rows, at)} whose valid_from, {_time_text(starts[at])}, is "
            f"not before its valid_to, {_time_text(ends[at])}"
        )
    # The rows of a key are in the order of one of their bounds, and so in that of both unless they overlap.
    overlaps = _same_as_before(rows, lookup.key) & (ends[:-1] > starts[1:])
    if overlaps.any():
        at = int(overlaps.argmax())
        raise TableError(
            f"{lookup.table} has two rows of {_key_text(lookup, rows, at)} that are valid at "
            f"{_time_text(max(starts[at], starts[at + 1]))}, allowed is one at each time"
        )
    return rows


def _time_text(micros: int) -> str:
    if micros in (_EVER, _NEVER):
        return "null"
    return f"{pa.scalar(int(micros), _MOMENT).as_py():%Y-%m-%d %H:%M:%S} UTC"


def _key_text(lookup: Lookup, rows: pa.Table, at: int) -> str:
    return ", ".join(f"{name} {rows[name][at].as_py()!r}" for name in lookup.key)
