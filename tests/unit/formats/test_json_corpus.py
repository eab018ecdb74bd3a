"""Each of many damaged records of JSON is taken as Python reads it, or refused with the field or byte at fault."""

import json
import re
from typing import Any

import pyarrow as pa
import pytest

from hourline_core.formats.json.decoder import JsonDecoder
from hourline_core.model.fields import Field
from tests.support.json_oracle import RefusedError, as_arrow, declare, expect, read
from tests.support.malformed import cut, flipped, with_no_utf8

KINDS: dict[str, Any] = {
    "s": "string",
    "i": "int",
    "l": "long",
    "f": "float",
    "d": "double",
    "b": "boolean",
    "t": "timestamp",
    "day": "date",
    "dec": "decimal(4,1)",
    "j": "json",
    "st": ("struct", {"a": "int", "at": "timestamp"}),
    "ar": ("array", ("struct", {"p": "decimal(4,1)", "z": "string"})),
    "m": ("map", "int"),
}
GOOD = {
    "s": "\u00e9 \U0001f600\n",
    "i": 10,
    "l": 2,
    "f": 0.5,
    "d": 1e3,
    "b": True,
    "t": "2013-01-05T14:30:00Z",
    "day": "2013-01-05",
    "dec": 1.5,
    "j": {"a": None, "b": [1.5]},
    "st": {"a": 1, "at": "2013-01-05T14:30:00Z"},
    "ar": [{"p": 1.5, "z": "z"}, None],
    "m": {"k": 1},
    "undeclared": [{"deep": "text"}, 1e5],
}
VALUES = [
    *("null", "true", "7", "-0", "1.55", "2147483648", "9223372036854775808", "1e400", "99999999999999999999999.5"),
    *(
        '""',
        '"7"',
        '"x"',
        '"2013-02-29"',
        '"2013-01-05T14:30:00"',
        '"\\ud800"',
        '"\\u0000"',
        '"1.5"',
        '"\\ud83d\\ude00"',
    ),
    *(
        "[]",
        "[[]]",
        '["x"]',
        "{}",
        '{"a":"x"}',
        '{"a":{}}',
        '{"k":1.5}',
        '[{"p":"x"}]',
        '[{"p":1},{"z":1}]',
        '{"at":1}',
    ),
]
"""Each of them fits some of the types."""
NO_NUMBERS = ("01", "+1", ".5", "1.", "0x1", "1e", "-", "tru", "nulL", "'x'", "")
WRITTEN = json.dumps(GOOD, ensure_ascii=False).encode()


def corpus() -> list[bytes]:
    """The record cut off, with bits flipped, with bytes that are no UTF-8, and with other values of each field."""
    other_values = [
        json.dumps(GOOD | {name: 0}).replace(f'"{name}": 0', f'"{name}": {value}') for name in KINDS for value in VALUES
    ]
    others = [f'{{"{name}":{value}}}'.encode() for name in KINDS for value in NO_NUMBERS]
    no_utf8 = [written for _, written in with_no_utf8(WRITTEN)]
    return [
        *cut(WRITTEN),
        *flipped(WRITTEN, range(0, 8, 2)),
        *no_utf8,
        *(value.encode() for value in other_values),
        *others,
    ]


def closed(text: str) -> str:
    """The longest JSON that ``text`` begins with, which is malformed at its end, with brackets behind it."""
    for end in range(len(text), 0, -1):
        beginning = text[:end]
        if beginning[-1] in ",{[]} \n":
            outside = re.sub(r'"(?:[^"\\]|\\.)*"', "", beginning)
            closers = ""
            for character in outside:
                if character in "{[":
                    closers = {"{": "}", "[": "]"}[character] + closers
                elif character in "]}":
                    closers = closers[1:]
            whole = beginning.rstrip(", \n") + closers
            try:
                json.loads(whole)
            except ValueError:
                continue
            return whole
    return "{}"


def row_of(text: str) -> dict[str, Any]:
    """The fields of a JSON object. Raises RefusedError for the first one that is refused."""
    row: dict[str, Any] = expect(("struct", KINDS), read(text), "")
    return row


def is_true_of_malformed(written: bytes, text: str, fault: json.JSONDecodeError, reason: str) -> bool:
    """Whether ``reason`` names the place that Python finds in ``written``, which is ``text``, or a field before it."""
    if text.startswith("["):
        return reason == "not exactly one JSON object: got an array"
    place = len(text[: fault.pos].encode(errors="surrogateescape"))
    try:
        row_of(closed(text[: fault.pos]))
    except RefusedError as refused:
        return reason.startswith(f"field '{str(refused)[1:]}': got ")
    if said := re.fullmatch(r"field '(.+)': got (?:invalid UTF-8 in )?(.+), want .+", reason, re.DOTALL):
        # The value at the fault is none of the field's type: either may be said.
        shown, names = written.decode(errors="replace"), re.findall(r'"(\w+)":', text[: fault.pos])
        begin = shown.rfind(said[2], 0, fault.pos + len(said[2]))
        return begin <= fault.pos <= begin + len(said[2]) and re.findall(r"[a-z]\w*", said[1])[-1] in names
    if said := re.fullmatch(r"(?:invalid JSON|not exactly one JSON object): .+ at byte (\d+)", reason, re.DOTALL):
        end = int(said[1])
        # Of a word such as "trxe", msgspec names the second byte or the one behind it.
        is_same_token = re.fullmatch(rb"[\w+.-]*|\\.|\\u.{0,4}|(?:t...|f....|n...)", written[place:end], re.DOTALL)
        if "does not end" in reason:
            return end == len(written) and (bool(is_same_token) or fault.msg.startswith("Unterminated string"))
        return bool(is_same_token)
    return False


def test_each_damaged_record_is_taken_as_python_reads_it_or_refused_with_its_fault() -> None:
    decoder = JsonDecoder({name: Field(type=declare(kind)) for name, kind in KINDS.items()})
    damaged, refused = corpus(), 0
    decoded = decoder.decode(pa.array(damaged, pa.binary()))
    rows = pa.table(decoded.columns).to_pylist()
    for written, row, reason in zip(damaged, rows, decoded.reasons.to_pylist(), strict=True):
        text = written.decode(errors="surrogateescape")
        try:
            expected = row_of(text)
        except json.JSONDecodeError as fault:
            assert is_true_of_malformed(written, text, fault, reason or ""), (written, reason)
            refused += 1
        except RefusedError as fault:
            assert (reason or "").startswith(f"field '{str(fault)[1:]}': got "), (written, reason)
            refused += 1
        else:
            assert (reason, repr(row)) == (None, repr(as_arrow(expected))), written
    assert refused > 2000
    assert len(damaged) - refused > 500


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity"])
def test_what_python_takes_for_a_number_is_none(constant: str) -> None:
    decoder = JsonDecoder({name: Field(type=declare(kind)) for name, kind in KINDS.items()})
    records = [json.dumps(GOOD | {name: float(constant)}, ensure_ascii=False).encode() for name in GOOD]
    reasons = decoder.decode(pa.array(records, pa.binary())).reasons.to_pylist()
    assert reasons == [
        f"invalid JSON: got {constant}, which is no JSON value, at byte {record.index(constant.encode())}"
        for record in records
    ]
