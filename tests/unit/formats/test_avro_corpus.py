"""Each of many damaged records of Avro is taken as fastavro reads it, or refused with the member and byte at fault."""

import base64
import io
import json
import math
import re
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import fastavro

from tests.support.avro import decode_avro, record_schema, write_avro
from tests.support.avro_reader import AvroReader, NoAvroError
from tests.support.malformed import cut, flipped, replaced

ITEM = {"type": "record", "name": "Item", "fields": [{"name": "sku", "type": "string"}, {"name": "n", "type": "int"}]}
SCHEMA = record_schema(
    id="string",
    paid="boolean",
    count="int",
    total="long",
    ratio=["null", "float"],
    price="double",
    raw="bytes",
    kind={"type": "enum", "name": "Kind", "symbols": ["A", "B", "C"]},
    hash={"type": "fixed", "name": "Hash", "size": 3},
    items={"type": "array", "items": ITEM},
    parts={"type": "map", "values": ["null", "int"]},
    amount={"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
    day={"type": "int", "logicalType": "date"},
    at={"type": "long", "logicalType": "timestamp-millis"},
    key={"type": "string", "logicalType": "uuid"},
    either=["int", "string"],
)
RECORD = {
    "id": "é€",
    "paid": True,
    "count": 300,
    "total": -(2**40),
    "ratio": 0.5,
    "price": 1.5,
    "raw": b"\x00\xff",
    "kind": "B",
    "hash": b"abc",
    "items": [{"sku": "ab", "n": 1}, {"sku": "", "n": -70000}],
    "parts": {"k": 3, "é": None},
    "amount": Decimal("12.34"),
    "day": date(2013, 1, 5),
    "at": datetime(2013, 1, 5, 14, 30, tzinfo=UTC),
    "key": "123e4567-e89b-12d3-a456-426614174000",
    "either": "x",
}
WRITTEN = write_avro(SCHEMA, RECORD)
OTHERS = [
    write_avro(record_schema(id="int", paid="string"), {"id": 70, "paid": "no"}),
    write_avro(record_schema(id="string", paid="double", count="string"), {"id": "a", "paid": 0.1, "count": "x"}),
    write_avro(record_schema(id="string", paid="boolean", count="long"), {"id": "a", "paid": True, "count": 2**40}),
]
"""Records of other schemas."""


def corpus() -> list[bytes]:
    """The record cut off, with each bit flipped, a byte behind it or bytes in place of each one, and other records."""
    longer = [WRITTEN + bytes([byte]) for byte in range(0, 256, 16)]
    changed = [
        replaced(WRITTEN, place, by) for place in range(len(WRITTEN)) for by in (b"\xff" * 10, b"", b"\2", b"\0\0")
    ]
    return [*cut(WRITTEN), *flipped(WRITTEN), *longer, *changed, *OTHERS]


def as_field(value: Any) -> Any:
    """A value of fastavro as a field has it."""
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case UUID():
            return str(value)
        case dict():
            return sorted(value.items())
    return value


def assert_is_taken(written: bytes, row: dict[str, Any], reason: str | None) -> None:
    """Fail unless the row is what fastavro reads. NaN is a double of Avro, and none of a field."""
    stream = io.BytesIO(written)
    read: Any = fastavro.schemaless_reader(stream, SCHEMA, None)
    assert stream.tell() == len(written)
    if math.isnan(read["price"]):
        assert reason == "field 'price': got nan, want double"
    else:
        got = row | {"parts": sorted(row["parts"]), "either": json.loads(row["either"])}
        assert (reason, got) == (None, {name: as_field(value) for name, value in read.items()})


def test_each_damaged_record_is_taken_as_fastavro_reads_it_or_refused_with_its_fault() -> None:
    damaged, refused = corpus(), 0
    rows, reasons = decode_avro(SCHEMA, None, *damaged)
    for written, row, reason in zip(damaged, rows, reasons, strict=True):
        try:
            AvroReader(written).record(SCHEMA)
        except NoAvroError as fault:
            where = f" in '{fault.path}'" if fault.path else ""
            said = rf"invalid Avro{re.escape(where)}: got .*{re.escape(fault.what)}.* at byte {fault.place}"
            assert re.fullmatch(said, reason or ""), written.hex()
            assert set(row.values()) == {None}
            refused += 1
        else:
            assert_is_taken(written, row, reason)
    assert refused > 800
    assert len(damaged) - refused > 400
