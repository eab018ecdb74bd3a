"""Avro's files are read as fastavro wrote them, whatever packs their blocks. What is no such file is told."""

import bz2
import io
import json
import lzma
import math
import struct
import zlib
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest.mock import patch

import fastavro
import pyarrow as pa
import pytest

from hourline_core.errors import UsageError
from hourline_core.formats.files import avro_rows
from hourline_core.formats.files.avro_rows import AvroRows
from hourline_core.formats.files.data_file import find_data_file
from tests.support.avro import record_schema

SCHEMA = record_schema(
    id="string",
    at={"type": "long", "logicalType": "timestamp-millis"},
    amount=["null", {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}],
    tags={"type": "array", "items": "string"},
    load="double",
)


def record(number: int) -> dict[str, Any]:
    amount = None if number % 3 == 0 else Decimal(number) / 4
    return {
        "id": f"é{number}",
        "at": 1357396200123 + number,
        "amount": amount,
        "tags": ["a"] * (number % 3),
        "load": 0.5,
    }


def write(path: Path, records: list[dict[str, Any]], codec: str = "null") -> bytes:
    written = io.BytesIO()
    fastavro.writer(written, fastavro.parse_schema(SCHEMA), records, codec=codec, sync_interval=500)
    path.write_bytes(written.getvalue())
    return written.getvalue()


def rows_of(path: Path) -> list[tuple[int, dict[str, Any]]]:
    rows = AvroRows(find_data_file(str(path)))
    read = [(row, json.loads(written, parse_float=Decimal)) for row, written in rows]
    assert rows.total == len(read)
    return read


def expected(number: int) -> dict[str, Any]:
    at = 1357396200123 + number
    seconds, millis = divmod(at, 1000)
    assert seconds == 1357396200
    one = record(number)
    amount = None if one["amount"] is None else one["amount"].quantize(Decimal("0.01"))
    return {**one, "at": f"2013-01-05T14:30:00.{millis:03}000Z", "amount": amount, "load": Decimal("0.5")}


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz"])
def test_each_record_is_a_row(tmp_path: Path, codec: str) -> None:
    file = tmp_path / "orders.avro"
    write(file, [record(number) for number in range(100)], codec)
    assert rows_of(file) == [(number + 1, expected(number)) for number in range(100)]


@pytest.mark.parametrize("codec", ["snappy", "zstandard"])
def test_a_block_may_be_packed_by_what_arrow_unpacks(tmp_path: Path, codec: str) -> None:
    file = tmp_path / "orders.avro"
    whole = write(file, [record(1)])
    marker = whole[-16:]
    head, block, _ = whole.split(marker)
    assert block[0] == 2
    assert block[1] < 0x80
    content = block[2:]
    if codec == "snappy":
        packed = pa.Codec("snappy").compress(content, asbytes=True) + struct.pack(">I", zlib.crc32(content))
    else:
        packed = pa.Codec("zstd").compress(content, asbytes=True)
    head = head.replace(b"\x08null", bytes([2 * len(codec)]) + codec.encode())
    file.write_bytes(head + marker + bytes([2, 2 * len(packed)]) + packed + marker)
    assert rows_of(file) == [(1, expected(1))]
    file.write_bytes(head + marker + bytes([2, 2 * (len(packed) - 6)]) + packed[:-6] + marker)
    with pytest.raises(UsageError, match="a block cannot be unpacked"):
        rows_of(file)


def test_what_json_lacks_is_a_text(tmp_path: Path) -> None:
    file = tmp_path / "orders.avro"
    write(file, [{**record(1), "at": 2**62}, {**record(1), "load": float("nan")}, {**record(1), "load": -math.inf}])
    (_, far), (_, none), (_, least) = rows_of(file)
    assert (far["at"], none["load"], least["load"]) == ("4611686018427387904 millis since 1970", "NaN", "-Infinity")


def test_a_file_that_is_damaged_is_told(tmp_path: Path) -> None:
    file = tmp_path / "orders.avro"
    whole = write(file, [record(number) for number in range(40)])
    for end in range(1, len(whole)):
        file.write_bytes(whole[:end])
        # Behind a block, the file may end.
        try:
            read = rows_of(file)
        except UsageError as error:
            assert str(error).startswith(f"{file} is not a valid Avro file: ")
        else:
            assert read == [(number + 1, expected(number)) for number in range(len(read))]
            assert whole[:end].endswith(whole[-16:])


def test_records_without_bytes_are_bounded(tmp_path: Path) -> None:
    file = tmp_path / "orders.avro"
    written = io.BytesIO()
    fastavro.writer(written, fastavro.parse_schema({"type": "record", "name": "E", "fields": []}), [{}])
    head, _, marker = written.getvalue()[:-18], written.getvalue()[-18:-16], written.getvalue()[-16:]
    file.write_bytes(head + b"\x80\x80\x80\x80\x80\x01\x00" + marker)
    with pytest.raises(
        UsageError, match="record 65537 has no bytes; allowed are 65536 records without bytes in a block"
    ):
        for _ in AvroRows(find_data_file(str(file))):
            pass


@pytest.mark.parametrize("codec", ["deflate", "bzip2", "xz", "zstandard"])
def test_a_block_that_unpacks_to_too_much_is_refused(tmp_path: Path, codec: str) -> None:
    content = b"\x00" * (1 << 20)
    packing = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    packed = {
        "deflate": packing.compress(content) + packing.flush(),
        "bzip2": bz2.compress(content),
        "xz": lzma.compress(content),
        "zstandard": pa.Codec("zstd").compress(content, asbytes=True),
    }[codec]
    assert avro_rows._UNPACK[codec](packed) == content
    with patch.object(avro_rows, "_LARGEST", 1 << 10), pytest.raises(ValueError, match=r"ends early|more than"):
        avro_rows._UNPACK[codec](packed)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (b"Obj\x01", b"Obj\x02", "is not a valid Avro file: it does not begin with 'Obj'"),
        (b"\x08null", b"\x08lzma", "is packed by 'lzma', readable are null, deflate, snappy, zstandard, bzip2, xz"),
        (b'"string"', b'"strong"', "is not a valid Avro file: its schema: id: got the type 'strong', which is not"),
        ("é1".encode(), b"\xff\xff1", "record 2: invalid Avro in 'id': got invalid UTF-8 at byte "),
    ],
)
def test_a_file_that_is_none_is_told(tmp_path: Path, old: bytes, new: bytes, said: str) -> None:
    file = tmp_path / "orders.avro"
    file.write_bytes(write(file, [record(number) for number in range(3)]).replace(old, new, 1))
    with pytest.raises(UsageError) as caught:
        rows_of(file)
    assert said in str(caught.value)
