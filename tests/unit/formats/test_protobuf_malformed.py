"""Bytes that are no message of the schema are refused, as Google's library decides, with the true reason."""

import pickle

import pyarrow as pa
import pytest

from hourline_core.formats.format import decoder_of
from hourline_core.model.fields import Field
from tests.support.protobuf import decode, format_of, schema_of, write
from tests.support.protobuf_message import FIELDS, FULL, SCHEMA, is_message


def _deep(levels: int) -> bytes:
    value = b""
    for _ in range(levels):
        size, length = len(value), bytearray()
        while size > 127:
            length.append(size & 127 | 128)
            size >>= 7
        value = b"\x1a" + bytes([*length, size]) + value
    size = len(value)
    return b"\x3a" + bytes([size & 127 | 128, size >> 7]) + value


LARGE = b"\xff\xff\xff\xff\xff\xff\xff\xff\xff"
MALFORMED = {
    "a tag alone": (b"\x08", "in 'id': got a varint, want bytes with their length of string, at byte 0"),
    "a tag and no value": (b"\x10", "in 'amount': got the end of the bytes within a varint at byte 1"),
    "an endless varint": (b"\x10" + LARGE + b"\xff\x01", "in 'amount': got a varint of more than 10 bytes at byte 1"),
    "a cut double": (b"\x19\x00\x00", "in 'price': got 2 of 8 bytes at byte 1"),
    "a cut text": (b"\x0a\x05ab", "in 'id': got 2 of 5 bytes at byte 1"),
    "a cut message": (b"\x3a\x03\x0a\x05a", "in 'items[0].name': got 1 of 5 bytes at byte 3"),
    "a text that ends behind its message": (b"\x3a\x02\x0a\x01a", "in 'items[0].name': got 0 of 1 bytes at byte 3"),
    "no UTF-8": (b"\x0a\x03a\xffb", "in 'id': got invalid UTF-8 at byte 3"),
    "no UTF-8 in a key": (b"\x4a\x03\x0a\x01\xff", "in 'parts': got invalid UTF-8 at byte 4"),
    "field 0": (b"\x00\x00", ": got the field number 0, want 1 to 536870911 at byte 0"),
    "a number of a field with too many bits": (
        b"\x98\x80\x80\x80\x80\x00\x05",
        ": got the field number 3, want 1 to 536870911 at byte 0",
    ),
    "encoding 6": (b"\x0e", ": got field 1 in encoding 6, want 0 to 5 at byte 0"),
    "encoding 7 in a message": (b"\x3a\x01\x0f", "in 'items[0]': got field 1 in encoding 7, want 0 to 5 at byte 2"),
    "the end of a group": (b"\x0c", ": got the end of group 1, which has no begin at byte 0"),
    "a group without an end": (b"\xa3\x06\x08\x01", ": got the end of the bytes within group 100 at byte 4"),
    "a group that ends otherwise": (b"\xa3\x06\xac\x06", ": got the end of group 101, which has no begin at byte 2"),
    "a number as a text": (
        b"\x10\x01\x08\x05",
        "in 'id': got a varint, want bytes with their length of string, at byte 2",
    ),
    "a text as a number": (b"\x12\x01a", "in 'amount': got bytes with their length, want a varint of int64, at byte 0"),
    "4 bytes for 8": (b"\x1d\x00\x00\x00\x00", "in 'price': got 4 bytes, want 8 bytes of double, at byte 0"),
    "a group for a message": (
        b"\x3b\x3c",
        "in 'items[0]': got the begin of a group, want bytes with their length of message, at byte 0",
    ),
    "another encoding in a message": (
        b"\x3a\x00\x3a\x02\x08\x01",
        "in 'items[1].name': got a varint, want bytes with their length of string, at byte 4",
    ),
    "another encoding in a map": (
        b"\x4a\x06\x0a\x01k\x12\x01\x0a",
        "in 'parts.name': got the end of the bytes within a varint at byte 8",
    ),
    "another encoding of a value in a map": (
        b"\x4a\x05\x0a\x01k\x10\x05",
        "in 'parts': got a varint, want bytes with their length of message, at byte 5",
    ),
    "a third field in an entry of a map": (
        b"\x4a\x05\x0a\x01k\x18\x05",
        "in 'parts': got field 3 in an entry of a map, which has 1 and 2 at byte 5",
    ),
    "another encoding in a timestamp": (
        b"\x52\x02\x0a\x00",
        "in 'at.seconds': got bytes with their length, want a varint of int64, at byte 2",
    ),
    "another encoding in a Struct": (
        b"\x72\x07\x0a\x05\x12\x03\x1a\x01\xff",
        "in 'extra.fields.string_value': got invalid UTF-8 at byte 8",
    ),
    "another encoding of a list": (
        b"\x45\x00\x00\x00\x00",
        "in 'codes[0]': got 4 bytes, want a varint of int32, at byte 0",
    ),
    "a packed list that ends within a number": (
        b"\x42\x02\x01\x80",
        "in 'codes[0]': got the end of the bytes within a varint at byte 4",
    ),
    "packed words of another size": (b"\x7a\x05\x00\x00\x00\x00\x00", "in 'words[0]': got 1 of 4 bytes at byte 6"),
    "a length beyond 64 bits": (b"\x0a" + LARGE + b"\x01", "in 'id': got 0 of 18446744073709551615 bytes at byte 1"),
    "too large for 32 bits": (
        b"\x42\x06\x01\x80\x80\x80\x80\x10",
        "in 'codes[1]': got 4294967296, want a number of int32",
    ),
    "too large for 32 bits without a sign": (
        b"\x68\x80\x80\x80\x80\x10",
        "in 'note': got 4294967296, want a number of uint32",
    ),
    "too large in a message": (
        b"\x3a\x06\x10\x80\x80\x80\x80\x08",
        "in 'items[0].count': got 2147483648, want a number of int32",
    ),
    "nanoseconds of a timestamp": (
        b"\x52\x06\x10\x80\x94\xeb\xdc\x03",
        "in 'at': got 1000000000 nanoseconds, want 0 to 999999999",
    ),
    "two signs of a duration": (
        b"\x9a\x01\x0d\x08\x01\x10" + LARGE + b"\x01",
        "in 'took': got 1 seconds and -1 nanoseconds, want a duration of at most 10,000 years",
    ),
    "101 messages within each other": (
        _deep(100),
        "in 'items[0]" + ".within" * 100 + "': got more than 100 messages within each other at byte 239",
    ),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_the_reason_is_the_true_one(name: str) -> None:
    value, reason = MALFORMED[name]
    good = write(SCHEMA, 'id: "good"')
    rows, reasons = decode(SCHEMA, FIELDS, good, value, good)
    assert reasons[0] is reasons[2] is None
    assert reasons[1] == f"invalid Protobuf{reason if reason.startswith(':') else f' {reason}'}"
    assert rows[1] == dict.fromkeys(FIELDS)
    assert rows[0] == rows[2]
    assert rows[0]["id"] == "good"
    assert not is_message(value)


def test_100_messages_within_each_other_are_taken() -> None:
    _, reasons = decode(SCHEMA, FIELDS, _deep(99))
    assert reasons == [None]
    assert is_message(_deep(99))


def test_what_is_no_declared_field_is_read_as_strictly() -> None:
    for name in (
        "another encoding in a message",
        "another encoding in a timestamp",
        "a third field in an entry of a map",
    ):
        value, reason = MALFORMED[name]
        assert decode(SCHEMA, {"id": Field(type="string")}, value)[1] == [f"invalid Protobuf {reason}"]


PROTO2 = schema_of(
    """
    enum Kind { SOME = 1; OTHER = 2; }
    message Item { required int32 n = 1; }
    message M { optional string id = 1; optional Kind kind = 2; repeated Item items = 3; repeated string names = 4;
                optional group Part = 5 { optional int32 a = 1; } map<string, int32> m = 6; }
    """,
    syntax="proto2",
)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"\x0a\x01\xff", "invalid Protobuf in 'id': got invalid UTF-8 at byte 2"),
        (b"\x22\x01a\x22\x01\xff", "invalid Protobuf in 'names[1]': got invalid UTF-8 at byte 5"),
        (b"\x32\x05\x0a\x01\xff\x10\x01", "invalid Protobuf in 'm': got invalid UTF-8 at byte 4"),
        (b"\x10\x07", "field 'kind': got 7, want the number of one of 2 names of enum t.Kind"),
        (b"\x1a\x02\x08\x01\x1a\x00", "invalid Protobuf in 'items[1].n': got nothing, and it is required"),
        (
            b"\x2a\x02\x08\x01",
            "invalid Protobuf in 'part': got bytes with their length, want the begin of a group of group, at byte 0",
        ),
        (
            b"\x2b\x0a\x00\x2c",
            "invalid Protobuf in 'part.a': got bytes with their length, want a varint of int32, at byte 1",
        ),
        (b"\x2b\x08\x01", "invalid Protobuf in 'part': got the end of the bytes within group 5 at byte 3"),
    ],
    ids=str,
)
def test_the_reason_of_proto2_is_the_true_one(value: bytes, reason: str) -> None:
    fields = {name: Field(type=kind) for name, kind in format_of(PROTO2).fields.items() if kind}
    assert decode(PROTO2, fields, value, b"\x0a\x01a")[1] == [reason, None]


METHODS = ("HasField", "DESCRIPTOR", "IsInitialized", "FindInitializationErrors", "FromString", "class", "__class__")


def test_members_may_have_names_that_methods_have() -> None:
    declared = " ".join(f"optional int32 {name} = {number};" for number, name in enumerate(METHODS, 1))
    schema = schema_of(
        f"message P {{ {declared} required int32 needed = 20; }} message M {{ {declared} optional P p = 9; }}",
        syntax="proto2",
    )
    members = b"".join(bytes([number << 3, number + 50]) for number in range(1, len(METHODS) + 1))
    values = [
        members,
        members + b"\x4a\x03\xa0\x01\x05\xfa\x07\x00",
        members + b"\x4a\x00",
        b"\x0a\x00",
        members + b"\x4a\x05\x0a\x00\xa0\x01\x05",
    ]
    fields = {f"f{place}": Field(type="int", key=name) for place, name in enumerate(METHODS)} | {
        "p": Field(type="struct<HasField: int, needed: int>")
    }
    rows, reasons = decode(schema, fields, *values)
    assert reasons == [
        None,
        None,
        "invalid Protobuf in 'p.needed': got nothing, and it is required",
        "invalid Protobuf in 'HasField': got bytes with their length, want a varint of int32, at byte 0",
        "invalid Protobuf in 'p.HasField': got bytes with their length, want a varint of int32, at byte 16",
    ]
    given = {f"f{place}": place + 51 for place in range(len(METHODS))}
    assert rows[:2] == [{**given, "p": None}, {**given, "p": {"HasField": None, "needed": 5}}]


def test_a_null_value_has_no_fields_and_no_reason() -> None:
    decoded = decoder_of(format_of(SCHEMA), FIELDS).decode(pa.array([None, FULL], pa.binary()))
    assert decoded.reasons.to_pylist() == [None, None]
    assert decoded.columns["id"].to_pylist() == [None, "a"]


def test_the_decoder_can_be_pickled_and_needs_no_compiler_then(monkeypatch: pytest.MonkeyPatch) -> None:
    pickled = pickle.dumps((decoder_of(format_of(SCHEMA), FIELDS), format_of(SCHEMA)))
    monkeypatch.setattr("hourline_core.model.protobuf_schema.compile_protobuf", None)
    decoder, format = pickle.loads(pickled)  # noqa: S301
    for one in (decoder, decoder_of(format, FIELDS)):
        assert one.decode(pa.array([FULL], pa.binary())).columns["amount"].to_pylist() == [-1]


def test_many_records_are_decoded_each_alone() -> None:
    values = [FULL if place % 7 else b"\x10" for place in range(3000)]
    decoded = decoder_of(format_of(SCHEMA), FIELDS).decode(pa.array(values, pa.binary()))
    assert [reason is None for reason in decoded.reasons.to_pylist()] == [place % 7 != 0 for place in range(3000)]
    assert decoded.columns["id"].to_pylist() == ["a" if place % 7 else None for place in range(3000)]
