"""What a replay reads of a Parquet file: the values as their types say, without loss."""

import json
import math
import struct
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hourline_core.formats.files.arrow_json import object_of, to_json
from hourline_core.model import Field
from tests.support.data_files import Pack, as_parquet, packings, plain, records, refusal, repeatable, rows


@packings
def test_parquet_values_are_written_without_loss(tmp_path: Path, pack: Pack) -> None:
    moment = datetime(2013, 1, 5, 14, 0, 0, 250000, tzinfo=UTC)
    columns: dict[str, tuple[pa.DataType, Any, Any]] = {
        "whole": (pa.int64(), 2**63 - 1, 2**63 - 1),
        "unsigned": (pa.uint64(), 2**64 - 1, 2**64 - 1),
        "double": (pa.float64(), 0.1, Decimal("0.1")),
        "single": (pa.float32(), 0.1, Decimal("0.1")),
        "nan": (pa.float64(), math.nan, "NaN"),
        "infinite": (pa.float64(), -math.inf, "-Infinity"),
        "decimal": (pa.decimal128(38, 3), Decimal("12345678901234567890.120"), Decimal("12345678901234567890.120")),
        "yes": (pa.bool_(), True, True),
        "text": (pa.string(), 'é"\n', 'é"\n'),
        "zoned": (pa.timestamp("us", "America/New_York"), moment, "2013-01-05T14:00:00.250000Z"),
        "zoneless": (pa.timestamp("ms"), moment.replace(tzinfo=None), "2013-01-05T14:00:00.250"),
        "nanos": (pa.timestamp("ns", "UTC"), 1, "1970-01-01T00:00:00.000000001Z"),
        "day": (pa.date32(), date(2013, 1, 5), "2013-01-05"),
        "bytes": (pa.binary(), b"\xff\x00", "/wA="),
        "word": (pa.dictionary(pa.int32(), pa.string()), "JFK", "JFK"),
        "nested": (
            pa.struct({"a": pa.list_(pa.int32()), "b": pa.string()}),
            {"a": [1, None], "b": None},
            {"a": [1, None], "b": None},
        ),
        "lists": (pa.list_(pa.list_(pa.string())), [["a"], [], None], [["a"], [], None]),
        "map": (pa.map_(pa.string(), pa.int64()), [("k", 1), ("l", None)], {"k": 1, "l": None}),
        "counts": (pa.map_(pa.int32(), pa.string()), [(7, "x")], {"7": "x"}),
    }
    # Between nulls, so that the lengths of nested values count.
    table = pa.table({name: pa.array([None, value, None], kind) for name, (kind, value, _) in columns.items()})
    read = rows(pack(tmp_path / "a.parquet", as_parquet(table)))
    assert read[1] == {name: expected for name, (_, _, expected) in columns.items()}
    assert read[0] == read[2] == dict.fromkeys(columns)


@repeatable
@given(values=st.lists(st.none() | st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_parquet_doubles_read_back_the_same(tmp_path: Path, values: list[float | None]) -> None:
    file = plain(tmp_path / "a.parquet", as_parquet(pa.table({"v": pa.array(values, pa.float64())})))
    assert [json.loads(record.payload or b"")["v"] for record in records(file)] == values


def test_a_type_without_a_json_form_is_refused(tmp_path: Path) -> None:
    table = pa.table({"took": pa.array([1], pa.duration("s"))})
    assert "the column 'took' is of type duration[s]" in refusal(plain(tmp_path / "a.parquet", as_parquet(table)))


def test_what_is_no_parquet_is_refused(tmp_path: Path) -> None:
    whole = as_parquet(pa.table({"a": list(range(1000))}))
    for broken in (whole[:-20], b"PAR1" * 10, b"a,b\n1,2\n"):
        assert "is not a valid Parquet file" in refusal(plain(tmp_path / "a.parquet", broken))


def test_a_parquet_file_damaged_in_its_middle_is_refused_when_that_is_reached(tmp_path: Path) -> None:
    whole = as_parquet(pa.table({"a": [str(number**9) for number in range(50000)]}))
    broken = whole[:1000] + bytes(len(whole) // 2) + whole[1000 + len(whole) // 2 :]
    assert "is not a valid Parquet file" in refusal(plain(tmp_path / "a.parquet", broken))


@pytest.mark.parametrize(
    ("kind", "values", "texts"),
    [
        (pa.float64(), [1.0, -0.0, 1e20, math.inf], ["1", "-0.0", "1e+20", '"Infinity"']),
        (
            pa.float64(),
            [1e10, -123456789012345.0, 2.0**53],
            ["10000000000", "-123456789012345", "9.007199254740992e+15"],
        ),
        (pa.float64(), [struct.unpack("d", struct.pack("Q", 0xFFF8 << 48))[0]], ['"NaN"']),
        (pa.float32(), [0.1, 16777216.0, math.nan], ["0.1", "16777216", '"NaN"']),
        (pa.float16(), [1.5, 65504, math.nan], ["1.5", "65504", '"NaN"']),
        (pa.list_(pa.float64()), [[math.nan, 1.5], None], ['["NaN",1.5]', "null"]),
        (pa.decimal128(38, 10), [Decimal("1E-10"), Decimal("-1.5")], ["0.0000000001", "-1.5000000000"]),
        (pa.decimal256(76, 3), [Decimal("9" * 73 + ".125")], ["9" * 73 + ".125"]),
        (pa.decimal128(5, -2), [Decimal(1000)], ["1000"]),
        (pa.timestamp("s", "UTC"), [0, None], ['"1970-01-01T00:00:00Z"', "null"]),
        (pa.timestamp("ns"), [1], ['"1970-01-01T00:00:00.000000001"']),
        (pa.timestamp("ns", "UTC"), [-(2**63) + 1], ['"1677-09-21T00:12:43.145224193Z"']),
        (pa.timestamp("us", "Asia/Kolkata"), [0], ['"1970-01-01T00:00:00.000000Z"']),
        (pa.timestamp("s"), [253402300799, -62135596800], ['"9999-12-31T23:59:59"', '"0001-01-01T00:00:00"']),
        (pa.timestamp("s", "UTC"), [253402300800], ['"253402300800 seconds since 1970"']),
        (pa.timestamp("us"), [2**63 - 1], ['"9223372036854775807 microseconds since 1970"']),
        (pa.date32(), [2932896, -719162], ['"9999-12-31"', '"0001-01-01"']),
        (pa.date32(), [2932897, None, -719163], ['"2932897 days since 1970"', "null", '"-719163 days since 1970"']),
        (pa.time64("ns"), [1], ['"00:00:00.000000001"']),
        (pa.time32("s"), [86400], ['"86400 seconds since midnight"']),
        (pa.large_string(), ["é", None], ['"é"', "null"]),
        (pa.string_view(), ["é", None], ['"é"', "null"]),
        (pa.binary_view(), [b"ab", None], ['"YWI="', "null"]),
        (pa.large_list(pa.int8()), [[1, None], None], ["[1,null]", "null"]),
        (pa.uuid(), [bytes(16), None], ['"00000000-0000-0000-0000-000000000000"', "null"]),
        (pa.json_(), ['{"a": 1.10}', "{", None], ['{"a": 1.10}', '"{"', "null"]),
    ],
)
def test_each_type_has_its_text_and_what_has_none_is_no_value_of_the_type(
    kind: pa.DataType, values: list[object], texts: list[str]
) -> None:
    assert to_json(pa.array(values, kind)) == texts


def test_a_map_with_a_key_twice_is_an_array_of_its_pairs_so_that_none_is_lost() -> None:
    maps = pa.array([[("a", 1), ("a", 2)], [], None, [("b", None)]], pa.map_(pa.string(), pa.int32()))
    assert to_json(maps) == ['[["a",1],["a",2]]', "{}", "null", '{"b":null}']


def test_a_map_with_null_as_a_key_is_an_array_of_its_pairs() -> None:
    assert object_of([("null", "1"), ('"null"', "2")]) == '[[null,1],["null",2]]'
    assert object_of([('"null"', "2")]) == '{"null":2}'


def test_text_that_is_no_utf8_is_passed_on_in_a_column_and_within_a_list(tmp_path: Path) -> None:
    text = pa.array([b"caf\xe9"], pa.binary()).view(pa.string())
    table = pa.table({"a": text, "b": pa.ListArray.from_arrays([0, 1], text)})
    (read,) = records(plain(tmp_path / "a.parquet", as_parquet(table)))
    assert read.payload == b'{"a":"caf\xe9","b":["caf\xe9"]}'


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    assert "more than one column 'a'" in refusal(plain(tmp_path / "a.parquet", as_parquet(table)))


def test_a_text_in_parquet_stays_a_text_whatever_the_field_is(tmp_path: Path) -> None:
    file = plain(tmp_path / "a.parquet", as_parquet(pa.table({"n": ["5"], "yes": ["true"]})))
    fields = {"n": Field(type="int"), "yes": Field(type="boolean")}
    assert rows(file, fields=fields) == [{"n": "5", "yes": "true"}]
