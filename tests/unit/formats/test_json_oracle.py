"""Random values of random types are decoded as plain Python decodes them, or refused at the same place."""

import json
import math
import re
import struct
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, NamedTuple

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from hourline_core.formats.json.decoder import JsonDecoder
from hourline_core.model.fields import Field


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
        if inner is not None:
            members[key] = expect(inner, one, f"{path}['{key}']" if name == "map" else f"{path}.{key}", is_last_one)
    return members if name == "struct" else list(members.items())


def text(value: Any) -> str:
    assert isinstance(value, str)
    return value


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
    return json.dumps(value, ensure_ascii=False)


SCALARS: dict[str, Any] = {
    "string": text,
    "tinyint": integer(8),
    "int": integer(32),
    "bigint": integer(64),
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
NAMES = st.sampled_from(["a", "B", "self", "__class__", "0a", "class", "é ä", "a.b"])
KINDS = st.recursive(
    st.sampled_from(sorted(SCALARS)),
    lambda part: st.one_of(
        st.tuples(st.sampled_from(["array", "map"]), part),
        st.tuples(st.just("struct"), st.dictionaries(NAMES, part, min_size=1, max_size=3)),
    ),
    max_leaves=4,
)
DATES = st.dates(date(1, 1, 2), date(9999, 12, 30)).map(str) | st.sampled_from(
    ["2013-02-29", "2013-1-05", "0000-01-01"]
)
TIMES = st.builds(
    lambda day, sign, time, rest: f"{day}{sign}{time}{rest}",
    DATES,
    st.sampled_from("T t"),
    st.sampled_from(["14:30:00", "24:00:00", "23:59:59", "14:30", "00:00:60"]),
    st.sampled_from(["Z", "", ".5Z", ".123456789+05:30", "-23:59", "+0100", " Z"]),
)
NUMBERS = st.one_of(
    st.integers(-(2**65), 2**65).map(str),
    st.integers(-200, 200).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.decimals(-1200, 1200, places=1).map(str),
    st.sampled_from(["-0", "-0.0", "1e400", "1e999", "5e0", "1.50", "99.95", "1E2"]),
)
TEXTS = st.one_of(
    st.text(st.characters(codec="utf-8"), max_size=4), DATES, TIMES, NUMBERS, st.sampled_from(["1,5", "١"])
)
QUOTED = st.builds(lambda one, ascii_only: json.dumps(one, ensure_ascii=ascii_only), TEXTS, st.booleans())


def written(kind: Any) -> st.SearchStrategy[str]:
    """JSON that is often of the type ``kind``."""
    if not isinstance(kind, tuple):
        usual = {
            "boolean": st.sampled_from(["true", "false"]),
            "date": DATES.map(json.dumps),
            "timestamp": TIMES.map(json.dumps),
        }
        usual |= {"string": QUOTED, "json": ANY}
        return st.one_of(usual.get(kind, NUMBERS), usual.get(kind, NUMBERS), ANY)
    name, parts = kind
    if name == "array":
        usual_one = st.lists(written(parts), max_size=3).map(lambda ones: f"[{' , '.join(ones)}]")
    else:
        part = {key: written(parts[key]) for key in parts} if name == "struct" else {}
        member = st.sampled_from(sorted(part)) if part else NAMES
        pair = st.one_of(member, NAMES).flatmap(
            lambda key: part.get(key, written(parts) if name == "map" else ANY).map(
                lambda one: f"{json.dumps(key)}: {one}"
            )
        )
        usual_one = st.lists(pair, max_size=4).map(lambda ones: f"{{{','.join(ones)}}}")
    return st.one_of(usual_one, usual_one, usual_one, ANY)


ANY = st.recursive(
    st.one_of(st.sampled_from(["null", "true"]), NUMBERS, QUOTED),
    lambda one: (
        st.lists(one, max_size=3).map(lambda ones: f"[{','.join(ones)}]")
        | st.lists(st.tuples(QUOTED, one), max_size=3).map(
            lambda ones: "{" + ", ".join(f"{a} :{b}" for a, b in ones) + "}"
        )
    ),
    max_leaves=4,
)


def declare(kind: Any) -> str:
    if not isinstance(kind, tuple):
        return str(kind)
    name, parts = kind
    if name == "struct":
        return f"struct<{', '.join(f'`{key}`: {declare(part)}' for key, part in parts.items())}>"
    return f"{name}<{'string, ' if name == 'map' else ''}{declare(parts)}>"


@given(st.data())
@settings(max_examples=400, deadline=None)
def test_values_are_decoded_as_plain_python_decodes_them(data: st.DataObject) -> None:
    kind = data.draw(KINDS)
    values = data.draw(st.lists(written(kind), min_size=1, max_size=4))
    field = Field(type=f"struct<v: {declare(kind)}>")
    records = [f'{{"u":1, "x":{{"v": {value} }}}}'.encode() for value in values]
    decoded = JsonDecoder({"x": field}).decode(pa.array(records, pa.binary()))
    got = decoded.columns["x"].to_pylist()
    for value, row, reason in zip(values, got, decoded.reasons.to_pylist(), strict=True):
        try:
            wanted = expect(kind, read(value), "x.v")
        except RefusedError as refused:
            assert row is None
            assert (reason or "").startswith(f"field '{refused}': got "), (value, reason)
        else:
            assert reason is None, (value, reason)
            assert repr(row["v"]) == repr(as_arrow(wanted)), value


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


@given(NUMBERS | QUOTED, st.booleans())
@settings(max_examples=300, deadline=None)
def test_epochs_and_rounded_decimals_are_exact(value: str, is_epoch: bool) -> None:
    field = Field(type="timestamp", encoding="epoch_seconds") if is_epoch else Field(type="decimal(4,1)", round=True)
    decoded = JsonDecoder({"x": field}).decode(pa.array([f'{{"x":{value}}}'.encode()], pa.binary()))
    try:
        wanted = epoch(read(value)) if is_epoch else decimal(read(value), rounds=True)
    except (ArithmeticError, ValueError, AssertionError):
        assert decoded.reasons[0].as_py().startswith(f"field 'x': got {value[:70]}")
    else:
        assert decoded.columns["x"].to_pylist() == [wanted]
