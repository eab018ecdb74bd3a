"""Values of a schema's type become what the columns of a declared type are made of.

docs/reference/formats.md has the table. A declared type takes the values that it holds exactly. Whether it takes any
value of a schema's type is known before a record is read.
"""

import math
import re
from collections.abc import Callable
from decimal import MAX_PREC, Context
from functools import partial
from typing import Any, TypeAlias
from zoneinfo import ZoneInfo

import msgspec
import pyarrow as pa

from hourline_core.formats.bounds import check_day, moment_of, within
from hourline_core.formats.columns.column import Column
from hourline_core.formats.columns.decimals import decimal_of, plain_pattern
from hourline_core.formats.columns.reading import Reading
from hourline_core.formats.columns.structs import struct_of
from hourline_core.formats.columns.times import dates, local_moments, moments, offset_of
from hourline_core.formats.json_value import json_value, name_of, text_of
from hourline_core.formats.unfit import UnfitError, shorten
from hourline_core.model.field_types import ArrayType, DecimalType, MapType, ScalarType, StructType
from hourline_core.model.record_types import (
    Array,
    Constant,
    Date,
    Decimal,
    Duration,
    Enum,
    Fixed,
    Map,
    NumberedEnum,
    Opaque,
    Primitive,
    Record,
    RecordType,
    Time,
    Timestamp,
    Union,
    Uuid,
    without_null,
)

_NULL, _STRING = Primitive("null"), Primitive("string")
_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "long": 64}
_LARGEST_FLOAT = float.fromhex("0x1.fffffefffffffp127")
"""The largest number that is rounded to a finite one of 32 bits."""
_EXACT = Context(prec=MAX_PREC)

Convert: TypeAlias = Callable[[Any], Any]
"""Gives what ``column_of`` takes, or raises UnfitError. None: the value is that already."""


def conversion(kind: RecordType, reading: Reading) -> Convert | None:  # noqa: PLR0911, PLR0912 (a table of types)
    """How a value of ``kind`` becomes one that ``reading`` describes, which is ``numeric``. None: it is one.

    A value of a union with several types beside null is a pair: the number of its type, and the value. Null is None,
    and is no argument of what is returned. Raises UnfitError if no value of ``kind`` is one.
    """
    assert reading.numeric, "dates and timestamps are numbers here"
    declared = kind.type if isinstance(kind, Constant) else kind
    kind = without_null(declared)
    if isinstance(kind, Union) and isinstance(declared, Union):
        return _of_union(declared, reading)
    match reading.tree:
        case ScalarType("json") if not isinstance(kind, Opaque):
            return lambda value: msgspec.json.encode(json_value(kind, value))
        case StructType() if isinstance(kind, Record):
            return _of_record(kind, reading)
        case ArrayType() if isinstance(kind, Array):
            return _of_array(kind, reading)
        case MapType() if isinstance(kind, Map):
            return _of_map(kind, reading)
        case DecimalType(precision, scale):
            return _to_decimal(kind, reading, precision, scale)
        case ScalarType("timestamp"):
            return _to_timestamp(kind, reading)
        case ScalarType("date") if isinstance(kind, Date):
            return check_day
        case ScalarType("date") if kind == _STRING:
            return _parsed(reading, dates, pa.int32())
        case ScalarType("string"):
            return _to_string(kind, reading)
        case ScalarType("boolean") if kind == Primitive("boolean"):
            return None
        case ScalarType(("float" | "double") as name):
            return _to_float(kind, reading, _LARGEST_FLOAT if name == "float" else math.inf)
        case ScalarType(name) if name in _BITS and isinstance(kind, Primitive) and kind.kind in _BITS:
            return _to_integer(kind, reading, _BITS[name])
        case ScalarType(name) if name in _BITS and isinstance(kind, NumberedEnum):
            return within(-(1 << _BITS[name] - 1), (1 << _BITS[name] - 1) - 1, reading.want)
    raise UnfitError(f"the schema's type {kind}", reading.want)


def nullable(convert: Convert | None, step: str) -> Convert:
    """``convert`` for a value that may be null, and is found behind ``step``."""

    def apply(value: Any) -> Any:
        if value is None or convert is None:
            return value
        try:
            return convert(value)
        except UnfitError as fault:
            raise fault.within(step) from None

    return apply


def _of_part(kind: RecordType, reading: Reading, step: str) -> Convert:
    try:
        return nullable(conversion(kind, reading), step)
    except UnfitError as fault:
        raise fault.within(step) from None


def _of_union(union: Union, reading: Reading) -> Convert:
    converts: list[Convert | UnfitError | None] = []
    for branch in union.branches:
        try:
            converts.append(None if branch == _NULL else conversion(branch, reading))
        except UnfitError as fault:
            converts.append(fault)
    faults = [one for one in converts if isinstance(one, UnfitError)]
    if len(faults) == len([branch for branch in union.branches if branch != _NULL]):
        raise UnfitError(f"the schema's type {union}", reading.want)

    def convert(tagged: tuple[int, Any]) -> Any:
        branch, value = tagged
        found = converts[branch]
        if isinstance(found, UnfitError):
            raise found
        return value if found is None else found(value)

    return convert


def _of_record(record: Record, reading: Reading) -> Convert:
    kinds = {member.name: member.type for member in record.members}
    for name, _ in reading.parts:
        if name not in kinds:
            raise UnfitError(f"{record} without it", f"a member of {', '.join(kinds) or 'it'}", f".{name}")
    parts = [(name, _of_part(kinds[name], part, f".{name}")) for name, part in reading.parts]
    make = struct_of(reading.parts)
    return lambda value: make(*(convert(value.get(name)) for name, convert in parts))


def _of_array(array: Array, reading: Reading) -> Convert:
    element = _of_part(array.element, reading.parts[0][1], "")

    def convert(values: list[Any]) -> list[Any]:
        try:
            return [element(value) for value in values]
        except UnfitError:
            for place, value in enumerate(values):
                try:
                    element(value)
                except UnfitError as fault:
                    raise fault.within(f"[{place}]") from None
            raise

    return convert


def _of_map(kind: Map, reading: Reading) -> Convert:
    element = _of_part(kind.value, reading.parts[0][1], "")

    def convert(values: dict[str, Any]) -> dict[str, Any]:
        converted = {}
        for name, value in values.items():
            try:
                converted[name] = element(value)
            except UnfitError as fault:
                raise fault.within(f"['{shorten(name)}']") from None
        return converted

    return convert


def _to_integer(kind: Primitive, reading: Reading, bits: int) -> Convert | None:
    if _BITS[kind.kind] + (not kind.signed) <= bits:
        return None
    return within(-(1 << bits - 1), (1 << bits - 1) - 1, reading.want)


def _to_float(kind: RecordType, reading: Reading, largest: float) -> Convert:
    match kind:
        case Primitive(("float" | "double") as name):
            is_fitting = (
                math.isfinite if name == "float" or largest == math.inf else lambda value: abs(value) <= largest
            )
        case Primitive("int" | "long"):
            # Whole numbers up to this one are held exactly.
            most = 1 << (24 if largest < math.inf else 53)
            is_fitting = lambda value: -most <= value <= most  # noqa: E731
        case _:
            raise UnfitError(f"the schema's type {kind}", reading.want)

    def convert(value: float) -> float:
        if is_fitting(value):
            return float(value)
        raise UnfitError(str(value), reading.want)

    return convert


def _to_decimal(kind: RecordType, reading: Reading, precision: int, scale: int) -> Convert | None:
    unscale: Callable[[Any], int | None]
    match kind:
        case Decimal(own_precision, own_scale):
            if own_scale == scale and own_precision <= precision:
                return None
            unscale = partial(_rescale, shift=scale - own_scale, rounds=reading.rounds)
        case Primitive("int" | "long"):
            unscale = partial(_rescale, shift=scale, rounds=reading.rounds)
        case Primitive("string"):
            unscale = _unscaling(reading, precision, scale)
        case _:
            raise UnfitError(f"the schema's type {kind}", reading.want)
    most = 10**precision

    def convert(value: Any) -> int:
        number = unscale(value)
        if number is None or not -most < number < most:
            raise UnfitError(shorten(text_of(kind, value)), reading.want)
        return number

    return convert


def _rescale(value: int, shift: int, *, rounds: bool) -> int | None:
    """``value`` with ``shift`` more digits behind the point. None: it is not rounded, and has more than that."""
    factor: int = 10 ** abs(shift)
    if shift >= 0:
        return value * factor
    size, rest = divmod(abs(value), factor)
    if rest and not rounds:
        return None
    size += 2 * rest >= factor
    return -size if value < 0 else size


def _unscaling(reading: Reading, precision: int, scale: int) -> Callable[[str], int | None]:
    """The number without its point that a text is. None: it is none of the type."""
    is_usual = re.compile(plain_pattern(precision, scale)).fullmatch

    def unscale(text: str) -> int | None:
        if is_usual(text):
            whole, _, fraction = text.partition(".")
            factor: int = 10 ** (scale - len(fraction))
            return int(whole + fraction) * factor
        number = decimal_of(f'"{text}"'.encode(), precision, scale, rounds=reading.rounds)
        return None if number is None else int(number.scaleb(scale, _EXACT))

    return unscale


def _to_timestamp(kind: RecordType, reading: Reading) -> Convert:
    match kind:
        case Timestamp(unit, local=False) if reading.encoding == "iso":
            return moment_of(unit)
        case Timestamp(unit, local=True) if reading.zone:
            zone, moment = ZoneInfo(reading.zone), moment_of(unit)
            within_years = moment_of("micros")

            def from_local(value: int) -> int:
                micros: int = moment(value)
                shifted: int = within_years(micros - offset_of(micros, zone))
                return shifted

            return from_local
        case Timestamp(local=True):
            raise UnfitError(f"the schema's type {kind}", "encoding: local, and a zone")
        case Primitive("int" | "long") if reading.encoding.startswith("epoch"):
            return moment_of("seconds" if reading.encoding == "epoch_seconds" else "millis")
        case Primitive("string") if reading.zone:
            return _parsed(reading, partial(local_moments, zone=reading.zone), pa.int64())
        case Primitive("string") if reading.encoding == "iso":
            return _parsed(reading, moments, pa.int64())
    raise UnfitError(f"the schema's type {kind}", reading.want)


def _parsed(reading: Reading, parse: Callable[[pa.Array], Column], number: pa.DataType) -> Convert:
    """The number that a column of one text has."""

    def convert(value: str) -> Any:
        parsed = parse(pa.array([value], pa.string()))
        if parsed.refused:
            raise UnfitError(f'"{shorten(value)}"', reading.want)
        return parsed.values.cast(number)[0].as_py()

    return convert


def _to_string(kind: RecordType, reading: Reading) -> Convert | None:
    match kind:
        case Primitive("string") | Enum():
            return None
        case Primitive("bytes") | Fixed() | Uuid() | Time() | Timestamp(local=True) | Duration():
            return partial(text_of, kind)
        case NumberedEnum():
            return partial(name_of, kind)
    raise UnfitError(f"the schema's type {kind}", reading.want)
