"""A record that is no JSON object of the declared fields is refused with its first fault, and harms no other record."""

import json
import pickle
import random
import re
import sys
from typing import Any

import pyarrow as pa
import pytest

from hourline_core.formats.json.decoder import JsonDecoder
from hourline_core.formats.json.explain import _Rule
from hourline_core.model.fields import Field

TYPES = {
    "s": "string",
    "i": "int",
    "l": "long",
    "f": "float",
    "d": "double",
    "b": "boolean",
    "t": "timestamp",
    "day": "date",
    "dec": "decimal(10,2)",
    "j": "json",
    "st": "struct<a: int, `x y`: timestamp, `__class__`: string>",
    "ar": "array<struct<p: decimal(4,1), `0a`: string>>",
    "m": "map<string, int>",
}
DECODER = JsonDecoder({name: Field(type=kind) for name, kind in TYPES.items()})
GOOD = json.dumps(
    {
        "s": "é \ud83d\ude00",
        "i": 1,
        "l": 2,
        "f": 0.5,
        "d": 1e3,
        "b": True,
        "t": "2013-01-05T14:30:00Z",
        "day": "2013-01-05",
        "dec": 1.5,
        "j": {"b": [1.5], "a": None},
        "st": {"a": 1, "x y": "2013-01-05T14:30:00Z", "__class__": "c"},
        "ar": [{"p": 1.5, "0a": "z"}, None],
        "m": {"k": 1},
        "undeclared": [{"deep": "text"}, 1e5],
    }
).encode()


def decode(*records: bytes | None, decoder: JsonDecoder = DECODER) -> tuple[list[dict[str, Any]], list[str | None]]:
    decoded = decoder.decode(pa.array(records, pa.binary()))
    rows = pa.table(decoded.columns).to_pylist() if decoded.columns else [{} for _ in records]
    return rows, decoded.reasons.to_pylist()


NOT_ONE_OBJECT = "not exactly one JSON object: got "


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (b"[]", f"{NOT_ONE_OBJECT}an array"),
        (b' "text"', f"{NOT_ONE_OBJECT}a text"),
        (b"5", f"{NOT_ONE_OBJECT}a number"),
        (b"null", f"{NOT_ONE_OBJECT}null"),
        (b"true", f"{NOT_ONE_OBJECT}true"),
        (b" \n", f"{NOT_ONE_OBJECT}white space alone"),
        (b"{} {}", f"{NOT_ONE_OBJECT}more after its end, at byte 3"),
        (b"{},", f"{NOT_ONE_OBJECT}more after its end, at byte 2"),
        (b"\xef\xbb\xbf{}", "begins with a byte order mark, allowed is a JSON object in UTF-8 alone"),
        (
            '{"s":"a"}'.encode("utf-16"),
            "begins with a byte order mark of UTF-16, allowed is a JSON object in UTF-8 alone",
        ),
        (b'{"s":"a"', "invalid JSON: the object does not end, at byte 8"),
        (b'{"s":"a', "invalid JSON: the object does not end, at byte 7"),
        (b'{"d":NaN}', "invalid JSON: got NaN, which is no JSON value, at byte 5"),
        (b'{"z":[-Infinity]}', "invalid JSON: got -Infinity, which is no JSON value, at byte 6"),
        (b'{"s":"a\x01"}', "invalid JSON: invalid character at byte 7"),
        (b"{'s':1}", "invalid JSON: object keys must be strings at byte 1"),
        (b'{"s":"a",}', "invalid JSON: trailing comma in object at byte 9"),
        (b'{"s":"\xff"}', "field 's': got invalid UTF-8 in \"\ufffd\", want string"),
        (
            b'{"st":{"__class__":"\xc0\x80"}}',
            "field 'st.__class__': got invalid UTF-8 in \"\ufffd\ufffd\", want string",
        ),
        (b'{"m":{"\xff":1}}', "field 'm': got invalid UTF-8 in \"\ufffd\", want a text as name"),
        (b'{"m":{"\\udc00":1}}', "field 'm': got half of a surrogate pair in \"\\udc00\", want a text as name"),
        (b'{"z":"\\ud800","s":"\\ud800"}', "field 's': got half of a surrogate pair in \"\\ud800\", want string"),
        (b'{"s":"\\ud800\\u0041', "invalid JSON: the object does not end, at byte 18"),
        (b'{"ar":[{},{"0a":7}]}', "field 'ar[1].0a': got 7, want string"),
        (b'{"ar":[{"p":1},{"p":1.25}]}', "field 'ar[1].p': got 1.25, want decimal(4,1)"),
        (b'{"dec":1.234}', "field 'dec': got 1.234, want decimal(10,2) (with round: true, it is rounded)"),
        (b'{"m":{"a]b":"5"}}', "field 'm['a]b']': got \"5\", want int"),
        (b'{"s":{"a" : [1]}}', "field 's': got {\"a\" : [1]}, want string"),
        (b'{"s":' + b"1" * 100 + b"}", f"field 's': got {'1' * 79}…, want string"),
        (b'{"l":' + b"9" * 5000 + b"}", f"field 'l': got {'9' * 79}…, want long"),
        # The first fault counts, whatever finds it.
        (b'{"day":"5","i":"5"}', "field 'day': got \"5\", want date"),
        (b'{"i":"5","day":"5"}', "field 'i': got \"5\", want int"),
        (b'{"i":"5" ? }', "field 'i': got \"5\", want int"),
        (b'{"day":"5" ? }', "field 'day': got \"5\", want date"),
        (b'{"dec":12?}', "invalid JSON: expected ',' or '}' at byte 9"),
        (b'{"i":"1","i":1}', "field 'i': got \"1\", want int"),
        # An earlier value of a name is no fault for its content.
        (b'{"day":"x","day":"2013-01-05","i":"5"}', "field 'i': got \"5\", want int"),
        (b'{"ar":[{"p":"x"}],"ar":[],"day":"x"}', "field 'day': got \"x\", want date"),
        (b'{"day":"2013-01-05","day":"x"}', "field 'day': got \"x\", want date"),
    ],
)
def test_a_reason_says_what_was_got_and_where(record: bytes, reason: str) -> None:
    assert decode(record)[1] == [reason]


@pytest.mark.parametrize(
    "undeclared",
    [
        b'"\xff"',
        b'"\\ud800"',
        b'["\\udc00\\\\\\ud800x"]',
        b"1e999999999",
        b"1" * 1001,
        b"1" * 5000,
        b'{"\xff":{"\\ud800":1,"\\ud800":1}}',
        b"[" * 499 + b"]" * 499,
    ],
    ids=lambda value: str(value[:12]),
)
def test_an_undeclared_field_needs_only_an_end(undeclared: bytes) -> None:
    rows, reasons = decode(b'{"z":' + undeclared + b',"s":"a"}', b'{"' + b"n" * 50_001 + b'":1,"s":"b"}')
    assert reasons == [None, None]
    assert [row["s"] for row in rows] == ["a", "b"]


def test_a_record_has_a_limit_of_levels_whatever_the_stack() -> None:
    within, beyond = (b'{"z":' + b"[" * n + b"]" * n + b',"s":"a"}' for n in (499, 500))
    declared = b'{"j":' + b'{"a":' * 499 + b"1" + b"}" * 500
    first = b'{"i":"1","z":' + b"[" * 500 + b"]" * 500 + b"}"
    text = b'{"s":"' + b"[" * 2000 + b'","z":[[]]}'
    too_deep = "more than 500 levels of objects and arrays within each other"

    def decode_deep_in(calls: int) -> list[str | None]:
        return decode_deep_in(calls - 1) if calls else decode(within, beyond, declared, first, text, b"{" * 600)[1]

    free = sys.getrecursionlimit() - 150
    for calls in (0, free - 300, free - 100):
        reasons = decode_deep_in(calls)
        assert reasons[:3] == [None, too_deep, None]
        assert reasons[3:5] == ["field 'i': got \"1\", want int", None]
        assert (reasons[5] or "").startswith("invalid JSON: object keys must be strings")


def test_a_value_that_is_null_or_empty_has_neither_fields_nor_a_reason() -> None:
    rows, reasons = decode(None, b"", b'{"s":"a"}', b"")
    assert reasons == [None] * 4
    assert [row["s"] for row in rows] == [None, None, "a", None]
    assert [decode()[1], decode(None)[1]] == [[], [None]]


def test_two_fields_of_one_name_are_both_read() -> None:
    kinds = {"number": "int", "text": "json", "exact": "decimal(5,1)"}
    decoder = JsonDecoder({name: Field(type=kind, key="n") for name, kind in kinds.items()})
    rows, reasons = decode(b'{"n":7}', b'{"n":"7"}', decoder=decoder)
    assert [str(value) for value in rows[0].values()] == ["7", "7", "7.0"]
    assert reasons == [None, "field 'number': got \"7\", want int"]


def test_a_decoder_can_be_pickled_and_have_a_thousand_fields() -> None:
    decoder = pickle.loads(pickle.dumps(JsonDecoder({f"f{n}": Field(type="int") for n in range(1000)})))  # noqa: S301
    rows, reasons = decode(json.dumps({f"f{n}": n for n in range(1000)}).encode(), decoder=decoder)
    assert reasons == [None]
    assert rows[0] == {f"f{n}": n for n in range(1000)}


def mutations(count: int) -> list[bytes]:
    """Records that are malformed in some way: cut, with bytes changed, inserted or doubled, and random ones."""
    dice = random.Random(40)  # noqa: S311
    records = [GOOD[:end] for end in range(1, len(GOOD))]
    for _ in range(count):
        changed = bytearray(GOOD)
        for _ in range(dice.randint(1, 3)):
            place = dice.randrange(len(changed))
            match dice.randrange(4):
                case 0:
                    changed[place] = dice.randrange(256)
                case 1:
                    changed[place:place] = dice.choice([b'"', b"\\", b"{", b"]", b"\\ud800", b"NaN", b"\xff", b"1e999"])
                case 2:
                    del changed[place : place + dice.randint(1, 9)]
                case _:
                    changed[place:place] = changed[place : place + dice.randint(1, 20)]
        records.append(bytes(changed))
        records.append(dice.randbytes(dice.randint(1, 60)))
    return records


def test_malformed_records_never_raise_nor_harm_the_good_ones() -> None:
    bad = mutations(2000)
    mixed = [record for one in bad for record in (one, GOOD)]
    rows, reasons = decode(*mixed)
    alone = decode(GOOD)[0][0]
    assert all(row == alone for row in rows[1::2])
    assert set(reasons[1::2]) == {None}
    refused = [(record, reason) for record, reason in zip(bad, reasons[::2], strict=True) if reason is not None]
    assert len(refused) > 1000
    without_good_ones, same_reasons = decode(*(record for record, _ in refused))
    assert same_reasons == [reason for _, reason in refused]
    for row, (record, reason) in zip(without_good_ones, refused, strict=True):
        assert all(value is None for value in row.values())
        check_reason(record, reason)


def check_reason(record: bytes, reason: str) -> None:
    """Fail unless ``reason`` is true: it names a field with a value that stands in the record, or malformed JSON."""
    if found := re.fullmatch(
        r"field '(.+)': got (?:invalid UTF-8 in |half of a surrogate pair in )?(.+), want .+", reason, re.DOTALL
    ):
        got = found[2].removesuffix("…")
        assert got in record.decode(errors="replace")
        field = re.split(r"[.\[]", found[1])[0]
        assert field in TYPES
    else:
        with pytest.raises(ValueError, match=r".+"):
            value = json.loads(record.decode(errors="surrogateescape"), parse_constant=int)
            if not isinstance(value, dict):
                raise ValueError(reason)


ELEMENTS: dict[str, tuple[str, list[Any]]] = {
    "int": ("int", [1, -20, None]),
    "decimal": ("decimal(4,1)", [1.5, "2.5", None]),
    "text": ("string", ["a,b", '"]}', "\\", "é", ""]),
    "struct": ("struct<a: int, b: string>", [{"a": 1, "b": "},{"}, {}, {"c": 2}, None]),
    "flat": ("array<int>", [[1, 2], [], None]),
    "deep": ("array<array<int>>", [[[1], []], [None]]),
}


@pytest.mark.parametrize("name", ELEMENTS)
@pytest.mark.parametrize("form", ["array<{}>", "map<string, {}>"])
def test_the_one_bad_element_of_many_is_named(name: str, form: str) -> None:
    kind, values = ELEMENTS[name]
    decoder = JsonDecoder({"many": Field(type=form.format(kind))})
    rand = random.Random(f"{name} {form}")  # noqa: S311 (the same each time)
    texts = [json.dumps(rand.choice(values), ensure_ascii=False) for _ in range(2200)]
    assert written(decoder, form, texts) is None
    bad = '{"a": "x"}' if name == "struct" else "{}" if name != "text" else "1"
    for place in (0, 1000, 2100):
        path = f"['{place}']" if form.startswith("map") else f"[{place}]"
        reason = written(decoder, form, [*texts[:place], bad, *texts[place:]]) or ""
        assert reason.startswith(f"field 'many{path}{'.a' if name == 'struct' else ''}': got ")
        reason = written(decoder, form, [*texts[:place], "tru", *texts[place:]]) or ""
        assert reason.startswith((f"field 'many{path}': got tru, want ", "invalid JSON: "))


def test_elements_before_the_bad_one_are_looked_at_together(monkeypatch: pytest.MonkeyPatch) -> None:
    judged, judge = [], _Rule.judge
    monkeypatch.setattr(_Rule, "judge", lambda rule, text: judged.append(len(text)) or judge(rule, text))  # type: ignore[func-returns-value]
    decoder = JsonDecoder({"many": Field(type="array<int>")})
    assert written(decoder, "array<int>", ["1"] * 50_000 + ['"x"']) == "field 'many[50000]': got \"x\", want int"
    assert len(judged) < 1100


def written(decoder: JsonDecoder, form: str, texts: list[str]) -> str | None:
    """The reason of a record with these elements, or members named by their places."""
    of_map = form.startswith("map")
    parts = [f'"{place}": {text}' if of_map else text for place, text in enumerate(texts)]
    body = " ,\n".join(parts)
    (reason,) = decode(f'{{"many": {"{" if of_map else "["}{body}{"}" if of_map else "]"}}}'.encode(), decoder=decoder)[
        1
    ]
    return reason
