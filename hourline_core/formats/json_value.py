"""The text, and the JSON, of values of a schema's types."""

import base64
import math
from datetime import datetime, timedelta
from decimal import MAX_PREC, Context
from decimal import Decimal as PythonDecimal
from typing import Any

import msgspec

from hourline_core.formats.bounds import UNITS, check_day, check_time_of_day, moment_of
from hourline_core.formats.unfit import UnfitError
from hourline_core.model.record_types import (
    Array,
    Constant,
    Date,
    Decimal,
    Duration,
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

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 (texts of local times have no zone)
_EXACT = Context(prec=MAX_PREC)


def name_of(kind: NumberedEnum, number: int) -> str:
    """The name of a number of an enum. Raises UnfitError if it has none."""
    name = kind.names.get(number)
    if name is None:
        raise UnfitError(str(number), f"the number of one of {len(kind.names)} names of {kind}")
    return name


def text_of(kind: RecordType, value: Any) -> str:  # noqa: PLR0911 (a table of types)
    """The text of a scalar value, as in JSON. Raises UnfitError if it is a time that there is not."""
    match kind:
        case Primitive("bytes" | "duration") | Fixed():
            return base64.b64encode(value).decode()
        case Decimal(_, scale):
            return f"{PythonDecimal(value).scaleb(-scale, _EXACT):f}"
        case Uuid():
            return str(value)
        case Date():
            check_day(value)
            return (_EPOCH + timedelta(days=value)).date().isoformat()
        case Time(unit):
            factor, divisor = UNITS[unit]
            micros = check_time_of_day(value * factor // divisor)
            return (_EPOCH + timedelta(microseconds=micros)).time().isoformat()
        case Timestamp(unit, local):
            micros = moment_of(unit)(value)
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
            return text_of(kind, value)
        case Date() | Time() | Timestamp():
            try:
                return text_of(kind, value)
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
            return msgspec.Raw(text_of(kind, value).encode())
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
