"""Patterns find what Python's regular expressions find, where both read them alike, in a time that is bounded."""

import re
from collections.abc import Sequence

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from hourline_core.formats.text.decoder import TextDecoder
from hourline_core.model.fields import Field
from hourline_core.model.text_format import TextFormat

TEXTS = st.lists(st.text(st.sampled_from("abé0 \n\r-"), min_size=1, max_size=8), max_size=10)
# What is repeated takes at least a character: engines differ on groups in an empty repetition.
_ATOMS = st.sampled_from(["a", "b", "é", r"\d", r"\w", "[ab]", "[^a]", ".", r"\-", "(?:ab|a)", "(?:a|b0)"])
_PIECES = st.builds("".join, st.tuples(_ATOMS, st.sampled_from(["", "?", "*", "+", "*?", "+?", "??", "{1,2}", "{2}"])))
_PARTS = st.one_of(
    st.lists(_PIECES, max_size=2).map("".join),
    st.sampled_from(["^", "$", r"\b", r"\A", "(?:)"]),
)
_GROUP_BODIES = st.one_of(_PARTS, st.tuples(_PARTS, _PARTS).map("|".join))


@st.composite
def patterns(draw: st.DrawFn) -> str:
    """A pattern with two or three groups, some of which may take no part."""
    parts = [draw(_PARTS)]
    for name in "xyz"[: draw(st.integers(1, 3))]:
        around = draw(st.sampled_from(["{}", "{}?", "(?:{}|a)", "(?:b|{})"]))
        parts += [around.format(f"(?P<{name}>{draw(_GROUP_BODIES)})"), draw(_PARTS)]
    return "".join(parts)


def decode(pattern: str, texts: Sequence[str]) -> list[dict[str, str | None] | None]:
    format = TextFormat(pattern=pattern)
    decoder = TextDecoder(format, {name: Field(type="string") for name in format.fields})
    decoded = decoder.decode(pa.array([text.encode() for text in texts], pa.binary()))
    found = zip(pa.table(decoded.columns).to_pylist(), decoded.reasons.to_pylist(), strict=True)
    return [None if reason else row for row, reason in found]


def find(pattern: str, text: str) -> dict[str, str | None] | None:
    """The groups as Python finds them. None: it does not match."""
    # RE2's $ is the end of a text alone, and its classes are those of ASCII.
    found = re.fullmatch(pattern.replace("$", r"\Z"), re.sub(r"(?:\r?\n|\r)\Z", "", text), re.ASCII)
    return {name: group or None for name, group in found.groupdict().items()} if found else None


@settings(max_examples=300)
@given(pattern=patterns(), texts=TEXTS)
def test_groups_are_found_as_by_python(pattern: str, texts: list[str]) -> None:
    assert decode(pattern, texts) == [find(pattern, text) for text in texts]


def test_a_pattern_that_would_take_for_ever_elsewhere_ends() -> None:
    text = "x" * 200_000
    for pattern in ("(?P<a>(?:x+)+)y", "(?P<a>(?:x|xx|.)*)y", "(?P<a>(?:x*)*)(?:x*)*y", "(?P<a>(?:x?){900}x{900})y"):
        assert decode(pattern, [text, "xy" if "900" not in pattern else "x" * 900 + "y"])[0] is None
        assert decode(pattern, ["x" * 900 + "y"]) == [{"a": "x" * 900}]
