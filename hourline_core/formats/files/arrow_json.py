"""Converts Arrow columns to JSON texts, without loss."""

import base64
from collections.abc import Callable
from decimal import Decimal
from itertools import islice
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from hourline_core.formats.files.arrow_times import time_texts
from hourline_core.formats.files.json_values import quote, value_or_text

_FLOATS = {"nan": '"NaN"', "-nan": '"NaN"', "inf": '"Infinity"', "-inf": '"-Infinity"', "-0": "-0.0"}
_WHOLE_BELOW = 2.0**53
"""Below it, a double has no other whole number beside the one that it is."""


def has_json_form(kind: pa.DataType) -> bool:
    """Whether ``to_json`` can write values of the type ``kind``."""
    if isinstance(kind, pa.BaseExtensionType):
        return has_json_form(kind.storage_type)
    if types.is_dictionary(kind):
        return has_json_form(kind.value_type)
    if types.is_nested(kind):
        return not types.is_union(kind) and all(
            has_json_form(kind.field(index).type) for index in range(kind.num_fields)
        )
    return not (types.is_duration(kind) or types.is_interval(kind))


def to_json(array: pa.Array) -> list[str]:
    """The JSON text of each value of ``array``. Nulls become ``null``.

    Integers and decimals are exact. Floats have the fewest digits that read back the same, and whole ones below 2^53
    neither a point nor an exponent. NaN and infinities become the texts NaN, Infinity and -Infinity, which no field of
    numbers takes. For timestamps, dates and times of day see ``time_texts``. Binary becomes base64, a UUID its text,
    and the logical type JSON the value that the text is.

    A map becomes an object with its keys as text. A map with the same key twice, or a null as a key, has no object:
    it becomes an array of its pairs, which no field of a map takes.
    """
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return _extensions(array)
    if types.is_dictionary(kind):
        return to_json(array.dictionary_decode())
    if types.is_struct(kind):
        return _structs(array)
    if types.is_map(kind):
        return _maps(array)
    if types.is_nested(kind):
        return _lists(array)
    return _scalars(array)


def _scalars(array: pa.Array) -> list[str]:
    kind = array.type
    if types.is_timestamp(kind) or types.is_date(kind) or types.is_time(kind):
        return _write(time_texts(array), quote)
    if types.is_floating(kind):
        if types.is_float16(kind):
            array = array.cast(pa.float32())
        return _write(array.cast(pa.string()), _float_text)
    if types.is_decimal(kind):
        return _write(array.cast(pa.string()), _without_exponent)
    if types.is_boolean(kind) or types.is_integer(kind) or types.is_null(kind):
        return _write(array.cast(pa.string()), str)
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        # Through bytes, since a Parquet file may contain text that is no UTF-8. It is passed on unchanged.
        return _write(array.cast(pa.large_binary()), lambda value: quote(value.decode("utf-8", "surrogateescape")))
    return _write(array, lambda value: f'"{base64.b64encode(value).decode()}"')


def _float_text(text: str) -> str:
    # Arrow writes an exponent from 10^10 on, and a field of whole numbers takes none.
    return _without_exponent(text) if "e+1" in text and abs(float(text)) < _WHOLE_BELOW else _FLOATS.get(text, text)


def _without_exponent(decimal: str) -> str:
    return f"{Decimal(decimal):f}" if "E" in decimal.upper() else decimal


def _extensions(array: pa.ExtensionArray) -> list[str]:
    match array.type.extension_name:
        case "arrow.uuid":
            return _write(array.storage, lambda value: quote(str(UUID(bytes=value))))
        case "arrow.json":
            texts = array.storage.cast(pa.large_binary())
            return _write(texts, lambda value: value_or_text(value.decode("utf-8", "surrogateescape")))
    return to_json(array.storage)


def _write(array: pa.Array, write: Callable[[Any], str]) -> list[str]:
    return ["null" if value is None else write(value) for value in array.to_pylist()]


def _structs(array: pa.StructArray) -> list[str]:
    names = [quote(array.type.field(index).name) for index in range(array.type.num_fields)]
    rows = zip(*map(to_json, array.flatten()), strict=True) if names else [()] * len(array)
    objects = ("{" + ",".join(map(":".join, zip(names, cells, strict=True))) + "}" for cells in rows)
    return [text if valid else "null" for text, valid in zip(objects, array.is_valid().to_pylist(), strict=True)]


def _lists(array: pa.Array) -> list[str]:
    values = iter(to_json(array.flatten()))
    return [
        "null" if length is None else "[" + ",".join(islice(values, length)) + "]"
        for length in pc.list_value_length(array).to_pylist()
    ]


def _maps(array: pa.MapArray) -> list[str]:
    # Arrow's list functions do not accept maps.
    lists = array.cast(pa.list_(pa.struct([array.type.key_field, array.type.item_field])))
    entries = lists.flatten()
    keys, values = (to_json(entries.field(index)) for index in range(2))
    pairs = zip(keys, values, strict=True)
    return [
        "null" if length is None else object_of([*islice(pairs, length)])
        for length in pc.list_value_length(lists).to_pylist()
    ]


def object_of(pairs: list[tuple[str, str]]) -> str:
    """The JSON object of a map's keys and values, which are JSON texts, or an array of its pairs, as ``to_json`` says.

    Arrow makes no map with a null as a key, but a Parquet file may hold one.
    """
    keys = {key for key, _ in pairs}
    if len(keys) < len(pairs) or "null" in keys:
        return "[" + ",".join(f"[{key},{value}]" for key, value in pairs) + "]"
    return "{" + ",".join((key if key.startswith('"') else quote(key)) + ":" + value for key, value in pairs) + "}"
