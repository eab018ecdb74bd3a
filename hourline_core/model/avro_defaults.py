"""The defaults of members in schemas of Avro: JSON values, and the values that they mean.

https://avro.apache.org/docs/1.12.0/specification/#schema-record. Only those of a reader's schema matter.
"""

import re
import sys
from collections.abc import Iterator
from typing import Any
from uuid import UUID

from hourline_core.model.avro_schema import AvroSchemaError
from hourline_core.model.base import describe
from hourline_core.model.record_types import (
    MISSING,
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

_DEEPEST = 64
_BITS_32, _BITS_64 = 1 << 31, 1 << 63


class _UnfitError(Exception):
    pass


_HALF_PAIR = re.compile("[\ud800-\udfff]")


def refuse_wrong_defaults(record: Record) -> None:
    """Raise AvroSchemaError if the default of a member of ``record``, at any depth, is no value of its type."""
    for owner in _records_in(record):
        for member in owner.members:
            if member.default is MISSING:
                continue
            try:
                default_of(member.type, member.default)
            except _UnfitError:
                raise AvroSchemaError(
                    f"'{member.name}' of {owner}: got the default {describe(member.default)}, allowed is a value of "
                    f"{member.type}"
                ) from None


def default_of(kind: RecordType, default: Any) -> Any:
    """The value of ``kind`` that ``default``, a JSON value, means. That of a union is of the first type that has it."""
    return _value(kind, default, 0)


def _value(kind: RecordType, default: Any, depth: int) -> Any:  # noqa: PLR0911, PLR0912 (a table of types)
    if depth > _DEEPEST:
        raise _UnfitError
    match kind:
        case Constant(inner):
            return _value(inner, default, depth)
        case Union():
            return _value_of_union(kind, default, depth)
        case Primitive("null") if default is None:
            return None
        case Primitive("boolean") if isinstance(default, bool):
            return default
        case Primitive("int") | Date() | Time("millis") if _is_integer(default, _BITS_32):
            return default
        case Primitive("long") | Time("micros") | Timestamp() if _is_integer(default, _BITS_64):
            return default
        case Primitive("float" | "double") if _is_number(default):
            return float(default)
        case Primitive("string") | Uuid(in_bytes=False) if isinstance(default, str) and not _HALF_PAIR.search(default):
            return default
        case Enum(symbols=symbols) if default in symbols:
            return default
        case Primitive("bytes"):
            return _bytes(default, None)
        case Fixed(size):
            return _bytes(default, size)
        case Primitive("duration"):
            return _bytes(default, 12)
        case Uuid():
            return str(UUID(bytes=_bytes(default, 16)))
        case Decimal(precision, _, size):
            written = _bytes(default, size)
            unscaled = int.from_bytes(written, "big", signed=True)
            if written and abs(unscaled) < 10**precision:
                return unscaled
        case Array(element) if isinstance(default, list):
            return [_value(element, one, depth + 1) for one in default]
        case Map(value) if isinstance(default, dict):
            return {name: _value(value, one, depth + 1) for name, one in default.items()}
        case Record(members=members) if isinstance(default, dict):
            return {one.name: _value(one.type, default.get(one.name, one.default), depth + 1) for one in members}
    raise _UnfitError


def _value_of_union(union: Union, default: Any, depth: int) -> Any:
    is_tagged = isinstance(without_null(union), Union)
    for place, branch in enumerate(union.branches):
        try:
            value = _value(branch, default, depth + 1)
        except _UnfitError:
            continue
        return (place, value) if is_tagged and value is not None else value
    raise _UnfitError


def _is_integer(value: Any, bound: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -bound <= value < bound


def _is_number(value: Any) -> bool:
    most = sys.float_info.max
    return isinstance(value, int | float) and not isinstance(value, bool) and -most <= value <= most


def _bytes(default: Any, size: int | None) -> bytes:
    """The bytes that a text means, each of whose characters stands for one."""
    try:
        written: bytes = default.encode("latin-1")
    except (AttributeError, UnicodeEncodeError):
        raise _UnfitError from None
    if size is not None and len(written) != size:
        raise _UnfitError
    return written


def _records_in(kind: RecordType) -> Iterator[Record]:
    """The records that ``kind`` is made of, each once."""
    seen: set[Record] = set()
    waiting = [kind]
    while waiting:
        match waiting.pop():
            case Record() as record if record not in seen:
                seen.add(record)
                waiting += [member.type for member in record.members]
                yield record
            case Array(inner) | Map(inner) | Constant(inner):
                waiting.append(inner)
            case Union(branches):
                waiting += branches
