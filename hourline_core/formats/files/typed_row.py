"""Gives the cells of a CSV row the JSON types that the declared fields want."""

import re
from collections.abc import Callable, Mapping
from functools import partial

import msgspec

from hourline_core.formats.files.json_values import value_or_text
from hourline_core.model.fields import Field

_NUMBER = re.compile(rb'"(-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?)"')
_BOOLEANS = {
    **dict.fromkeys((b'"true"', b'"True"', b'"TRUE"'), msgspec.Raw(b"true")),
    **dict.fromkeys((b'"false"', b'"False"', b'"FALSE"'), msgspec.Raw(b"false")),
}
_NULL = b"null"

_Retype = Callable[[msgspec.Raw], msgspec.Raw]


class TypedRow:
    """Turns a row of ``CsvRows`` into the JSON object that a source with ``fields`` reads. It depends on nothing else.

    - int, long, float, double, and a timestamp with an epoch encoding: a JSON number where the cell is one.
    - boolean: true or false, also written as True, TRUE, False or FALSE.
    - struct, array, map and json: the JSON value that the cell is.
    - All other types, and columns that no field declares: the text.

    A cell that is not of this form stays a text, so that its record alone is rejected. Nulls stay null.
    """

    def __init__(self, fields: Mapping[str, Field]) -> None:
        retype = {field.key or name: _retype_for(field) for name, field in fields.items()}
        # Of two fields with one key, the last one decides. A text suits at most one of them anyway.
        self._retype = {key: change for key, change in retype.items() if change is not None}

    def __call__(self, row: bytes) -> bytes:
        """The typed form of ``row``. Returns it unchanged if it is no JSON object."""
        if not self._retype:
            return row
        try:
            cells = _decode(row)
        except (msgspec.MsgspecError, UnicodeError):  # a name that is no UTF-8
            return row
        for key, change in self._retype.items():
            if (cell := cells.get(key)) is not None:
                cells[key] = change(cell)
        return msgspec.json.encode(cells)


def _retype_for(field: Field) -> _Retype | None:
    """How a cell of ``field`` changes. None if it stays a text."""
    kind = field.type.casefold()
    if kind in ("int", "long", "float", "double") or (kind == "timestamp" and field.encoding.startswith("epoch_")):
        return _as_number
    if kind == "boolean":
        return _as_boolean
    return _as_value if kind == "json" or kind.startswith(("struct", "array", "map")) else None


_decode = partial(msgspec.json.decode, type=dict[str, msgspec.Raw])
_decode_text = partial(msgspec.json.decode, type=str)


def _as_number(cell: msgspec.Raw) -> msgspec.Raw:
    number = _NUMBER.fullmatch(cell)
    return msgspec.Raw(number[1]) if number else cell


def _as_boolean(cell: msgspec.Raw) -> msgspec.Raw:
    return _BOOLEANS.get(bytes(cell), cell)


def _as_value(cell: msgspec.Raw) -> msgspec.Raw:
    if bytes(cell) == _NULL:
        return cell
    try:
        text = _decode_text(cell)
    except (msgspec.MsgspecError, UnicodeError):  # bytes that are no UTF-8
        return cell
    return msgspec.Raw(value_or_text(text).encode())
