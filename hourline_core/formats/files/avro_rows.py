"""Avro's files: each record becomes a JSON object. https://avro.apache.org/docs/1.12.0/specification/#object-container-files"""

import bz2
import json
import lzma
import zlib
from collections.abc import Callable, Iterator
from typing import IO, NamedTuple

import msgspec
import pyarrow as pa

from hourline_core.errors import UsageError
from hourline_core.formats.avro.binary import MOST_WITHOUT_BYTES, Cursor, MalformedError, Readers, read_long
from hourline_core.formats.files.data_file import DataFile
from hourline_core.formats.json_value import json_value
from hourline_core.model.avro_schema import AvroSchemaError, parse_avro
from hourline_core.model.record_types import Record

_MAGIC = b"Obj\x01"
_MARKER = 16
"""The size of the marker behind the header and each block."""
_AT_ONCE = 1 << 16
_LARGEST = 1 << 30
"""The size of a block, or of the header, that is read."""


class _Header(NamedTuple):
    schema: str
    record: Record
    unpack: Callable[[bytes], bytes]
    marker: bytes


class AvroRows:
    """The records of a file, as JSON. Numbers, texts, arrays and objects are such, and all else is text, as `json` has
    it in Avro, or as the text of the same value in Parquet.

    With ``schema``, the JSON text of one, each record is its bytes in that schema, as Avro's binary encoding has them.

    Raises UsageError when the file is no valid Avro, or has another schema than that.
    """

    def __init__(self, file: DataFile, schema: str | None = None) -> None:
        self._file, self._as_bytes = file, schema is not None
        with file.open() as stream:
            reading = _Reading(file, stream)
            header = reading.header()
            if schema is not None and json.loads(header.schema) != json.loads(schema):
                raise UsageError(
                    f"{file} has another schema than its source, so its records cannot be sent as they are; "
                    "declare the schema that `hourline import` reads from the file, or send them with a producer"
                )
            self.columns: list[str] = [member.name for member in header.record.members]
            self.total: int = sum(count for count, _ in reading.blocks())

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        row = 0
        with self._file.open() as stream:
            reading = _Reading(self._file, stream)
            header = reading.header()
            read = Readers().of(header.record)
            for count, packed in reading.blocks():
                cursor, without_bytes = Cursor(reading.unpack(packed)), 0
                for _ in range(count):
                    row += 1
                    cursor = Cursor(cursor.data, cursor.place)
                    begin = cursor.place
                    try:
                        value = read(cursor)
                    except MalformedError as fault:
                        raise UsageError(f"{self._file}: record {row}: {fault.reason()}") from None
                    without_bytes += cursor.place == begin
                    if without_bytes > MOST_WITHOUT_BYTES:
                        most = f"allowed are {MOST_WITHOUT_BYTES} records without bytes"
                        raise UsageError(f"{self._file}: record {row} has no bytes; {most} in a block")
                    if self._as_bytes:
                        yield row, cursor.data[begin : cursor.place]
                    else:
                        yield row, msgspec.json.encode(json_value(header.record, value, refuses=False))
                if cursor.place < len(cursor.data):
                    raise UsageError(f"{self._file} is not a valid Avro file: a block has more bytes than records")


class _Reading:
    """One way through a file."""

    def __init__(self, file: DataFile, stream: IO[bytes]) -> None:
        self._file, self._stream = file, stream
        self._ahead = b""
        self._header: _Header | None = None

    def header(self) -> _Header:
        """The schema, and how blocks are packed."""
        if self._take(len(_MAGIC)) != _MAGIC:
            raise self._invalid("it does not begin with 'Obj'")
        metadata: dict[str, bytes] = {}
        while count := self._number():
            if count < 0:
                self._number()  # The size of the block of names.
            for _ in range(abs(count)):
                name = self._bytes().decode(errors="replace")
                metadata[name] = self._bytes()
        codec = metadata.get("avro.codec", b"null").decode(errors="replace")
        if codec not in _UNPACK:
            raise UsageError(f"{self._file} is packed by '{codec}', readable are {', '.join(_UNPACK)}")
        try:
            schema = metadata.get("avro.schema", b"").decode()
            record = parse_avro(schema)
        except (AvroSchemaError, UnicodeDecodeError) as error:
            raise self._invalid(f"its schema: {error}") from None
        self._header = _Header(schema, record, _UNPACK[codec], self._take(_MARKER))
        return self._header

    def blocks(self) -> Iterator[tuple[int, bytes]]:
        """The number of records in each block, and the block as it is packed."""
        assert self._header, "the header comes first"
        while self._fill(1):
            count = self._number()
            packed = self._bytes()
            if count < 0 or self._take(_MARKER) != self._header.marker:
                raise self._invalid("a block does not end where it says")
            yield count, packed

    def unpack(self, packed: bytes) -> bytes:
        """The records of a block."""
        assert self._header, "the header comes first"
        try:
            return self._header.unpack(packed)
        except (OSError, ValueError, EOFError, zlib.error, lzma.LZMAError, pa.ArrowException) as error:
            raise self._invalid(f"a block cannot be unpacked: {error}") from None

    def _number(self) -> int:
        self._fill(10)
        cursor = Cursor(self._ahead)
        try:
            number = read_long(cursor)
        except (IndexError, MalformedError):
            raise self._invalid("it ends early, or has no number where there must be one") from None
        self._ahead = self._ahead[cursor.place :]
        return number

    def _bytes(self) -> bytes:
        size = self._number()
        if not 0 <= size <= _LARGEST:
            raise self._invalid(f"got a part of {size} bytes, allowed are {_LARGEST}")
        return self._take(size)

    def _take(self, size: int) -> bytes:
        if not self._fill(size) or len(self._ahead) < size:
            raise self._invalid("it ends early")
        taken, self._ahead = self._ahead[:size], self._ahead[size:]
        return taken

    def _fill(self, size: int) -> bool:
        """Read ahead until ``size`` bytes are there, or the file ends. Returns whether any are."""
        while len(self._ahead) < size and (more := self._stream.read(max(_AT_ONCE, size - len(self._ahead)))):
            self._ahead += more
        return bool(self._ahead) or not size

    def _invalid(self, why: str) -> UsageError:
        return UsageError(f"{self._file} is not a valid Avro file: {why}")


def _unpack_deflated(packed: bytes) -> bytes:
    unpacking = zlib.decompressobj(-zlib.MAX_WBITS)
    unpacked = unpacking.decompress(packed, _LARGEST)
    # Some writers, fastavro among them, leave bytes of zlib's checksum behind it.
    if not unpacking.eof:
        raise ValueError("it ends early")
    return unpacked


def _unpack_snappy(packed: bytes) -> bytes:
    # The size of what is packed is in front, 7 bits a byte, and a checksum of it behind.
    size = shift = 0
    for byte in packed[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if size > _LARGEST:
        raise ValueError(f"it has {size} bytes")
    unpacked: bytes = pa.Codec("snappy").decompress(packed[:-4], size, asbytes=True)
    if zlib.crc32(unpacked).to_bytes(4, "big") != packed[-4:]:
        raise ValueError("its checksum is another one")
    return unpacked


def _unpack_zstandard(packed: bytes) -> bytes:
    with pa.input_stream(pa.py_buffer(packed), compression="zstd") as stream:
        unpacked: bytes = stream.read(_LARGEST + 1)
    if len(unpacked) > _LARGEST:
        raise ValueError(f"it has more than {_LARGEST} bytes")
    return unpacked


def _unpacker(decompressor: Callable[[], bz2.BZ2Decompressor | lzma.LZMADecompressor]) -> Callable[[bytes], bytes]:
    def unpack(packed: bytes) -> bytes:
        unpacking = decompressor()
        unpacked: bytes = unpacking.decompress(packed, _LARGEST)
        if not unpacking.eof:
            raise ValueError(f"it ends early, or has more than {_LARGEST} bytes")
        return unpacked

    return unpack


_UNPACK: dict[str, Callable[[bytes], bytes]] = {
    "null": bytes,
    "deflate": _unpack_deflated,
    "snappy": _unpack_snappy,
    "zstandard": _unpack_zstandard,
    "bzip2": _unpacker(bz2.BZ2Decompressor),
    "xz": _unpacker(lzma.LZMADecompressor),
}
"""By the name of a codec, what unpacks a block."""
