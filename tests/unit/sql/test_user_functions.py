"""User-defined measures in DuckDB: whatever the parts, their value is that of all events."""

import statistics
from collections.abc import Mapping
from functools import cache
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hourline_core.aggregates import StateColumn, aggregate_of
from hourline_core.aggregates.user_classes.measure_class import load_class
from hourline_core.aggregates.user_defined import find_failed
from hourline_core.errors import SetupError
from hourline_core.model import Measure, Metric, UserMeasure
from hourline_core.sql.user_functions import install_functions
from tests.support.examples import examples
from tests.support.user_classes import SPREAD, user_measure

MEASURES = {
    "spread": user_measure("spread", "x"),
    "weighted": user_measure("weighted_mean", "x, weight"),
    "words": user_measure("known_words", "word"),
}
PICKY = {
    "spread": Measure(
        kind="user_defined",
        argument="x",
        user_measure=UserMeasure(
            name="picky",
            code=SPREAD.replace("class Spread", "class Picky").replace(
                "def add(self, state, x):", "def add(self, state, x):\n        assert x % 3"
            ),
        ),
    )
}
"""It fails for each third x."""
COLUMNS = {"spread": ["x"], "weighted": ["x", "weight"], "words": ["word"]}
ROW = st.fixed_dictionaries(
    {
        "part": st.integers(0, 3),
        "x": st.none() | st.integers(-1000, 1000),
        "weight": st.none() | st.integers(1, 9).map(float),
        "word": st.none() | st.sampled_from(["", "a", "é", "a,b"]),
    }
)
TYPES = pa.schema(
    {
        "part": pa.int32(),
        "x": pa.int32(),
        "weight": pa.float64(),
        "word": pa.string(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
    }
)


@cache
def connect() -> duckdb.DuckDBPyConnection:
    """One for all examples: to open it takes longer than to ask it."""
    connection = duckdb.connect()
    install_functions(connection, [Metric(name="m", source="s", measures=of) for of in (MEASURES, PICKY)])
    return connection


def table(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(
        [{**row, "topic": "t", "partition": 0, "offset": n} for n, row in enumerate(rows)], TYPES
    )


def expected(rows: list[dict[str, Any]]) -> dict[str, Any]:
    xs = [row["x"] for row in rows if row["x"] is not None]
    pairs = [(row["x"], row["weight"]) for row in rows if row["x"] is not None and row["weight"] is not None]
    words = {row["word"] for row in rows if row["word"] is not None}
    return {
        "spread": float(statistics.variance(xs)) if len(xs) > 1 else None,
        "weighted": sum(x * weight for x, weight in pairs) / sum(weight for _, weight in pairs) if pairs else None,
        "words": ",".join(sorted(words)) if words else None,
    }


def merged(
    connection: duckdb.DuckDBPyConnection, states: pa.Table, measures: Mapping[str, Measure] = MEASURES
) -> dict[str, Any]:
    values = []
    for name, measure in measures.items():
        aggregate = aggregate_of(measure)
        merges = aggregate.merges([StateColumn(name, ""), StateColumn(f"{name}__n", "BIGINT")])
        values.append(f"{aggregate.finish(merges)} AS {name}")
    connection.register("states", states)
    (row,) = connection.execute(f"SELECT {', '.join(values)} FROM states").to_arrow_table().to_pylist()
    return dict(row)


def check(got: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    want = expected(rows)
    assert got["words"] == want["words"]
    for name in ("spread", "weighted"):
        assert got[name] == (None if want[name] is None else pytest.approx(want[name], rel=1e-9, abs=1e-9)), name


@given(rows=st.lists(ROW, min_size=1, max_size=30))
@settings(max_examples=examples(30), deadline=None)
def test_folded_parts_merge_to_the_whole(rows: list[dict[str, Any]]) -> None:
    connection = connect()
    check(merged(connection, folded_parts(connection, rows, MEASURES)), rows)


def folded_parts(
    connection: duckdb.DuckDBPyConnection, rows: list[dict[str, Any]], measures: Mapping[str, Measure]
) -> pa.Table:
    """The states of each part."""
    connection.register("events", table(rows))
    folds = []
    for name, measure in measures.items():
        columns = [*(there(name, column) for column in COLUMNS[name]), "topic", "partition", '"offset"']
        state, n = aggregate_of(measure).folds(columns)
        folds += [f"{state} AS {name}", f"{n} AS {name}__n"]
    return connection.execute(
        f"SELECT {', '.join(folds)} FROM events GROUP BY part ORDER BY part DESC"
    ).to_arrow_table()


@given(rows=st.lists(ROW, min_size=1, max_size=30))
@settings(max_examples=examples(30), deadline=None)
def test_a_part_that_a_class_fails_for_is_never_lost_from_the_whole(rows: list[dict[str, Any]]) -> None:
    """With the events that it fails for, the whole has no value. Without them, it has that of all others."""
    connection = connect()
    states = folded_parts(connection, rows, PICKY)
    fails = [row["x"] is not None and row["x"] % 3 == 0 for row in rows]
    assert find_failed(Metric(name="m", source="s", measures=PICKY), states) == any(fails)
    assert PICKY["spread"].user_measure
    blamed = load_class(PICKY["spread"].user_measure).blame_events([table(rows)["x"].combine_chunks()])
    assert [message is not None for message in blamed] == fails
    if any(fails):
        assert merged(connection, states, PICKY) == {"spread": None}
    others = [row for row, message in zip(rows, blamed, strict=True) if message is None]
    want = expected(others)["spread"]
    got = merged(connection, folded_parts(connection, others, PICKY), PICKY)
    assert got == {"spread": None if want is None else pytest.approx(want, rel=1e-9, abs=1e-9)}


def there(name: str, column: str) -> str:
    """A column as ``UserDefined.values`` gives it: null unless all arguments are there."""
    return f"CASE WHEN {' AND '.join(f'{one} IS NOT NULL' for one in COLUMNS[name])} THEN {column} END"


def test_a_class_that_cannot_be_used_where_answers_are_read_is_told() -> None:
    absent = UserMeasure(name="far", code="import not_installed_here\nclass Far: ...\n")
    measures = {"x": Measure(kind="user_defined", argument="x", user_measure=absent)}
    with pytest.raises(SetupError) as caught:
        install_functions(duckdb.connect(), [Metric(name="m", source="s", measures=measures)])
    assert str(caught.value) == (
        "the measure 'far' cannot be used here: measures/far.py:1: ModuleNotFoundError: No module named "
        "'not_installed_here'"
    )
