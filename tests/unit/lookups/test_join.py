"""Events find the rows of lookups that a naive pass finds, where tasks evaluate expressions."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hourline_core.compute.lookup_columns import add_lookup_columns, native_lookups
from hourline_core.compute.native_expressions import translate
from hourline_core.errors import TableError
from hourline_core.ledger.layout import Layout
from hourline_core.lookups import join
from hourline_core.lookups.join import PinnedLookup
from hourline_core.lookups.loaded import LoadedLookup
from hourline_core.lookups.versions import commit_version, open_versions
from hourline_core.model import Lookup, Source
from hourline_core.model.scratch_columns import EVENT_TIME, SEQUENCE
from tests.support.examples import examples
from tests.support.lookup_rows import take
from tests.unit.lookups.test_lookup_rows import LATEST, MOMENT, PRICE, READ, START, matches, prices

BOUNDS = [-1, 1_000_000]
"""The maximum numbers of rows that are loaded: none, or all."""
EVENTS = pa.schema({"kind": pa.string(), "size": pa.int32(), EVENT_TIME: MOMENT, SEQUENCE: pa.int64()})

events = st.lists(
    st.fixed_dictionaries(
        {
            "kind": st.sampled_from(["a", "b", "c", None]),
            "size": st.sampled_from([1, 2, None]),
            EVENT_TIME: st.integers(-1, 10).map(lambda half: START + timedelta(hours=12 * half)),
            SEQUENCE: st.integers(1, 9),
        }
    ),
    max_size=6,
)


def sold(lookup: Lookup) -> Source:
    """A source that uses ``lookup`` twice."""
    declared = {
        "name": "sales",
        "topic": "sales",
        "fields": {"kind": "string", "size": "int", "at": "timestamp"},
        "event_time": "at",
        "lookups": {"price": ["kind", "size"], "other": {"lookup": "price", "key": ["substring(kind, 1)", "2"]}},
    }
    return Source.model_validate(declared).bind_lookups({"price": lookup})


@pytest.mark.parametrize("most_rows", BOUNDS)
@settings(max_examples=examples(50))
@given(prices, events, st.sampled_from([LATEST, PRICE]))
def test_each_event_finds_the_row_that_a_naive_pass_finds(
    most_rows: int, rows: list[dict[str, Any]], sales: list[dict[str, Any]], lookup: Lookup
) -> None:
    try:
        found = look_up([rows], sales, lookup, most_rows)
    except TableError:
        return
    assert found == expected(rows, sales, lookup)


@pytest.mark.parametrize("most_rows", BOUNDS)
@settings(max_examples=examples(50))
@given(
    st.lists(prices, min_size=3, max_size=3),
    st.lists(st.tuples(st.integers(1, 8), st.integers(0, 2)), max_size=4, unique_by=lambda one: one[0]).map(sorted),
    events,
    st.sampled_from([LATEST, PRICE]),
)
def test_each_event_finds_the_row_in_the_version_that_its_micro_batch_used(
    most_rows: int,
    versions: list[list[dict[str, Any]]],
    used: list[tuple[int, int]],
    sales: list[dict[str, Any]],
    lookup: Lookup,
) -> None:
    try:
        found = look_up(versions, sales, lookup, most_rows, used)
    except TableError:
        return
    wanted = []
    for sale in sales:
        version = next((version for last, version in used if sale[SEQUENCE] <= last), len(versions) - 1)
        wanted += expected(versions[version], [sale], lookup)
    assert found == wanted


@pytest.mark.parametrize("most_rows", BOUNDS)
@pytest.mark.parametrize("at_once", [3, 200])
def test_few_and_many_events_find_the_rows_that_are_valid_at_their_times(at_once: int, most_rows: int) -> None:
    bounds = [None, START, START + timedelta(days=2), None]
    rows = [
        {"k": kind, "l": size, "since": since, "until": until, "v": number}
        for kind in ("a", "b")
        for size in (1, 2)
        for number, (since, until) in enumerate(pairwise(bounds))
    ]
    sales = [
        {"kind": kind, "size": size, EVENT_TIME: START + timedelta(hours=12 * half), SEQUENCE: 1}
        for half in range(-1, 6)
        for kind in ("a", "b", "c", None)
        for size in (1, 2, None)
    ]
    for first in range(0, len(sales), at_once):
        some = sales[first : first + at_once]
        assert look_up([rows], some, PRICE, most_rows) == expected(rows, some, PRICE)


def look_up(
    versions: Sequence[list[dict[str, Any]]],
    sales: list[dict[str, Any]],
    lookup: Lookup,
    most_rows: int,
    used: Sequence[tuple[int, int]] = (),
) -> list[dict[str, Any]]:
    """What the expressions give for ``sales``. Raises TableError for rows that are refused. The newest of ``versions``
    is the last one. Those with more than ``most_rows`` rows are not loaded.
    """
    taken = [take(lookup, pa.Table.from_pylist(rows, READ)).rows for rows in versions]
    source = sold(lookup)
    expressions = {"mine": translate(source, "Price.v"), "same": translate(source, "other.V < 5")}
    assert [of.type for of in expressions.values() if of] == ["bigint", "boolean"]
    found = native_lookups(source, [of.sql for of in expressions.values() if of])
    assert found is not None
    with (
        duckdb.connect() as connection,
        pytest.MonkeyPatch.context() as patch,
        TemporaryDirectory() as folder,
    ):
        connection.execute("SET TimeZone = 'UTC'")
        patch.setattr(join, "_MOST_ROWS", most_rows)
        layout = Layout(folder)
        numbers = [commit_version(layout, lookup, open_versions(layout, lookup), rows).number for rows in taken]
        kept = tuple((last, numbers[version]) for last, version in used)
        pinned = {"price": PinnedLookup(lookup, layout, numbers[-1], kept)}
        added = add_lookup_columns(connection, pa.Table.from_pylist(sales, EVENTS), found, pinned)
        connection.register("added", added)
        selected = ", ".join(f"{of.sql} AS {name}" for name, of in expressions.items() if of)
        got: list[dict[str, Any]] = connection.execute(f"SELECT {selected} FROM added").to_arrow_table().to_pylist()
    return got


def expected(rows: list[dict[str, Any]], sales: list[dict[str, Any]], lookup: Lookup) -> list[dict[str, Any]]:
    """The same by a naive pass."""
    at_times = lookup is PRICE
    return [
        {
            "mine": naive(rows, (sale["kind"], sale["size"]), sale[EVENT_TIME], at_times=at_times),
            "same": below(naive(rows, (sale["kind"], 2), sale[EVENT_TIME], at_times=at_times)),
        }
        for sale in sales
    ]


def below(value: int | None) -> bool | None:
    return None if value is None else value < 5


def naive(rows: list[dict[str, Any]], key: tuple[Any, Any], time: datetime, *, at_times: bool) -> int | None:
    """The value of the row of the key, at the time if rows are valid at times."""
    for row in rows:
        bounds: Mapping[str, Any] = {} if at_times else {"since": None, "until": None}
        if None not in key and matches([{**row, **bounds}], key, time):
            return int(row["v"])
    return None


def test_a_key_that_only_spark_evaluates_is_not_native() -> None:
    source = sold(PRICE).model_copy(
        update={"lookups": {"price": sold(PRICE).lookups["price"].model_copy(update={"key": ("upper(kind)", "size")})}}
    )
    column = translate(source, "price.v")
    assert column
    assert native_lookups(source, [column.sql]) is None
    assert native_lookups(source, ["1"]) == [], "nothing of it is named"


def test_a_key_of_another_type_is_not_native() -> None:
    lookups = {"price": {"key": ["size", "size"]}}
    declared = sold(PRICE).model_dump(include={"name", "topic", "fields", "event_time"}) | {"lookups": lookups}
    source = Source.model_validate(declared).bind_lookups({"price": PRICE})
    column = translate(source, "price.v")
    assert column
    assert native_lookups(source, [column.sql]) is None


def test_two_versions_of_a_lookup_are_held_and_more_if_events_keep_theirs_and_they_are_small(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = Layout(str(tmp_path))
    for value in range(3):
        row = {"k": "a", "l": 1, "since": None, "until": None, "v": value}
        commit_version(
            layout, LATEST, open_versions(layout, LATEST), take(LATEST, pa.Table.from_pylist([row], READ)).rows
        )
    used = ((1, 1), (2, 2))
    kept = [PinnedLookup(LATEST, layout, version, used) for version in (1, 2, 3)]
    for most, pinned in (1 << 30, [replace(one, used=()) for one in kept]), (0, kept), (20_000, kept):
        monkeypatch.setattr(join, "_MOST_BYTES", most)
        assert_two_are_held(pinned)
    monkeypatch.setattr(join, "_MOST_BYTES", 30_000)
    loaded = [join.load(one) for one in kept]
    assert [join.load(one) for one in kept] == loaded


def assert_two_are_held(pinned: Sequence[PinnedLookup]) -> None:
    loaded = [join.load(one) for one in pinned]
    assert [one.rows["v"].to_pylist() for one in loaded if isinstance(one, LoadedLookup)] == [[0], [1], [2]]
    assert join.load(pinned[2]) is loaded[2]
    assert join.load(pinned[1]) is loaded[1]
    assert join.load(pinned[0]) is not loaded[0]
