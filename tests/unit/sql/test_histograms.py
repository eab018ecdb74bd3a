"""Quantiles of histograms that DuckDB folds and merges, beside sorted Python lists."""

import math
from collections.abc import Iterator

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hourline_core.aggregates import StateColumn, aggregate_of
from hourline_core.model import Measure
from hourline_core.sql.histograms import install_histogram_functions

MAGNITUDES = st.sampled_from([1e-9, 1e18]) | st.floats(1e-9, 1e18)
NUMBERS = st.none() | st.just(0.0) | MAGNITUDES | MAGNITUDES.map(lambda x: -x)
GROUPS = st.lists(st.lists(st.tuples(NUMBERS, st.integers(0, 3)), min_size=1, max_size=30), min_size=1, max_size=8)


@pytest.fixture(scope="module")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        install_histogram_functions(connection)
        yield connection


def fold(database: duckdb.DuckDBPyConnection, groups: list[list[tuple[float | None, int]]]) -> None:
    """The table ``tiles`` (g, part, h), which has several tiles of each group."""
    aggregate = aggregate_of(Measure.parse("median(x)"))
    # DuckDB can evaluate what Spark evaluates of an event.
    (bucket,) = aggregate.values("double")
    (folded,) = aggregate.folds(["bucket"])
    database.execute("CREATE OR REPLACE TABLE events (g INT, part INT, x DOUBLE)")
    rows = [(number, part, x) for number, group in enumerate(groups) for x, part in group]
    database.executemany("INSERT INTO events VALUES (?, ?, ?)", rows)
    database.execute(
        f"CREATE OR REPLACE TABLE tiles AS SELECT g, part, {folded} AS h "
        f"FROM (SELECT *, {bucket} AS bucket FROM events) GROUP BY g, part"
    )


@settings(deadline=None, max_examples=50)
@given(groups=GROUPS, q=st.sampled_from([0.0, 0.5, 1.0]) | st.floats(0, 1))
def test_a_quantile_is_within_one_per_cent_however_its_parts_are_merged(
    database: duckdb.DuckDBPyConnection, groups: list[list[tuple[float | None, int]]], q: float
) -> None:
    fold(database, groups)
    at_once = dict(database.execute("SELECT g, quantile_value(h, ?) FROM tiles GROUP BY g", [q]).fetchall())
    merges = aggregate_of(Measure.parse("median(x)")).merges([StateColumn("h", "")])
    halves = f"SELECT g, {merges[0]} AS h FROM (FROM tiles ORDER BY random()) GROUP BY g, part % 2"
    assert at_once == dict(
        database.execute(f"SELECT g, quantile_value(h, ?) FROM ({halves}) GROUP BY g", [q]).fetchall()
    )
    for number, group in enumerate(groups):
        known = sorted(x for x, _ in group if x is not None)
        if known:
            want = known[math.floor(q * (len(known) - 1) + 1e-9)]
            assert math.isclose(at_once[number], want, rel_tol=0.01 + 1e-9), (known, q)
        else:
            assert at_once[number] is None


def test_a_rank_that_doubles_miss_is_the_whole_number(database: duckdb.DuckDBPyConnection) -> None:
    fold(database, [[(1.0 if number < 29 else 100.0, 0) for number in range(101)]])
    ((found,),) = database.execute("SELECT quantile_value(h, 0.29) FROM tiles").fetchall()
    assert math.isclose(found, 100, rel_tol=0.01)


def test_merged_parts_have_one_bucket_for_each_number_in_order(database: duckdb.DuckDBPyConnection) -> None:
    fold(database, [[(x, part) for part in range(3) for x in (5.0, -1.0, 0.0, 5.0)]])
    ((histogram,),) = database.execute("SELECT quantile_merge(h) FROM tiles").fetchall()
    assert [bucket["y"] for bucket in histogram] == [3, 3, 6]
    assert histogram == sorted(histogram, key=lambda bucket: bucket["x"])


@pytest.mark.parametrize("q", ["2", "-0.5", "'nan'"])
def test_a_quantile_beyond_0_and_1_is_refused(database: duckdb.DuckDBPyConnection, q: str) -> None:
    fold(database, [[(1.0, 0)]])
    with pytest.raises(duckdb.Error, match="allowed are 0 to 1"):
        database.execute(f"SELECT quantile_value(h, {q}) FROM tiles").fetchall()
