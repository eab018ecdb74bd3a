"""Values of a schema's type become what the columns of a declared type are made of.

docs/reference/formats.md has the table. A declared type takes the values that it holds exactly. Whether it takes any
value of a schema's type is known before a record is read.
"""

import base64
import math
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import MAX_PREC, Context
from decimal import Decimal as PythonDecimal
from functools import partial
from typing import Any, TypeAlias
from zoneinfo import ZoneInfo

import msgspec
import pyarrow as pa

from hourline_core.formats.columns.column import Column
from hourline_core.formats.columns.decimals import decimal_of, plain_pattern
from hourline_core.formats.columns.reading import Reading
from hourline_core.formats.columns.structs import struct_of
from hourline_core.formats.columns.times import FIRST_MICROS, LAST_MICROS, dates, local_moments, moments, offset_of
from hourline_core.model.field_types import ArrayType, DecimalType, MapType, ScalarType, StructType
from hourline_core.model.record_types import (
    Array,
    Constant,
    Date,
    Decimal,
    Duration,
    Enum,
    Fixed,
    JsonValue,
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
_UNITS = {"seconds": (1_000_000, 1), "millis": (1000, 1), "micros": (1, 1), "nanos": (1, 1000)}
"""By unit, what a number of them is multiplied with, and divided by, to be one of microseconds."""
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 (texts of local times have no zone)
_FIRST_DAY, _LAST_DAY = ((datetime(*day) - _EPOCH).days for day in ((1, 1, 1), (9999, 12, 31)))  # noqa: DTZ001
_MICROS_OF_DAY = 24 * 60 * 60 * 1_000_000
_EXACT = Context(prec=MAX_PREC)
_JSON = Reading(ScalarType("json"), numeric=True)
_LONGEST = 80

Convert: TypeAlias = Callable[[Any], Any]
"""Gives what ``column_of`` takes, or raises UnfitError. None: the value is that already."""


class UnfitError(Exception):
    """A value, or any value of a schema's type, is not one of the declared type.

    ``path`` is that of the value, such as ``items[3].price``, as far as it is known.
    """

    def __init__(self, got: str, want: str, path: str = "") -> None:
        super().__init__(got, want, path)
        self.got, self.want, self.path = got, want, path

    def within(self, step: str) -> "UnfitError":
        """The same, of the value that has it behind ``step``."""
        return UnfitError(self.got, self.want, step + self.path)

    def reason(self) -> str:
        """Why a record is rejected: ``field 'items[3].price': got 5, want string``."""
        return f"field '{self.path}': got {self.got}, want {self.want}"


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
            return _within(reading, _FIRST_DAY, _LAST_DAY, "a date of the years 1 to 9999")
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
            return _within(reading, -(1 << _BITS[name] - 1), (1 << _BITS[name] - 1) - 1, reading.want)
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


def _within(reading: Reading, first: int, last: int, want: str) -> Convert:
    def convert(value: int) -> int:
        if first <= value <= last:
            return value
        raise UnfitError(str(value), want or reading.want)

    return convert


def _to_integer(kind: Primitive, reading: Reading, bits: int) -> Convert | None:
    if _BITS[kind.kind] + (not kind.signed) <= bits:
        return None
    return _within(reading, -(1 << bits - 1), (1 << bits - 1) - 1, reading.want)


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
            raise UnfitError(shorten(_text(kind, value)), reading.want)
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
            return _moment(reading, unit)
        case Timestamp(unit, local=True) if reading.zone:
            zone, moment = ZoneInfo(reading.zone), _moment(reading, unit)
            within_years = _moment(reading, "micros")

            def from_local(value: int) -> int:
                micros: int = moment(value)
                shifted: int = within_years(micros - offset_of(micros, zone))
                return shifted

            return from_local
        case Timestamp(local=True):
            raise UnfitError(f"the schema's type {kind}", "encoding: local, and a zone")
        case Primitive("int" | "long") if reading.encoding.startswith("epoch"):
            return _moment(reading, "seconds" if reading.encoding == "epoch_seconds" else "millis")
        case Primitive("string") if reading.zone:
            return _parsed(reading, partial(local_moments, zone=reading.zone), pa.int64())
        case Primitive("string") if reading.encoding == "iso":
            return _parsed(reading, moments, pa.int64())
    raise UnfitError(f"the schema's type {kind}", reading.want)


def _moment(reading: Reading, unit: str) -> Convert:
    """Microseconds of a number in ``unit``. What is below one is cut off, towards the earlier one."""
    factor, divisor = _UNITS[unit]

    def convert(value: int) -> int:
        micros = value * factor // divisor
        if FIRST_MICROS <= micros <= LAST_MICROS:
            return micros
        raise UnfitError(str(value), "a timestamp of the years 1 to 9999")

    return convert


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
            return partial(_text, kind)
        case NumberedEnum():
            return partial(_name_of, kind)
    raise UnfitError(f"the schema's type {kind}", reading.want)


def _name_of(kind: NumberedEnum, number: int) -> str:
    name = kind.names.get(number)
    if name is None:
        raise UnfitError(str(number), f"the number of one of {len(kind.names)} names of {kind}")
    return name


def _text(kind: RecordType, value: Any) -> str:  # noqa: PLR0911 (a table of types)
    """The text of a scalar value, as in JSON. Raises UnfitError if it is a time that there is not."""
    match kind:
        case Primitive("bytes" | "duration") | Fixed():
            return base64.b64encode(value).decode()
        case Decimal(_, scale):
            return f"{PythonDecimal(value).scaleb(-scale, _EXACT):f}"
        case Uuid():
            return str(value)
        case Date():
            _within(_JSON, _FIRST_DAY, _LAST_DAY, "a date of the years 1 to 9999")(value)
            return (_EPOCH + timedelta(days=value)).date().isoformat()
        case Time(unit):
            factor, divisor = _UNITS[unit]
            micros = _within(_JSON, 0, _MICROS_OF_DAY - 1, "a time of day")(value * factor // divisor)
            return (_EPOCH + timedelta(microseconds=micros)).time().isoformat()
        case Timestamp(unit, local):
            micros = _moment(_JSON, unit)(value)
            return (_EPOCH + timedelta(microseconds=micros)).isoformat() + ("" if local else "Z")
        case Duration():
            return f"{PythonDecimal(value).scaleb(-9, _EXACT).normalize(_EXACT):f}s"
    return str(value)


def json_value(kind: RecordType, value: Any, *, refuses: bool = True) -> Any:  # noqa: PLR0911, PLR0912 (types)
    """What msgspec encodes as the JSON of a value: numbers, booleans, arrays and objects as such, all else as text.

    NaN and infinity are no JSON, and a time of another year is none. Raises UnfitError for these if it ``refuses``
    them. Otherwise they become texts, as those of Parquet: `NaN`, and `2932897 days since 1970`.
    """
    if value is None:
        return None
    declared = kind.type if isinstance(kind, Constant) else kind
    kind = without_null(declared)
    if isinstance(kind, Union) and isinstance(declared, Union):
        return json_value(declared.branches[value[0]], value[1], refuses=refuses)
    match kind:
        case Primitive("float" | "double") if not math.isfinite(value):
            if refuses:
                raise UnfitError(str(value), "json")
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case Primitive("bytes" | "duration") | Fixed() | Uuid() | Duration():
            return _text(kind, value)
        case Date() | Time() | Timestamp():
            try:
                return _text(kind, value)
            except UnfitError:
                if refuses:
                    raise
                unit = "days" if isinstance(kind, Date) else kind.unit
                return f"{value} {unit} since {'midnight' if isinstance(kind, Time) else '1970'}"
        case NumberedEnum(names=names):
            return names.get(value, value)
        case JsonValue():
            return _without_infinity(value)
        case Opaque():
            raise UnfitError(str(kind), "json")
        case Decimal():
            return msgspec.Raw(_text(kind, value).encode())
        case Array(element):
            return [json_value(element, one, refuses=refuses) for one in value]
        case Map(element):
            return {name: json_value(element, one, refuses=refuses) for name, one in value.items()}
        case Record(members=members):
            return {one.name: json_value(one.type, value.get(one.name), refuses=refuses) for one in members}
    return value


def _without_infinity(value: Any) -> Any:
    match value:
        case float() if not math.isfinite(value):
            raise UnfitError(str(value), "json")
        case list():
            return [_without_infinity(one) for one in value]
        case dict():
            return {name: _without_infinity(one) for name, one in value.items()}
    return value


def shorten(text: str) -> str:
    """``text`` with 80 characters at most."""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
