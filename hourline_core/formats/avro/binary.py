"""Reads values in Avro's binary encoding, strictly. https://avro.apache.org/docs/1.12.0/specification/#binary-encoding

The libraries for it guess: of malformed bytes, they make other numbers and texts, take what is left over, run out of
memory, or end the process. Decision: 0152.
"""

import re
import struct
from collections.abc import Callable, Collection, Iterator
from typing import Any, TypeAlias
from uuid import UUID

from hourline_core.model.record_types import (
    Array,
    Constant,
    Date,
    Decimal,
    Enum,
    Fixed,
    Map,
    Primitive,
    Record,
    RecordType,
    Time,
    Timestamp,
    Union,
    Uuid,
    without_null,
)

DEEPEST = 100
"""The number of levels of records, arrays and maps within each other that a value may have."""

MOST_WITHOUT_BYTES = 1 << 16
"""The number of elements of arrays in a record that may take no bytes, such as nulls."""


_LAST_BYTE = 0x7F
"""The largest byte that ends a number."""

_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


class MalformedError(Exception):
    """The bytes are no value of the schema. ``place`` is the byte, counted from 0, and ``path`` the member."""

    def __init__(self, what: str, place: int, path: str = "") -> None:
        super().__init__(what, place, path)
        self.what, self.place, self.path = what, place, path

    def within(self, step: str) -> "MalformedError":
        """The same, of the value that has it behind ``step``."""
        return MalformedError(self.what, self.place, step + self.path)

    def reason(self) -> str:
        """Why a record is rejected: ``invalid Avro in 'items[3].price': got … at byte 12``."""
        where = f" in '{self.path.removeprefix('.')}'" if self.path else ""
        return f"invalid Avro{where}: got {self.what} at byte {self.place}"


class Cursor:
    """A place in the bytes of a record."""

    __slots__ = ("data", "depth", "place", "without_bytes")

    def __init__(self, data: bytes, place: int = 0) -> None:
        self.data = data
        self.place = place
        self.depth = 0
        self.without_bytes = 0


Read: TypeAlias = Callable[[Cursor], Any]
"""Reads the value at the cursor, and moves it behind the value. Raises MalformedError, or IndexError if the bytes end
too early.
"""


def read_long(cursor: Cursor) -> int:
    """A whole number of 64 bits, in zigzag form and 7 bits a byte."""
    data, place = cursor.data, cursor.place
    number = data[place]
    if number > _LAST_BYTE:
        number &= _LAST_BYTE
        for shift in range(7, 70, 7):
            place += 1
            byte = data[place]
            number |= (byte & _LAST_BYTE) << shift
            if byte <= _LAST_BYTE:
                break
        else:
            raise MalformedError("a number of more than 10 bytes", cursor.place)
        if number >> 64:
            raise MalformedError("a number of more than 64 bits", cursor.place)
    cursor.place = place + 1
    return (number >> 1) ^ -(number & 1)


def read_int(cursor: Cursor) -> int:
    """A whole number of 32 bits."""
    begin = cursor.place
    number = read_long(cursor)
    if -0x80000000 <= number <= 0x7FFFFFFF:
        return number
    raise MalformedError(f"{number}, want an int of 32 bits,", begin)


def read_bytes(cursor: Cursor) -> bytes:
    """Bytes with their number in front."""
    begin = cursor.place
    size = read_long(cursor)
    if size < 0:
        raise MalformedError(f"the length {size}", begin)
    return _take(cursor, size)


def read_text(cursor: Cursor) -> str:
    """A text in UTF-8 with the number of its bytes in front."""
    written = read_bytes(cursor)
    try:
        return written.decode()
    except UnicodeDecodeError as error:
        raise MalformedError("invalid UTF-8", cursor.place - len(written) + error.start) from None


def _take(cursor: Cursor, size: int) -> bytes:
    begin, end = cursor.place, cursor.place + size
    if end > len(cursor.data):
        raise IndexError
    cursor.place = end
    return cursor.data[begin:end]


def _read_boolean(cursor: Cursor) -> bool:
    byte = cursor.data[cursor.place]
    if byte > 1:
        raise MalformedError(f"0x{byte:02x}, want a boolean,", cursor.place)
    cursor.place += 1
    return byte == 1


def _reader_of_number(form: str) -> Read:
    unpack, size = struct.Struct(form).unpack_from, struct.calcsize(form)

    def read(cursor: Cursor) -> Any:
        begin = cursor.place
        if begin + size > len(cursor.data):
            raise IndexError
        cursor.place = begin + size
        return unpack(cursor.data, begin)[0]

    return read


_PRIMITIVES: dict[str, Read] = {
    "null": lambda _: None,
    "boolean": _read_boolean,
    "int": read_int,
    "long": read_long,
    "float": _reader_of_number("<f"),
    "double": _reader_of_number("<d"),
    "bytes": read_bytes,
    "string": read_text,
    "duration": lambda cursor: _take(cursor, 12),
}


class Readers:
    """The readers of a schema's types. Those of a record are made once, so that it may have itself as a part."""

    def __init__(self) -> None:
        self._records: dict[Record, Read] = {}

    def of_record(self, record: Record, wanted: Collection[str]) -> Read:
        """Reads the members that are ``wanted`` of a whole record, as a list in the order of the record.

        Bytes behind the record are refused.
        """
        steps = [(member.name, self.of(member.type), member.name in wanted) for member in record.members]

        def read(cursor: Cursor) -> list[Any]:
            values, name = [], ""
            try:
                for name, step, is_wanted in steps:  # noqa: B007 (the errors name it)
                    value = step(cursor)
                    if is_wanted:
                        values.append(value)
            except (MalformedError, IndexError) as fault:
                raise _within(fault, f".{name}", cursor) from None
            if cursor.place < len(cursor.data):
                rest = len(cursor.data) - cursor.place
                raise MalformedError(f"{rest} bytes behind the end of the record", cursor.place)
            return values

        return read

    def of(self, kind: RecordType) -> Read:  # noqa: PLR0911 (a table of types)
        """Reads a value of ``kind``. See ``conversion`` for what it is in Python."""
        match kind:
            case Primitive(name):
                return _PRIMITIVES[name]
            case Date() | Time("millis"):
                return read_int
            case Time() | Timestamp():
                return read_long
            case Fixed(size):
                return lambda cursor: _take(cursor, size)
            case Uuid(in_bytes):
                return _reader_of_uuid(in_bytes)
            case Decimal():
                return _reader_of_decimal(kind)
            case Enum():
                return _reader_of_enum(kind)
            case Array(element):
                return _deeper(self._of_array(element))
            case Map(value):
                return _deeper(self._of_map(value))
            case Union():
                return self._of_union(kind)
            case Record():
                return self._of_inner(kind)
            case Constant(value=value):
                return lambda _: value
        raise TypeError(f"Avro has no {kind}")

    def _of_inner(self, record: Record) -> Read:
        steps: list[tuple[str, Read]] = []

        def read(cursor: Cursor) -> dict[str, Any]:
            values: dict[str, Any] = {}
            name = ""
            try:
                for name, step in steps:
                    values[name] = step(cursor)
            except (MalformedError, IndexError) as fault:
                raise _within(fault, f".{name}", cursor) from None
            return values

        if record not in self._records:
            self._records[record] = _deeper(read)
            steps += [(member.name, self.of(member.type)) for member in record.members]
        return self._records[record]

    def _of_union(self, union: Union) -> Read:
        reads = [self.of(branch) for branch in union.branches]
        is_tagged = isinstance(without_null(union), Union)
        null = next((place for place, branch in enumerate(union.branches) if branch == Primitive("null")), None)

        def read(cursor: Cursor) -> Any:
            begin = cursor.place
            branch = read_long(cursor)
            if not 0 <= branch < len(reads):
                raise MalformedError(f"{branch}, want the number of a type in a union of {len(reads)},", begin)
            value = reads[branch](cursor)
            return (branch, value) if is_tagged and branch != null else value

        return read

    def _of_array(self, element: RecordType) -> Read:
        read = self.of(element)

        def read_array(cursor: Cursor) -> list[Any]:
            values: list[Any] = []
            try:
                for size in _blocks(cursor):
                    for _ in range(size):
                        begin = cursor.place
                        values.append(read(cursor))
                        if cursor.place == begin:
                            _count_without_bytes(cursor)
            except (MalformedError, IndexError) as fault:
                raise _within(fault, f"[{len(values)}]", cursor) from None
            return values

        return read_array

    def _of_map(self, kind: RecordType) -> Read:
        read = self.of(kind)

        def read_map(cursor: Cursor) -> dict[str, Any]:
            values = {}
            for size in _blocks(cursor):
                for _ in range(size):
                    name = read_text(cursor)
                    values[name] = read(cursor)
            return values

        return read_map


def _within(fault: MalformedError | IndexError, step: str, cursor: Cursor) -> MalformedError:
    """``fault`` of the value behind ``step``. Whatever indexes the bytes behind their end met the end."""
    if isinstance(fault, MalformedError):
        return fault.within(step)
    return MalformedError("the end of the bytes within the value", len(cursor.data), step)


def _blocks(cursor: Cursor) -> Iterator[int]:
    """The number of values in each block of an array or a map."""
    while True:
        begin = cursor.place
        count = read_long(cursor)
        if count == 0:
            return
        if count > 0:
            yield count
            continue
        size = read_long(cursor)
        end = cursor.place + size
        if size < 0 or count < -(1 << 62):
            raise MalformedError(f"the size {size} of a block of {-count} values", begin)
        yield -count
        if cursor.place != end:
            raise MalformedError(f"a block of another size than the {size} bytes that it says", begin)


def _count_without_bytes(cursor: Cursor) -> None:
    cursor.without_bytes += 1
    if cursor.without_bytes > MOST_WITHOUT_BYTES:
        raise MalformedError(f"more than {MOST_WITHOUT_BYTES} elements without bytes", cursor.place)


def _deeper(read: Read) -> Read:
    def read_deeper(cursor: Cursor) -> Any:
        if cursor.depth >= DEEPEST:
            raise MalformedError(f"more than {DEEPEST} levels of records, arrays and maps", cursor.place)
        cursor.depth += 1
        value = read(cursor)
        cursor.depth -= 1
        return value

    return read_deeper


def _reader_of_uuid(in_bytes: bool) -> Read:
    if in_bytes:
        return lambda cursor: str(UUID(bytes=_take(cursor, 16)))

    def read(cursor: Cursor) -> str:
        begin = cursor.place
        text = read_text(cursor)
        if not _UUID.fullmatch(text):
            raise MalformedError(f"'{text[:40]}', want a uuid,", begin)
        return text.lower()

    return read


def _reader_of_decimal(kind: Decimal) -> Read:
    take = read_bytes if kind.size is None else lambda cursor: _take(cursor, kind.size or 0)
    most = 10**kind.precision

    def read(cursor: Cursor) -> int:
        begin = cursor.place
        written = take(cursor)
        unscaled = int.from_bytes(written, "big", signed=True)
        # A length of 0 is no number.
        if not written or not -most < unscaled < most:
            what = f"more than {kind.precision} digits" if written else "no bytes"
            raise MalformedError(f"{what}, want a {kind},", begin)
        return unscaled

    return read


def _reader_of_enum(kind: Enum) -> Read:
    def read(cursor: Cursor) -> str:
        begin = cursor.place
        place = read_long(cursor)
        if not 0 <= place < len(kind.symbols):
            raise MalformedError(f"{place}, want the number of one of {len(kind.symbols)} symbols of {kind},", begin)
        return kind.symbols[place]

    return read
