"""Reads Protobuf's encoding by its description alone, and says where bytes are no message of a schema."""

from collections import Counter
from typing import Any, NamedTuple

from google.protobuf.descriptor import FieldDescriptor

from tests.support.malformed import end_of_text

NUMBER, EIGHT, SIZED, GROUP, GROUP_END, FOUR = range(6)
_WIDE = {FieldDescriptor.TYPE_DOUBLE, FieldDescriptor.TYPE_FIXED64, FieldDescriptor.TYPE_SFIXED64}
_NARROW = {FieldDescriptor.TYPE_FLOAT, FieldDescriptor.TYPE_FIXED32, FieldDescriptor.TYPE_SFIXED32}
_HAVE_SIZE = {FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES, FieldDescriptor.TYPE_MESSAGE}


class NoProtobufError(Exception):
    """The bytes are no message. ``path`` is the member at fault, ``place`` the byte, and ``what`` the fault."""

    def __init__(self, path: str, place: int, what: str) -> None:
        super().__init__(path, place, what)
        self.path, self.place, self.what = path, place, what


class _Part(NamedTuple):
    """A part of the bytes that holds a message, or a value, of the member at ``path``."""

    path: str
    begin: int
    end: int


def check_protobuf(data: bytes, message: Any) -> None:
    """Raise NoProtobufError if ``data`` is no ``message``, a descriptor without groups."""
    _Check(data).message(_Part("", 0, len(data)), message)


class _Check:
    def __init__(self, data: bytes) -> None:
        self._data = data

    def message(self, part: _Part, kind: Any) -> None:
        counts: Counter[int] = Counter()
        is_entry = kind.GetOptions().map_entry
        place = part.begin
        while place < part.end:
            tag = place
            number, encoding, place = self._tag(part, place)
            field = kind.fields_by_number.get(number)
            if encoding == GROUP_END:
                raise NoProtobufError(part.path, tag, f"the end of group {number}")
            if field is None and is_entry:
                raise NoProtobufError(part.path, tag, f"field {number} in an entry of a map")
            if field is None:
                place = self._skipped(part, number, encoding, place)
                continue
            is_map = bool(field.message_type and field.message_type.GetOptions().map_entry)
            path = part.path
            if not is_entry:
                path = f"{path}.{field.name}" if path else field.name
                path += f"[{counts[number]}]" if field.is_repeated and not is_map else ""
            value = _Part(path, place, part.end)
            place, read = self._value(value, field, encoding, tag)
            counts[number] += read

    def _value(self, part: _Part, field: Any, encoding: int, tag: int) -> tuple[int, int]:
        """The place behind a value, and the number of values that it has."""
        usual = EIGHT if field.type in _WIDE else FOUR if field.type in _NARROW else NUMBER
        usual = SIZED if field.type in _HAVE_SIZE else usual
        if encoding == SIZED and field.is_repeated and usual != SIZED:
            begin, end = self._extent(part)
            count, within = 0, _Part(part.path, begin, end)
            while within.begin < end:
                within = within._replace(begin=self._scalar(within, usual))
                count += 1
            return end, count
        if encoding != usual:
            raise NoProtobufError(part.path, tag, "want")
        if encoding != SIZED:
            return self._scalar(part, encoding), 1
        begin, end = self._extent(part)
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            self.message(_Part(part.path, begin, end), field.message_type)
        elif field.type == FieldDescriptor.TYPE_STRING:
            length = end_of_text(self._data[begin:end])
            if length < end - begin:
                raise NoProtobufError(part.path, begin + length, "invalid UTF-8")
        return end, 1

    def _skipped(self, part: _Part, number: int, encoding: int, place: int) -> int:
        """The place behind a value that the schema does not have."""
        within = part._replace(begin=place)
        if encoding == SIZED:
            return self._extent(within)[1]
        if encoding != GROUP:
            return self._scalar(within, encoding)
        while place < part.end:
            tag = place
            inner, encoding, place = self._tag(part, place)
            if encoding != GROUP_END:
                place = self._skipped(part, inner, encoding, place)
            elif inner == number:
                return place
            else:
                raise NoProtobufError(part.path, tag, f"the end of group {inner}")
        raise NoProtobufError(part.path, part.end, f"the end of the bytes within group {number}")

    def _scalar(self, part: _Part, encoding: int) -> int:
        if encoding == NUMBER:
            return self._number(part)[1]
        size, rest = (8 if encoding == EIGHT else 4), part.end - part.begin
        if rest < size:
            raise NoProtobufError(part.path, part.begin, f"{rest} of {size} bytes")
        return part.begin + size

    def _tag(self, part: _Part, place: int) -> tuple[int, int, int]:
        tag, behind = self._number(part._replace(begin=place))
        if not 0 < tag // 8 < 1 << 29 or behind - place > 5:
            raise NoProtobufError(part.path, place, f"the field number {tag // 8}")
        if tag % 8 > FOUR:
            raise NoProtobufError(part.path, place, f"field {tag // 8} in encoding {tag % 8}")
        return tag // 8, tag % 8, behind

    def _extent(self, part: _Part) -> tuple[int, int]:
        size, begin = self._number(part)
        if size > part.end - begin:
            raise NoProtobufError(part.path, part.begin, f"{part.end - begin} of {size} bytes")
        return begin, begin + size

    def _number(self, part: _Part) -> tuple[int, int]:
        """A number in 7 bits a byte, and the place behind it."""
        written = self._data[part.begin : min(part.begin + 10, part.end)]
        size = next((size for size, byte in enumerate(written, 1) if byte < 128), None)
        if size is None and len(written) == 10:
            raise NoProtobufError(part.path, part.begin, "a varint of more than 10 bytes")
        if size is None:
            raise NoProtobufError(part.path, part.end, "the end of the bytes within a varint")
        return sum(byte % 128 << 7 * digit for digit, byte in enumerate(written[:size])), part.begin + size
