"""Finds the keys whose events meet other rows in one version of a lookup than in another, and at which event times."""

from collections.abc import Collection, Iterable, Iterator
from itertools import chain, groupby, islice, pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from hourline_core.lookups.limited_memory import ROWS_AT_ONCE, limited_database, scan, working_folder
from hourline_core.lookups.loaded import EVER, NEVER
from hourline_core.lookups.rows import schema_of
from hourline_core.model import Lookup
from hourline_core.model.scratch_columns import SCRATCH_PREFIX
from hourline_core.sql.literals import identifier

FIRST, END = f"{SCRATCH_PREFIX}first", f"{SCRATCH_PREFIX}end"
"""bigint: the event times of the change, in microseconds since 1970; the second one is exclusive."""
_SIDE = f"{SCRATCH_PREFIX}side"
_Row = tuple[int, int, str]
"""The validity of a row, and its values as text, in which NaN is equal to itself."""


def key_columns(lookup: Lookup) -> list[str]:
    """The columns of the keys in ``find_changes``."""
    return [f"{SCRATCH_PREFIX}key_{place}" for place in range(len(lookup.key))]


def find_changes(
    lookup: Lookup, before: ds.Dataset, now: ds.Dataset, values: Collection[str], workspace: Path
) -> pa.Table:
    """The keys (``key_columns``), with FIRST and END, at which ``values``, columns of the lookup, differ between two
    versions, or of which one alone has a row. A key may have several spans. Beyond the memory for it, it works in files
    in ``workspace``. Raises TableError if there is no space for that.
    """
    names, bounds = key_columns(lookup), [name for name in (lookup.valid_from, lookup.valid_to) if name]
    columns_read = list(dict.fromkeys([*lookup.key, *bounds, *values]))
    with working_folder(workspace) as folder, limited_database(folder) as database:
        database.register("before", scan(before, columns_read))
        database.register("now", scan(now, columns_read))
        of_row = [f"{identifier(column)} AS {name}" for column, name in zip(lookup.key, names, strict=True)]
        of_row.append(f"{_bound_sql(lookup.valid_from, EVER)} AS {FIRST}")
        of_row.append(f"{_bound_sql(lookup.valid_to, NEVER)} AS {END}")
        of_row += [f"{identifier(value)} AS v{place}" for place, value in enumerate(sorted(values))]
        columns = ", ".join(of_row)
        database.execute(f"""
            CREATE VIEW versions AS
            SELECT {columns}, 1 AS {_SIDE} FROM before UNION ALL SELECT {columns}, -1 FROM now""")
        keys = ", ".join(names)
        of_one = f"SELECT * EXCLUDE ({_SIDE}) FROM versions GROUP BY ALL HAVING sum({_SIDE}) <> 0"
        database.execute(f"CREATE TABLE changed AS SELECT DISTINCT {keys} FROM ({of_one})")
        if not lookup.is_valid_at_times:
            spans = f"{_bound_sql(None, EVER)} AS {FIRST}, {_bound_sql(None, NEVER)} AS {END}"
            return database.execute(f"SELECT *, {spans} FROM changed ORDER BY {keys}").to_arrow_table()
        chosen = f"FROM versions SEMI JOIN changed USING ({keys}) ORDER BY {keys}, {FIRST}"
        return _find_all_spans(lookup, database.execute(chosen).to_arrow_reader(ROWS_AT_ONCE))


def _bound_sql(name: str | None, otherwise: int) -> str:
    time = f"epoch_us({identifier(name)}::TIMESTAMPTZ)" if name else "NULL"
    return f"coalesce({time}, '{otherwise}'::BIGINT)"  # As a number, the earliest one is too large before its minus.


def _find_all_spans(lookup: Lookup, rows: Iterable[pa.RecordBatch]) -> pa.Table:
    """The changes of the keys of ``rows``, which are sorted by key and validity, and are all that both versions have of
    these keys.
    """
    keys = len(lookup.key)
    types = [schema_of(lookup).field(name).type for name in lookup.key]
    schema = pa.schema(list(zip([*key_columns(lookup), FIRST, END], [*types, pa.int64(), pa.int64()], strict=True)))
    listed = chain.from_iterable(zip(*(column.to_pylist() for column in part.columns), strict=True) for part in rows)
    found = (
        (*key, first, end)
        for key, of_key in groupby(listed, key=lambda row: row[:keys])
        for first, end in _find_spans(*_by_side(row[keys:] for row in of_key))
    )
    parts = [schema.empty_table()]
    while some := list(islice(found, ROWS_AT_ONCE)):
        arrays = [pa.array(values, of.type) for values, of in zip(zip(*some, strict=True), schema, strict=True)]
        parts.append(pa.table(arrays, schema=schema))
    return pa.concat_tables(parts)


def _by_side(rows: Iterable[tuple[Any, ...]]) -> tuple[list[_Row], list[_Row]]:
    """The rows of one key in each of both versions."""
    before: list[_Row] = []
    now: list[_Row] = []
    for first, end, *values, side in rows:
        (before if side > 0 else now).append((first, end, repr(values)))
    return before, now


def _find_spans(before: list[_Row], now: list[_Row]) -> Iterator[tuple[int, int]]:
    """The spans of time in which the rows that are valid then differ. Neighbours are joined."""
    bounds = sorted({bound for first, end, _ in (*before, *now) for bound in (first, end)})
    differ = [(first, end) for first, end in pairwise(bounds) if _at(before, first) != _at(now, first)]
    while differ:
        first, end = differ.pop(0)
        while differ and differ[0][0] == end:
            _, end = differ.pop(0)
        yield first, end


def _at(rows: list[_Row], time: int) -> str | None:
    return next((values for first, end, values in rows if first <= time < end), None)
