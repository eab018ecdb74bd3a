"""Reads JSON, and values of declared types in it, as plain Python does."""

import json
import math
import re
import struct
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, NamedTuple

import pyarrow as pa


class Number(NamedTuple):
    written: str


class Pairs(NamedTuple):
    pairs: list[tuple[str, Any]]


class RefusedError(Exception):
    """Its text is the path."""


def read(text: str) -> Any:
    return json.loads(text, parse_int=Number, parse_float=Number, object_pairs_hook=Pairs)


def expect(kind: Any, value: Any, path: str, is_last: bool = True) -> Any:
    """What ``value`` becomes in the type ``kind``: a name, or a tuple of struct, array or map and its parts.

    Unless it ``is_last`` of its name, only its kind of JSON value counts.
    """
    if value is None:
        return None
    if isinstance(kind, tuple):
        return expect_nested(kind, value, path, is_last)
    convert = SCALARS[kind] if is_last else KINDS_OF_JSON.get(kind, SCALARS[kind])
    try:
        return convert(value)
    except (ValueError, AssertionError, ArithmeticError):
        raise RefusedError(path) from None


def expect_nested(kind: tuple[str, Any], value: Any, path: str, is_last: bool) -> Any:
    name, parts = kind
    if name == "array":
        if not isinstance(value, list):
            raise RefusedError(path)
        return [expect(parts, one, f"{path}[{index}]", is_last) for index, one in enumerate(value)]
    if not isinstance(value, Pairs):
        raise RefusedError(path)
    places = {key: place for place, (key, _) in enumerate(value.pairs)}
    members: dict[str, Any] = dict.fromkeys(parts) if name == "struct" else {}
    for place, (key, one) in enumerate(value.pairs):
        inner, is_last_one = parts if name == "map" else parts.get(key), is_last and places[key] == place
        if name == "map" and not is_text(key):
            raise RefusedError(path)
        if inner is not None:
            members[key] = expect(inner, one, f"{path}['{key}']" if name == "map" else f"{path}.{key}", is_last_one)
    return members if name == "struct" else list(members.items())


def text(value: Any) -> str:
    assert isinstance(value, str)
    assert is_text(value)
    return value


def is_text(value: str) -> bool:
    """Whether no half of a surrogate pair, and no byte that is no UTF-8, is in ``value``."""
    return not re.search("[\ud800-\udfff]", value)


def integer(bits: int) -> Any:
    def convert(value: Any) -> int:
        assert isinstance(value, Number)
        number = int(value.written)
        assert -(1 << bits - 1) <= number < 1 << bits - 1
        return number

    return convert


def double(value: Any) -> float:
    assert isinstance(value, Number)
    number = float(value.written)
    assert math.isfinite(number)
    return 0.0 if value.written == "-0" else number


def single(value: Any) -> float:
    number = float(struct.unpack("f", struct.pack("f", double(value)))[0])
    assert math.isfinite(number)
    return number


def boolean(value: Any) -> bool:
    assert isinstance(value, bool)
    return value


def number_of(value: Any) -> Decimal:
    if isinstance(value, Number):
        return Decimal(value.written)
    assert re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", text(value))
    return Decimal(value)


def decimal(value: Any, *, rounds: bool = False) -> Decimal:
    number = number_of(value)
    kept = number.quantize(Decimal("0.1"), ROUND_HALF_UP)
    assert (rounds or kept == number) and abs(kept) < 1000
    return kept or Decimal("0.0")  # No decimal of Arrow is -0.


def day(value: Any) -> date:
    assert re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text(value))
    return date.fromisoformat(value)


def moment(value: Any) -> datetime:
    form = r"([0-9]{4}-[0-9]{2}-[0-9]{2})[T ]([0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,9}))?(Z|[+-][0-9]{2}:[0-5][0-9])"
    found = re.fullmatch(form, text(value))
    assert found
    whole = datetime.fromisoformat(f"{found[1]}T{found[2]}{found[4].replace('Z', '+00:00')}").astimezone(UTC)
    return whole + timedelta(microseconds=int((found[3] or "").ljust(6, "0")[:6]))


def epoch(value: Any) -> datetime:
    micros = number_of(value).scaleb(6)
    assert abs(micros) < 10**18
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=math.floor(micros))


def canonical(value: Any) -> str:
    if isinstance(value, Number):
        return value.written
    if isinstance(value, Pairs):
        members = sorted(dict(value.pairs).items())
        return "{" + ",".join(f"{canonical(key)}:{canonical(one)}" for key, one in members) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    return json.dumps(text(value) if isinstance(value, str) else value, ensure_ascii=False)


SCALARS: dict[str, Any] = {
    "string": text,
    "tinyint": integer(8),
    "int": integer(32),
    "bigint": integer(64),
    "long": integer(64),
    "double": double,
    "float": single,
    "boolean": boolean,
    "decimal(4,1)": decimal,
    "date": day,
    "timestamp": moment,
    "json": canonical,
}
KINDS_OF_JSON: dict[str, Any] = {
    "float": double,
    "decimal(4,1)": lambda _: None,
    "date": text,
    "timestamp": text,
    "json": lambda _: None,
}


def declare(kind: Any) -> str:
    if not isinstance(kind, tuple):
        return str(kind)
    name, parts = kind
    if name == "struct":
        return f"struct<{', '.join(f'`{key}`: {declare(part)}' for key, part in parts.items())}>"
    return f"{name}<{'string, ' if name == 'map' else ''}{declare(parts)}>"


def as_arrow(value: Any) -> Any:
    """``value`` with the zone of moments as Arrow gives it, so that ``repr`` tells 0.0 and -0.0 apart."""
    array = pa.array([datetime(2013, 1, 5, tzinfo=UTC)], pa.timestamp("us", tz="UTC"))
    if isinstance(value, datetime):
        return value.replace(tzinfo=array[0].as_py().tzinfo)
    if isinstance(value, dict):
        return {key: as_arrow(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(as_arrow(one) for one in value)
    return value
