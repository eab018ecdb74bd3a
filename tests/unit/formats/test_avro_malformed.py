"""Bytes that are no record of the schema are refused, each with its reason, and harm no record beside them."""

import json
import math
from decimal import Decimal
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hourline_core.formats.avro import decoder
from hourline_core.formats.avro.binary import DEEPEST, MOST_WITHOUT_BYTES
from hourline_core.formats.avro.columns import column_reader
from hourline_core.model.avro_schema import parse_avro
from hourline_core.model.fields import Field
from tests.support.avro import decode_avro, format_of, record_schema, write_avro

ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
ARRAY = {"type": "array", "items": "int"}
MAP = {"type": "map", "values": "int"}
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 1}
ENDS = "got the end of the bytes within the value at byte"


@pytest.mark.parametrize(
    ("schema", "written", "reason"),
    [
        ("boolean", b"\x02", "got 0x02, want a boolean, at byte 0"),
        ("int", b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f", "got -4611686018427387904, want an int of 32 bits, at byte 0"),
        ("int", b"\x80\x80\x80\x80\x10", "got 2147483648, want an int of 32 bits, at byte 0"),
        ("long", b"\xff" * 10 + b"\x01", "got a number of more than 10 bytes at byte 0"),
        ("long", b"\xff" * 9 + b"\x02", "got a number of more than 64 bits at byte 0"),
        ("long", b"\x80", f"{ENDS} 1"),
        ("float", b"123", f"{ENDS} 3"),
        ("double", b"1234567", f"{ENDS} 7"),
        ("string", b"\x01abc", "got the length -1 at byte 0"),
        ("string", b"\x08ab", f"{ENDS} 3"),
        ("string", b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", f"{ENDS} 10"),
        ("string", b"\x06a\xff\xfe", "got invalid UTF-8 at byte 2"),
        ("string", b"\x06\xed\xa0\x80", "got invalid UTF-8 at byte 1"),
        ("bytes", b"\x03ab", "got the length -2 at byte 0"),
        (["null", "int"], b"\x01\x02", "got -1, want the number of a type in a union of 2, at byte 0"),
        (["null", "int"], b"\x04\x02", "got 2, want the number of a type in a union of 2, at byte 0"),
        (["null", "int"], b"\x00x", "got 1 bytes behind the end of the record at byte 1"),
        (ENUM, b"\x01", "got -1, want the number of one of 2 symbols of enum E, at byte 0"),
        (ENUM, b"\x04", "got 2, want the number of one of 2 symbols of enum E, at byte 0"),
        ({"type": "fixed", "name": "F", "size": 4}, b"ab", f"{ENDS} 2"),
        (ARRAY, b"\x04\x02", f"{ENDS} 2"),
        (ARRAY, b"\x02\x02", f"{ENDS} 2"),
        (ARRAY, b"\x01\x04\x02\x00", "got a block of another size than the 2 bytes that it says at byte 0"),
        (ARRAY, b"\x01\x01\x02\x00", "got the size -1 of a block of 1 values at byte 0"),
        (MAP, b"\x02\x02a", f"{ENDS} 3"),
        (MAP, b"\x02\x02\xff\x02\x00", "got invalid UTF-8 at byte 2"),
        (DECIMAL, b"\x00", "got no bytes, want a decimal(2,1), at byte 0"),
        (DECIMAL, b"\x02\x64", "got more than 2 digits, want a decimal(2,1), at byte 0"),
        ({"type": "string", "logicalType": "uuid"}, b"\x04zz", "got 'zz', want a uuid, at byte 0"),
        ("null", b"x", "got 1 bytes behind the end of the record at byte 0"),
    ],
)
def test_malformed_bytes_are_refused_with_the_reason(schema: Any, written: bytes, reason: str) -> None:
    good = write_avro(record_schema(x="int"), {"x": 1})
    of_member = {"x": schema, "y": "null"}
    rows, reasons = decode_avro(record_schema(**of_member, z=["null", "int"]), None, written)
    assert all(value is None for row in rows for value in row.values())
    said = reasons[0] or ""
    # A member behind it takes bytes that would be left over.
    assert reason in said or "behind the end" in reason
    rows, reasons = decode_avro(record_schema(n="int", x=schema), None, good + written)
    shifted = reason.rpartition(" ")[0]
    assert (reasons[0] or "").startswith("invalid Avro")
    assert shifted in (reasons[0] or "")


def test_a_malformed_record_harms_no_other_one() -> None:
    schema = record_schema(x="string")
    good = write_avro(schema, {"x": "é"})
    rows, reasons = decode_avro(schema, None, good, b"\x08", None, good[:-1], b"", good)
    assert [row["x"] for row in rows] == ["é", None, None, None, None, "é"]
    assert [reason is None for reason in reasons] == [True, False, True, False, True, True]


def test_the_reason_names_the_member() -> None:
    item = {"type": "record", "name": "I", "fields": [{"name": "price", "type": "double"}]}
    schema = record_schema(items={"type": "array", "items": item})
    written = write_avro(schema, {"items": [{"price": 1.0}, {"price": 2.0}]})
    _, reasons = decode_avro(schema, None, written[:-3])
    assert reasons == [f"invalid Avro in 'items[1].price': {ENDS} {len(written) - 3}"]


def test_deep_records_are_refused_whatever_the_depth() -> None:
    node = {"type": "record", "name": "N", "fields": [{"name": "n", "type": ["null", "N"]}]}
    schema = record_schema(x="int", node=node)
    for depth in (DEEPEST - 1, DEEPEST, 100_000):
        _, reasons = decode_avro(schema, None, b"\x02" + b"\x02" * depth + b"\x00")
        assert (reasons[0] is None) == (depth < DEEPEST)
        assert depth < DEEPEST or f"more than {DEEPEST} levels" in (reasons[0] or "")


def test_elements_without_bytes_are_bounded() -> None:
    schema = record_schema(x={"type": "array", "items": "null"})
    for count in (MOST_WITHOUT_BYTES, MOST_WITHOUT_BYTES + 1, 1 << 60):
        written = write_avro(record_schema(x="long"), {"x": count}) + b"\x00"
        _, reasons = decode_avro(schema, None, written)
        assert (reasons[0] is None) == (count <= MOST_WITHOUT_BYTES)


FLAT = record_schema(
    a="long",
    b="string",
    c=["null", "double"],
    d=ENUM,
    g=DECIMAL,
    h="boolean",
    i="int",
    j={"type": "int", "logicalType": "date"},
    k={"type": "long", "logicalType": "timestamp-millis"},
    l=["float", "null"],
    p={"type": "array", "items": ["null", "string"]},
    m=[
        "null",
        {"type": "record", "name": "M", "fields": [{"name": "n", "type": "string"}, {"name": "o", "type": "int"}]},
    ],
)
"""Of types alone that are read column by column."""


PLAIN = st.fixed_dictionaries(
    {
        "a": st.integers(-200, 200),
        "b": st.text("aé", max_size=5),
        "c": st.none() | st.just(-0.0) | st.just(1.5),
        "d": st.sampled_from("AB"),
        "g": st.decimals(-9, 9, places=1),
        "h": st.booleans(),
        "i": st.integers(-200, 200),
        "j": st.integers(0, 20_000),
        "k": st.integers(0, 2_000_000_000_000),
        "l": st.none() | st.just(0.5),
        "p": st.lists(st.none() | st.text("aé", max_size=2), max_size=3),
        "m": st.none() | st.fixed_dictionaries({"n": st.text("aé", max_size=2), "o": st.integers(-200, 200)}),
    }
)
ODD: dict[str, st.SearchStrategy[Any]] = {
    "a": st.sampled_from([-(2**63), 2**63 - 1, 2**62, 2**31]),
    "c": st.sampled_from([math.nan, math.inf, 1e308]),
    "i": st.sampled_from([-(2**31), 2**31 - 1]),
    "j": st.sampled_from([-(2**31), -719162, -719163, 2932896, 2932897, 2**31 - 1]),
    "k": st.sampled_from([-(2**63), -62135596800000, -62135596800001, 253402300799999, 253402300800000, 2**63 - 1]),
    "l": st.sampled_from([math.nan, -math.inf]),
    "p": st.sampled_from([[None] * 64, [None] * 65]),
}
"""Values at the bounds of what is taken, and beyond them."""


@st.composite
def flat_records(draw: st.DrawFn) -> bytes | None:
    """A record of FLAT, mostly whole."""
    value = draw(PLAIN)
    if name := draw(st.sampled_from([None, *ODD])):
        value[name] = draw(ODD[name])
    written = write_avro(FLAT, value)
    return draw(st.sampled_from([written, written, None]) | damage(written))


def damage(written: bytes) -> st.SearchStrategy[bytes]:
    """``written`` with some bytes changed, left out or put in."""

    @st.composite
    def draw_damage(draw: st.DrawFn) -> bytes:
        damaged = bytearray(written)
        for _ in range(draw(st.integers(0, 3))):
            place = draw(st.integers(0, max(len(damaged) - 1, 0)))
            match draw(st.sampled_from(["set", "drop", "insert", "cut", "lengthen"])):
                case "set" if damaged:
                    damaged[place] = draw(st.sampled_from([0, 1, 2, 3, 127, 128, 255]) | st.integers(0, 255))
                case "lengthen":
                    damaged[place:place] = b"\xff" * draw(st.integers(1, 10))
                case "drop" if damaged:
                    del damaged[place]
                case "insert":
                    damaged.insert(place, draw(st.integers(0, 255)))
                case "cut":
                    del damaged[place:]
        return bytes(damaged)

    return draw_damage()


@given(st.lists(flat_records(), max_size=12), st.sampled_from([None, ["b", "k", "m", "c"], ["p", "a"]]))
def test_records_that_are_read_column_by_column_become_what_they_become_alone(
    records: list[bytes | None], names: list[str] | None
) -> None:
    following = {name: Field(type=kind) for name, kind in format_of(FLAT).fields.items() if kind}
    fields = {name: following[name] for name in names or following}
    assert column_reader(parse_avro(json.dumps(FLAT)), fields)
    together = decode_avro(FLAT, fields, *records)
    with patch.object(decoder, "column_reader", lambda *_: None):
        alone = decode_avro(FLAT, fields, *records)
    assert str(together) == str(alone)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ({"type": "bytes", "logicalType": "decimal", "precision": 50, "scale": 2}, Decimal("1.25")),
        (
            {"type": "array", "items": {"type": "array", "items": {"type": "array", "items": "int"}}},
            [[[1] * 64] * 64] * 64,
        ),
        ({"type": "array", "items": {"type": "record", "name": "E", "fields": []}}, [{}] * 64),
        ("bytes", b"x" * (9 << 20)),
        ("string", "x" * (9 << 20)),
    ],
    ids=["many digits", "arrays within arrays", "no bytes", "long bytes", "long text"],
)
def test_members_of_any_type_that_are_no_fields_are_passed(kind: Any, value: Any) -> None:
    schema = record_schema(n="int", x=kind, m="string")
    written = [write_avro(schema, {"n": number, "x": value, "m": "é"}) for number in range(3)]
    rows, reasons = decode_avro(schema, {"n": Field(type="int"), "m": Field(type="string")}, *written, written[0][:-1])
    assert rows == [*({"n": number, "m": "é"} for number in range(3)), {"n": None, "m": None}]
    assert [reason is None for reason in reasons] == [True, True, True, False]


WIDE = record_schema(
    a="long", b="string", c=["null", "double"], d=ENUM, e=ARRAY, f=MAP, g=DECIMAL, h="boolean", i=["int", "string"]
)
WRITTEN = write_avro(
    WIDE,
    {
        "a": 300,
        "b": "über",
        "c": 1.5,
        "d": "B",
        "e": [1, 70000],
        "f": {"k": 3},
        "g": Decimal("4.2"),
        "h": True,
        "i": "x",
    },
)


def naive(written: bytes) -> bool:  # noqa: PLR0911, PLR0915 (it shares nothing with the product)
    """Whether ``written`` is a record of WIDE, by a reader that knows this schema alone."""
    place = 0

    def number() -> int:
        nonlocal place
        value = shift = 0
        while True:
            byte = written[place]
            place += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        if shift > 70 or value >= 1 << 64:
            raise ValueError
        return value // 2 if value % 2 == 0 else -(value // 2) - 1

    def integer() -> None:
        if not -(2**31) <= number() < 2**31:
            raise ValueError

    def text() -> bytes:
        nonlocal place
        size = number()
        if size < 0 or place + size > len(written):
            raise ValueError
        place += size
        return written[place - size : place]

    def blocks(item: Any) -> None:
        nonlocal place
        while count := number():
            begin = place
            size = None
            if count < 0:
                size = number()
                begin = place
                if size < 0:
                    raise ValueError
            for _ in range(abs(count)):
                item()
            if size is not None and place != begin + size:
                raise ValueError

    def entry() -> None:
        text().decode()
        integer()

    try:
        number()
        text().decode()
        branch = number()
        if branch not in (0, 1):
            return False
        if branch == 1:
            place += 8
            if place > len(written):
                return False
        if number() not in (0, 1):
            return False
        blocks(integer)
        blocks(entry)
        digits = text()
        if not digits or not -100 < int.from_bytes(digits, "big", signed=True) < 100:
            return False
        if written[place] > 1:
            return False
        place += 1
        branch = number()
        if branch not in (0, 1):
            return False
        if branch == 0:
            integer()
        else:
            text().decode()
    except (ValueError, IndexError):
        return False
    return place == len(written)


@given(st.lists(damage(WRITTEN), min_size=1, max_size=20))
@example([b"\x00"])
def test_damaged_records_are_refused_or_taken_as_a_naive_reader_says(records: list[bytes]) -> None:
    rows, reasons = decode_avro(WIDE, None, *records)
    for written, row, reason in zip(records, rows, reasons, strict=True):
        if not written:
            assert reason is None
        # NaN and infinity are Avro, and no double of ours.
        elif reason and reason.startswith("field 'c'"):
            assert naive(written)
        else:
            assert (reason is None) == naive(written), written.hex()
        assert reason is None or all(value is None for value in row.values())
