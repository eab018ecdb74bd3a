"""Finds the keys whose events meet other rows in one version of a lookup than in another, and at which event times."""

from collections.abc import Collection, Iterator
from itertools import groupby, pairwise
from typing import Any

import duckdb
import pyarrow as pa

from hourline_core.lookups.join import EVER, NEVER, bound_of
from hourline_core.lookups.rows import schema_of
from hourline_core.model import Lookup
from hourline_core.model.scratch_columns import SCRATCH_PREFIX
from hourline_core.sql.literals import identifier

FIRST, END = f"{SCRATCH_PREFIX}first", f"{SCRATCH_PREFIX}end"
"""bigint: the event times of the change, in microseconds since 1970; the second one is exclusive."""
_Row = tuple[int, int, str]
"""The validity of a row, and its values as text, in which NaN is equal to itself."""


def key_columns(lookup: Lookup) -> list[str]:
    """The columns of the keys in ``find_changes``."""
    return [f"{SCRATCH_PREFIX}key_{place}" for place in range(len(lookup.key))]


def find_changes(lookup: Lookup, before: pa.Table, now: pa.Table, values: Collection[str]) -> pa.Table:
    """The keys (``key_columns``), with FIRST and END, at which ``values``, columns of the lookup, differ between two
    versions, or of which one alone has a row. A key may have several spans.
    """
    bounds = [name for name in (lookup.valid_from, lookup.valid_to) if name]
    columns = list(dict.fromkeys([*lookup.key, *bounds, *values]))
    before, now = before.select(columns), now.select(columns)
    with duckdb.connect() as connection:
        changed = _find_keys(connection, lookup, before, now)
        if not lookup.is_valid_at_times:
            spans = {FIRST: pa.repeat(EVER, changed.num_rows), END: pa.repeat(NEVER, changed.num_rows)}
            return pa.table({**dict(zip(key_columns(lookup), changed.columns, strict=True)), **spans})
        versions = [_rows_by_key(connection, lookup, rows, changed, values) for rows in (before, now)]
    found = [
        (*key, first, end)
        for key in {**versions[0], **versions[1]}
        for first, end in _find_spans(*(rows.get(key, []) for rows in versions))
    ]
    types = [schema_of(lookup).field(name).type for name in lookup.key]
    names = [*key_columns(lookup), FIRST, END]
    listed = zip(*found, strict=True) if found else [[] for _ in names]
    arrays = [pa.array(list(one), of) for one, of in zip(listed, [*types, pa.int64(), pa.int64()], strict=True)]
    return pa.table(arrays, names)


def _find_keys(connection: duckdb.DuckDBPyConnection, lookup: Lookup, before: pa.Table, now: pa.Table) -> pa.Table:
    """The keys of rows that one version alone has."""
    connection.register("before", before)
    connection.register("now", now)
    keys = ", ".join(map(identifier, lookup.key))
    rows = "(FROM before EXCEPT FROM now) UNION ALL (FROM now EXCEPT FROM before)"
    return connection.execute(f"SELECT DISTINCT {keys} FROM ({rows}) ORDER BY ALL").to_arrow_table()


def _rows_by_key(
    connection: duckdb.DuckDBPyConnection, lookup: Lookup, rows: pa.Table, changed: pa.Table, values: Collection[str]
) -> dict[tuple[Any, ...], list[_Row]]:
    """The rows of the keys ``changed``, by key, in the order of their validity."""
    bounds = {FIRST: bound_of(rows, lookup.valid_from, EVER), END: bound_of(rows, lookup.valid_to, NEVER)}
    names = key_columns(lookup)
    read = pa.table(
        {
            **dict(zip(names, rows.select(list(lookup.key)).columns, strict=True)),
            **bounds,
            **{f"v{place}": rows[name] for place, name in enumerate(sorted(values))},
        }
    )
    connection.register("read", read)
    connection.register("changed", changed.rename_columns(names))
    chosen = connection.execute(f"FROM read SEMI JOIN changed USING ({', '.join(names)}) ORDER BY ALL").to_arrow_table()
    listed = ((row[: len(names)], row[len(names) :]) for row in zip(*(one.to_pylist() for one in chosen), strict=True))
    return {
        key: [(first, end, repr(of)) for _, (first, end, *of) in of_key]
        for key, of_key in groupby(listed, key=lambda row: row[0])
    }


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
