"""Random values of random types are decoded as plain Python decodes them, or refused at the same place."""

import json
from datetime import date
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from hourline_core.formats.json.decoder import JsonDecoder
from hourline_core.model.fields import Field
from tests.support.json_oracle import SCALARS, RefusedError, as_arrow, decimal, declare, epoch, expect, read

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
