"""The most frequent values that DuckDB folds and merges, beside Python's Counter."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hourline_core.aggregates import StateColumn, aggregate_of
from hourline_core.aggregates.top import MOST_VALUES
from hourline_core.model import Measure
from hourline_core.sql.frequencies import install_frequency_functions

TOP = aggregate_of(Measure.parse("top(x, 3)"))
TEXTS = st.sampled_from(["", " ", "a", "A", "b", "é", "e\u0301", "\x00", "a\x00b", "😀", "\uffff"])
EVENTS = st.lists(st.tuples(st.none() | TEXTS, st.integers(0, 5)), max_size=60)
Events = Sequence[tuple[str | None, int]]


@pytest.fixture(scope="module")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        install_frequency_functions(connection)
        yield connection


def fold(database: duckdb.DuckDBPyConnection, events: Events) -> None:
    """The table ``tiles`` (part, s, s__n). There is a tile without a value, too."""
    columns = [list(column) for column in zip(*events, (None, 0), strict=True)]
    database.execute("CREATE OR REPLACE TABLE events AS SELECT unnest(?::VARCHAR[]) AS x, unnest(?) AS part", columns)
    sketch, n = TOP.folds(["x"])
    database.execute(f"CREATE OR REPLACE TABLE tiles AS SELECT part, {sketch} AS s, {n} AS s__n FROM events GROUP BY 1")


def merge(database: duckdb.DuckDBPyConnection, parts: str) -> list[dict[str, Any]] | None:
    """The finished value of all tiles. Those with the same ``parts`` (SQL) are merged first."""
    sketch, n = TOP.merges([StateColumn("s", ""), StateColumn("s__n", "BIGINT")])
    some = f"SELECT {sketch} AS s, {n} AS s__n FROM (FROM tiles ORDER BY random()) GROUP BY {parts}"
    ((found,),) = database.execute(f"SELECT {TOP.finish([sketch, n])} FROM ({some})").fetchall()
    answer: list[dict[str, Any]] | None = found
    return answer


@settings(deadline=None, max_examples=50)
@given(events=EVENTS)
def test_the_counts_are_exact_however_parts_are_merged(database: duckdb.DuckDBPyConnection, events: Events) -> None:
    fold(database, events)
    counts = Counter(x for x, _ in events if x is not None)
    ordered = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    want = [{"value": value, "count": count, "error": 0} for value, count in ordered[:3]] or None
    for parts in ("part", "part % 2", "true"):
        assert merge(database, parts) == want
    ((rolled_up,),) = database.execute("SELECT top_values(s, s__n, 3) FROM tiles").fetchall()
    assert rolled_up == want


def test_the_largest_number_of_values_that_are_exact(database: duckdb.DuckDBPyConnection) -> None:
    for number, error in ((MOST_VALUES, 0), (MOST_VALUES + 1, 1)):
        fold(database, [(str(value), value % 6) for value in (*range(number), 7, 7)])
        assert merge(database, "part % 2") == [
            {"value": "7", "count": 3 - error, "error": error},
            *([] if error else [{"value": value, "count": 1, "error": 0} for value in ("0", "1")]),
        ]


def test_a_sketch_that_has_dropped_all_of_its_values_is_within_the_told_error(
    database: duckdb.DuckDBPyConnection,
) -> None:
    once = [(str(value), 0) for value in range(MOST_VALUES + 1)]
    fold(database, once)
    assert merge(database, "part") == [{"value": None, "count": 0, "error": 3}]
    fold(database, [*once, *[("7", 1)] * 5])
    for parts in ("part", "true"):
        found = merge(database, parts)
        assert found is not None and [one["value"] for one in found] == ["7"]
        assert int(found[0]["count"]) <= 6 <= int(found[0]["count"]) + int(found[0]["error"])


@pytest.mark.parametrize("times", [1, 4])
def test_where_no_value_is_left_the_list_tells_how_often_each_may_come(
    database: duckdb.DuckDBPyConnection, times: int
) -> None:
    events = [(str(value), part) for part in range(3) for value in range(MOST_VALUES + 1) for _ in range(times)]
    fold(database, events)
    for parts in ("part", "part % 2", "true"):
        found = merge(database, parts)
        assert found is not None and [(one["value"], one["count"]) for one in found] == [(None, 0)]
        assert 3 * times <= int(found[0]["error"]) < 0.002 * len(events)
    # Another value beside them is found, and those that are not listed come no more often than the list says.
    fold(database, [*events, *[("often", 1)] * 50])
    found = merge(database, "part % 2")
    assert found is not None and found[0]["value"] == "often"
    assert int(found[0]["count"]) <= 50 <= int(found[0]["count"]) + int(found[0]["error"])
    assert 3 * times <= int(found[-1]["count"]) + int(found[-1]["error"])


@pytest.mark.parametrize("parts", ["part", "part % 2", "true"])
def test_beyond_it_the_true_count_is_within_the_told_error(database: duckdb.DuckDBPyConnection, parts: str) -> None:
    # The n-th value comes about 6,000/n times, and no two of the most frequent ones equally often.
    values = [str(n) for n in range(1, 4_000) for _ in range(6_000 // n)]
    fold(database, [(value, place % 6) for place, value in enumerate(values)])
    found = merge(database, parts)
    assert found is not None and [one["value"] for one in found] == ["1", "2", "3"]
    for one in found:
        count, error = int(one["count"]), int(one["error"])
        assert count <= 6_000 // int(one["value"]) <= count + error
        assert 0 < error < 0.002 * len(values)


def test_the_order_of_the_rows_does_not_change_an_answer(database: duckdb.DuckDBPyConnection) -> None:
    # Each part drops other values, and how many of them depends on what was merged before.
    fold(database, [(str(n * (part + 1)), part) for part in range(6) for n in range(1, 900) for _ in range(n % 7)])
    orders = [
        f"SELECT top_values(s, s__n, 100) FROM (FROM tiles ORDER BY {key})" for key in ("part", "-part", "part % 3")
    ]
    assert len({str(database.execute(order).fetchall()) for order in orders}) == 1


def test_a_list_of_no_values_is_refused(database: duckdb.DuckDBPyConnection) -> None:
    fold(database, [("a", 0)])
    with pytest.raises(duckdb.Error, match="allowed is 1 or more"):
        database.execute("SELECT top_values(s, s__n, 0) FROM tiles").fetchall()


def test_bytes_that_are_no_sketch_are_named(database: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(duckdb.Error, match="got 3 bytes that are no sketch of frequent values"):
        database.execute("SELECT top_values(frequency_state('abc'::BLOB), 1, 1)").fetchall()
