"""Each of many damaged texts is taken as Python's expressions read it, or refused with the field or byte at fault."""

import re
from typing import Any

import pyarrow as pa

from hourline_core.formats.text.decoder import TextDecoder
from hourline_core.model.fields import Field
from hourline_core.model.text_format import TextFormat
from tests.support.json_oracle import SCALARS, Number
from tests.support.malformed import cut, end_of_text, flipped, replaced, with_no_utf8

PATTERN = (
    r'(?P<host>[0-9.]+) (?:-|(?P<user>[a-zé]+)) \[(?P<at>[^\]]*)\] "(?P<line>[^"]*)" (?P<status>\S+)(?: (?P<size>\S+))?'
)
TYPES = {
    "host": "string",
    "user": "string",
    "at": "timestamp",
    "line": "string",
    "status": "int",
    "size": "decimal(4,1)",
}
TEXTS = [
    '10.0.0.1 ren\u00e9 [2013-01-05T14:30:00Z] "GET /\U0001f600" 200 12.5',
    '10.0.0.1 - [2013-01-05 14:30:00.5+01:00] "" 404',
]
PIECES = [
    b"\n",
    b"\r",
    b"\r\n",
    b"\0",
    b" ",
    b'"',
    b"]",
    b"x",
    b"-",
    b"\xe2\x80\xa8",
    b"\xef\xbb\xbf",
    b"\xc2\xa0",
    b"9" * 100,
]


def corpus() -> list[bytes]:
    """The texts cut off, with each bit flipped, and with pieces that may be at fault at each place, or in place of it."""
    damaged: list[bytes] = []
    for text in map(str.encode, TEXTS):
        damaged += [text, *cut(text), *flipped(text), *(written for _, written in with_no_utf8(text))]
        damaged += [text[:place] + piece + text[place:] for place in range(len(text) + 1) for piece in PIECES]
        damaged += [replaced(text, place, b"") for place in range(len(text))]
    return damaged


def value_of(kind: str, group: str | None) -> Any:
    """What a group is in its type. Raises ValueError, ArithmeticError or AssertionError if it is refused."""
    if not group or kind == "string":
        return group or None
    if kind == "int":
        assert re.fullmatch("-?(?:0|[1-9][0-9]*)", group)
        return SCALARS[kind](Number(group))
    return SCALARS[kind](group)


def expected(written: bytes) -> dict[str, Any] | str:
    """The values of a text, or how the reason begins."""
    if (end := end_of_text(written)) < len(written):
        return f"invalid UTF-8 at byte {end}"
    text = re.sub(r"(?:\r?\n|\r)\Z", "", written.decode())
    found = re.fullmatch(PATTERN, text, re.ASCII)
    if not found:
        shown = text if len(text) <= 80 else f"{text[:80]}\u2026"
        return f'got "{shown}", want a text that its pattern matches'
    values = {}
    for name, group in found.groupdict().items():
        try:
            values[name] = value_of(TYPES[name], group)
        except (ValueError, ArithmeticError, AssertionError):
            return f"field '{name}': got "
    return values


def test_each_damaged_text_is_taken_as_python_reads_it_or_refused_with_its_fault() -> None:
    decoder = TextDecoder(TextFormat(pattern=PATTERN), {name: Field(type=kind) for name, kind in TYPES.items()})
    damaged, refused = corpus(), 0
    decoded = decoder.decode(pa.array(damaged, pa.binary()))
    rows = pa.table(decoded.columns).to_pylist()
    for written, row, said in zip(damaged, rows, decoded.reasons.to_pylist(), strict=True):
        match expected(written):
            case str(reason):
                assert (said or "").startswith(reason), (written, said)
                assert said == reason or reason.startswith("field "), (written, said)
                assert set(row.values()) == {None}
                refused += 1
            case values:
                assert (said, row) == (None, values), written
    assert refused > 2000
    assert len(damaged) - refused > 400
