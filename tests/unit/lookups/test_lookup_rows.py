"""The rows of a lookup: sorted, typed, and at most one for a key and a time."""

import resource
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hourline_core.errors import TableError
from hourline_core.lookups import limited_memory
from hourline_core.lookups import rows as taking
from hourline_core.lookups.rows import LookupRows, is_same
from hourline_core.model import Lookup
from tests.support.examples import examples
from tests.support.lookup_rows import take

START = datetime(2026, 3, 2, tzinfo=UTC)
MOMENT = pa.timestamp("us", tz="UTC")
READ = pa.schema({"k": pa.string(), "l": pa.int64(), "since": MOMENT, "until": MOMENT, "v": pa.int64()})
PRICE = Lookup.model_validate(
    {
        "name": "price",
        "table": "prices.csv",
        "key": ["k", "l"],
        "columns": {"k": "string", "l": "long", "since": "timestamp", "until": "timestamp", "v": "long"},
        "valid_from": "since",
        "valid_to": "until",
    }
)
LATEST = PRICE.model_copy(update={"valid_from": None, "valid_to": None})

NARROW = Lookup.model_validate({"name": "x", "table": "x.parquet", "key": "k", "columns": {"k": "string", "v": "int"}})

FIRST_DAY, LAST_DAY = -719_162, 2_932_896
"""0001-01-01 and 9999-12-31, in days since 1970."""
FIRST_MOMENT, LAST_MOMENT = FIRST_DAY * 86_400_000_000, (LAST_DAY + 1) * 86_400_000_000 - 1
"""The first and the last moment of these years, in microseconds since 1970."""
NO_TEXT = pa.Array.from_buffers(
    pa.string(), 1, [None, pa.array([0, 2], pa.int32()).buffers()[1], pa.py_buffer(b"\xff\xfe")]
)

days = st.none() | st.integers(0, 4).map(lambda day: START + timedelta(days=day))
keys = {"k": st.sampled_from(["a", "b", None]), "l": st.sampled_from([1, 2])}
prices = st.lists(st.fixed_dictionaries({**keys, "since": days, "until": days, "v": st.integers(0, 9)}), max_size=4)


def has_key(row: dict[str, Any]) -> bool:
    return row["k"] is not None


def matches(rows: list[dict[str, Any]], key: tuple[str, int], time: datetime) -> int:
    """The number of rows that an event of this key and time finds."""
    return sum(
        (row["k"], row["l"]) == key
        and (row["since"] is None or row["since"] <= time)
        and (row["until"] is None or time < row["until"])
        for row in rows
    )


def price(since: int | None, until: int | None) -> dict[str, Any]:
    """One with bounds in days."""
    bounds = {"since": since, "until": until}
    return {"k": "a", "l": 1, "v": 1, **{name: day and START + timedelta(days=day) for name, day in bounds.items()}}


@pytest.mark.parametrize("rows_at_once", [1, 1_000])
@settings(max_examples=examples(50))
@given(prices)
@example([price(1, None), price(None, 1)])
def test_rows_are_taken_unless_two_are_valid_at_a_time_or_one_never(
    rows_at_once: int, rows: list[dict[str, Any]]
) -> None:
    never = any(row["since"] and row["until"] and row["since"] >= row["until"] for row in rows if has_key(row))
    times = [START + timedelta(days=half / 2) for half in range(-1, 10)]
    twice = any(matches(rows, (k, number), time) > 1 for k in "ab" for number in (1, 2) for time in times)
    if never or twice:
        words = [r"is not before its valid_to"] * never + [r"two rows of k '[ab]', l [12]"] * twice
        with pytest.raises(TableError, match="|".join(words)):
            take_in_parts(PRICE, rows, rows_at_once)
        return
    taken = take_in_parts(PRICE, rows, rows_at_once)
    assert taken.null_keys == sum(not has_key(row) for row in rows)
    earliest = datetime.min.replace(tzinfo=UTC)
    ordered = sorted(filter(has_key, rows), key=lambda row: (row["k"], row["l"], row["since"] or earliest))
    assert taken.rows.to_pylist() == ordered


def take_in_parts(lookup: Lookup, rows: list[dict[str, Any]], rows_at_once: int) -> LookupRows:
    """What a refresh takes that reads and sorts ``rows_at_once``."""
    table = pa.Table.from_pylist(rows, READ)
    parts = [table.slice(first, rows_at_once) for first in range(0, len(rows), rows_at_once)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(taking, "ROWS_AT_ONCE", rows_at_once)
        return take(lookup, *parts)


@pytest.mark.parametrize("rows_at_once", [1, 1_000])
@settings(max_examples=examples(50))
@given(prices, st.sampled_from(["error", "first", "last"]))
def test_one_row_of_a_key_is_kept(rows_at_once: int, rows: list[dict[str, Any]], on_duplicate: str) -> None:
    lookup = LATEST.model_copy(update={"on_duplicate": on_duplicate})
    kept: dict[tuple[Any, Any], dict[str, Any]] = {}
    for row in filter(has_key, rows):
        key = (row["k"], row["l"])
        if key in kept and on_duplicate == "error":
            with pytest.raises(TableError, match="several rows of k"):
                take_in_parts(lookup, rows, rows_at_once)
            return
        kept[key] = kept.get(key, row) if on_duplicate == "first" else row
    taken = take_in_parts(lookup, rows, rows_at_once).rows
    assert taken.to_pylist() == [kept[key] for key in sorted(kept)]


@pytest.mark.parametrize(
    ("declared", "values", "words"),
    [
        ("int", pa.array([1 << 40]), "has a value that is no int"),
        ("int", pa.array([1.5]), "has a value that is no int"),
        ("int", pa.array(["1"]), "is of type string, and declared as int"),
        ("float", pa.array([0.1]), "is of type double, and declared as float"),
        ("decimal(4,1)", pa.array([0.1]), "is of type double, and declared as"),
        ("string", pa.array([1]), "is of type int64, and declared as string"),
        ("timestamp", pa.array([START.replace(tzinfo=None)]), "a time needs a zone"),
        ("string", NO_TEXT, "has a value that is no string"),
        ("date", pa.array([LAST_DAY + 1], pa.int32()).cast(pa.date32()), "a date outside of the years 1 to 9999"),
        ("date", pa.array([FIRST_DAY - 1], pa.int32()).cast(pa.date32()), "a date outside of the years 1 to 9999"),
        ("date", pa.array([2**31 - 1], pa.int32()).cast(pa.date32()), "a date outside of the years 1 to 9999"),
        ("timestamp", pa.array([LAST_MOMENT + 1], MOMENT), "a timestamp outside of the years 1 to 9999"),
        ("timestamp", pa.array([FIRST_MOMENT - 1], MOMENT), "a timestamp outside of the years 1 to 9999"),
        ("timestamp", pa.array([None, 2**63 - 1], MOMENT), "a timestamp outside of the years 1 to 9999"),
    ],
)
def test_a_value_of_another_type_is_refused(declared: str, values: pa.Array, words: str) -> None:
    lookup = Lookup.model_validate(
        {"name": "x", "table": "x.parquet", "key": "k", "columns": {"k": "string", "v": {"type": declared}}}
    )
    with pytest.raises(TableError, match=r"column 'v' of x\.parquet") as refused:
        take(lookup, pa.table({"k": ["a"] * len(values), "v": values}))
    assert words in str(refused.value)


@pytest.mark.parametrize("place", range(5))
def test_the_first_row_with_a_value_that_is_refused_is_named(place: int) -> None:
    keys, values = ["d", None, "b", "a", "e"], [7, None, -7, 0, 2**31 - 1]
    refused = [*values[:place], *[1 << 40] * (5 - place)]
    first = repr(keys[place]) if keys[place] else "null"
    with pytest.raises(TableError, match=rf"column 'v' of x\.parquet, in the row of k {first}, has a value that is no"):
        take(NARROW, pa.table({"k": keys[:2], "v": values[:2]}), pa.table({"k": keys, "v": refused}))


@pytest.mark.parametrize(
    ("kind", "values", "shown"),
    [
        ("string", NO_TEXT, r"b'\xff\xfe'"),
        ("date", pa.array([LAST_DAY + 1], pa.int32()).cast(pa.date32()), "10000-01-01"),
        ("int", pa.array([1 << 40]).dictionary_encode(), "1099511627776"),
    ],
)
def test_a_key_that_is_refused_is_shown_as_far_as_it_can_be(kind: str, values: pa.Array, shown: str) -> None:
    lookup = Lookup.model_validate({"name": "x", "table": "x.parquet", "key": "k", "columns": {"k": kind}})
    with pytest.raises(TableError) as refused:
        take(lookup, pa.table({"k": values}))
    assert f"column 'k' of x.parquet, in the row of k {shown}, has a " in str(refused.value)


def test_all_days_and_times_of_events_are_taken() -> None:
    first, last = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
    rows = [{"k": "a", "l": 1, "since": first, "until": last, "v": 1}]
    assert take(PRICE, pa.Table.from_pylist(rows, READ)).rows.to_pylist() == rows
    day = Lookup.model_validate(
        {"name": "x", "table": "x.parquet", "key": "k", "columns": {"k": "date"}, "on_duplicate": "error"}
    )
    days = [date.min, date.max]
    assert take(day, pa.table({"k": days})).rows["k"].to_pylist() == days


def test_not_a_number_is_the_same_content() -> None:
    one = pa.table({"v": [1.0, float("nan"), None]})
    assert is_same(one, ds.dataset(one.to_batches(max_chunksize=2)))
    assert not is_same(one, ds.dataset(pa.table({"v": [1.0, 2.0, None]})))


WIDE = Lookup.model_validate({"name": "x", "table": "x.parquet", "key": "k", "columns": {"k": "string", "v": "long"}})
MANY = pa.table({"k": [f"{number:0200}" for number in range(50_000)], "v": range(50_000)})


def test_rows_that_cannot_be_sorted_are_refused_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limited_memory, "_MEMORY", "2MB")
    with pytest.raises(TableError, match=r"cannot be sorted with 2MB of memory .*: declare fewer columns"):
        take(WIDE, MANY)


@pytest.mark.parametrize("memory", ["512MB", "8MB"])
def test_files_that_cannot_be_written_are_told_in_a_sentence(memory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With little memory, DuckDB writes the first ones."""
    monkeypatch.setattr(limited_memory, "_MEMORY", memory)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(TableError, match=r"the space in .*/run \(.*: declare fewer columns"):
            take(WIDE, MANY)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
