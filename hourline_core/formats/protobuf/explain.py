"""Says what is wrong with bytes that are no message of the schema, and where. Google's library says that they are not.

Rules of the encoding: https://protobuf.dev/programming-guides/encoding/
"""

from typing import Any

from hourline_core.formats.protobuf.malformed import MalformedError
from hourline_core.model.protobuf_schema import is_map, scalar_of

DEEPEST = 100
"""The number of messages within each other that Google's library takes."""
_VARINT, _FIXED64, _BYTES, _BEGIN, _END, _FIXED32 = range(6)
_ENCODINGS = ("a varint", "8 bytes", "bytes with their length", "the begin of a group", "the end of a group", "4 bytes")
_ENCODING_OF = {
    **dict.fromkeys(("DOUBLE", "FIXED64", "SFIXED64"), _FIXED64),
    **dict.fromkeys(("FLOAT", "FIXED32", "SFIXED32"), _FIXED32),
    **dict.fromkeys(("STRING", "BYTES", "MESSAGE"), _BYTES),
    "GROUP": _BEGIN,
}
"""By the name of a type. All others are a varint."""
_SIZES = {_FIXED64: 8, _FIXED32: 4}
_MOST_NUMBER = (1 << 29) - 1
_LAST_BYTE = 0x7F
"""The largest byte that ends a varint."""


def explain(data: bytes, message: Any) -> MalformedError:
    """What is wrong with ``data`` as ``message``, a descriptor: the first fault in the order of the bytes."""
    try:
        _Reading(data).message(message, 0, len(data), 0)
    except MalformedError as fault:
        return fault
    return MalformedError(f"bytes that are no {message.full_name}")


class _Reading:
    """One pass over the bytes of a record."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def message(self, kind: Any, begin: int, end: int, depth: int, group: int | None = None) -> int:
        """Read the fields of a message of ``kind`` from ``begin`` on, and return the place behind them.

        ``kind`` None: it is a group that the schema does not have. ``group`` is the number of a group, which ends by
        itself.
        """
        if depth > DEEPEST:
            raise MalformedError(f"more than {DEEPEST} messages within each other", begin)
        known = kind.fields_by_number if kind else {}
        is_entry = bool(kind and kind.GetOptions().map_entry)
        counts: dict[int, int] = {}
        place = begin
        while place < end:
            number, encoding, behind = self._tag(place, end)
            if encoding == _END:
                if number == group:
                    return behind
                raise MalformedError(f"the end of group {number}, which has no begin", place)
            field = known.get(number)
            if field is None:
                if is_entry:
                    raise MalformedError(f"field {number} in an entry of a map, which has 1 and 2", place)
                place = self._skip(number, encoding, behind, end, depth)
                continue
            step = f".{field.name}"
            if field.is_repeated and not is_map(field):
                step += f"[{counts.setdefault(number, 0)}]"
            try:
                next_place, count = self._field(field, encoding, place, behind, end, depth)
            except MalformedError as fault:
                raise (fault if is_entry else fault.within(step)) from None
            counts[number] = counts.get(number, 0) + count
            place = next_place
        if group is not None:
            raise MalformedError(f"the end of the bytes within group {group}", end)
        return place

    def _tag(self, place: int, end: int) -> tuple[int, int, int]:
        tag, behind = self._varint(place, end)
        number, encoding = tag >> 3, tag & 7
        if not 1 <= number <= _MOST_NUMBER or behind - place > 5:
            raise MalformedError(f"the field number {number}, want 1 to {_MOST_NUMBER}", place)
        if encoding >= len(_ENCODINGS):
            raise MalformedError(f"field {number} in encoding {encoding}, want 0 to {len(_ENCODINGS) - 1}", place)
        return number, encoding, behind

    def _varint(self, place: int, end: int) -> tuple[int, int]:
        number = 0
        for shift in range(0, 70, 7):
            if place + shift // 7 >= end:
                raise MalformedError("the end of the bytes within a varint", end)
            byte = self._data[place + shift // 7]
            number |= (byte & _LAST_BYTE) << shift
            if byte <= _LAST_BYTE:
                return number, place + shift // 7 + 1
        raise MalformedError("a varint of more than 10 bytes", place)

    def _sized(self, place: int, end: int) -> tuple[int, int]:
        """The begin and the end of bytes with their length in front."""
        size, begin = self._varint(place, end)
        if begin + size > end:
            raise MalformedError(f"{end - begin} of {size} bytes", place)
        return begin, begin + size

    def _fixed(self, encoding: int, place: int, end: int) -> int:
        size = _SIZES[encoding]
        if place + size > end:
            raise MalformedError(f"{end - place} of {size} bytes", place)
        return place + size

    def _skip(self, number: int, encoding: int, place: int, end: int, depth: int) -> int:
        """The place behind the value of a field that the schema does not have."""
        match encoding:
            case 0:
                return self._varint(place, end)[1]
            case 2:
                return self._sized(place, end)[1]
            case 3:
                return self.message(None, place, end, depth + 1, number)
        return self._fixed(encoding, place, end)

    def _field(self, field: Any, encoding: int, tag: int, place: int, end: int, depth: int) -> tuple[int, int]:
        """The place behind a value, and how many values it has."""
        kind = scalar_of(field)
        wanted = _ENCODING_OF.get(kind, _VARINT)
        is_packed = field.is_repeated and encoding == _BYTES and wanted in (_VARINT, _FIXED32, _FIXED64)
        if encoding != wanted and not is_packed:
            raise MalformedError(f"{_ENCODINGS[encoding]}, want {_ENCODINGS[wanted]} of {kind.lower()},", tag)
        if is_packed:
            return self._packed(wanted, place, end)
        match wanted:
            case 0:
                return self._varint(place, end)[1], 1
            case 2:
                begin, behind = self._sized(place, end)
                if kind == "MESSAGE":
                    self.message(field.message_type, begin, behind, depth + 1)
                elif kind == "STRING":
                    self._text(begin, behind)
                return behind, 1
            case 3:
                return self.message(field.message_type, place, end, depth + 1, field.number), 1
        return self._fixed(wanted, place, end), 1

    def _packed(self, encoding: int, place: int, end: int) -> tuple[int, int]:
        place, behind = self._sized(place, end)
        count = 0
        while place < behind:
            place = self._varint(place, behind)[1] if encoding == _VARINT else self._fixed(encoding, place, behind)
            count += 1
        return behind, count

    def _text(self, begin: int, end: int) -> None:
        try:
            self._data[begin:end].decode()
        except UnicodeDecodeError as error:
            raise MalformedError("invalid UTF-8", begin + error.start) from None
