"""Distinct counts rolled up over hours and dimensions are those of all their values together, however often and in
whatever order they are merged.
"""

from collections.abc import Iterator

import duckdb
import pyarrow as pa
import pytest
from datasketches import update_theta_sketch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hourline_core.sql.database import connect
from hourline_core.sql.sketches import install_sketch_functions

ROW = st.tuples(st.integers(0, 3), st.sampled_from(["a", "b", "c", None]), st.sets(st.integers(0, 60)))
"""Hour, dimension, the values of one tile."""


@pytest.fixture
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    with connect() as database:
        install_sketch_functions(database)
        yield database


def sketch(values: set[int]) -> bytes:
    sketch = update_theta_sketch(12)
    for value in values:
        sketch.update(value)
    return bytes(sketch.compact().serialize())


def register(database: duckdb.DuckDBPyConnection, rows: list[tuple[int, str | None, set[int]]]) -> None:
    schema = pa.schema({"hour": pa.int64(), "shop": pa.string(), "visitors": pa.binary()})
    # A tile without any value has no sketch, as after a column was added.
    states = [
        {"hour": hour, "shop": shop, "visitors": sketch(values) if values else None} for hour, shop, values in rows
    ]
    database.register("states", pa.Table.from_pylist(states, schema))


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(ROW, max_size=12))
def test_every_roll_up_counts_each_value_once(
    database: duckdb.DuckDBPyConnection, rows: list[tuple[int, str | None, set[int]]]
) -> None:
    register(database, rows)
    for keys in ([], ["hour"], ["shop"], ["hour", "shop"]):
        want: dict[tuple[object, ...], set[int]] = {} if keys else {(): set()}
        for hour, shop, values in rows:
            known = {"hour": hour, "shop": shop}
            want.setdefault(tuple(known[key] for key in keys), set()).update(values)
        columns, grouped = "".join(f"{key}, " for key in keys), f"GROUP BY {', '.join(keys)}" if keys else ""
        merged = "SELECT hour, shop, distinct_merge(visitors) AS visitors FROM states GROUP BY hour, shop"
        for source in ("states", f"({merged})", f"({merged} ORDER BY random())"):
            got = database.execute(f"SELECT {columns}distinct_count(visitors) FROM {source} {grouped}").fetchall()
            assert {tuple(key): count for *key, count in got} == {key: len(values) for key, values in want.items()}


def test_a_roll_up_of_many_values_is_near_the_truth_and_the_same_in_any_grouping(
    database: duckdb.DuckDBPyConnection,
) -> None:
    register(database, [(part % 4, "abc"[part % 3], set(range(900 * part, 900 * part + 1800))) for part in range(24)])
    ((at_once,),) = database.execute("SELECT distinct_count(visitors) FROM states").fetchall()
    for key in ("hour", "shop"):
        parts = f"SELECT distinct_merge(visitors) AS visitors FROM states GROUP BY {key}"
        assert database.execute(f"SELECT distinct_count(visitors) FROM ({parts})").fetchall() == [(at_once,)]
    assert at_once == pytest.approx(900 * 25, rel=0.05)
