"""The pattern that finds half of a surrogate pair, against a scanner that goes from escape to escape.

Python's engine runs it here. It takes a look-behind of one width only, so the pattern cannot look back far.
"""

import json
import re

from hypothesis import given
from hypothesis import strategies as st

from hourline_core.formats.json_format import _LONE_SURROGATE

PARTS = ["\\", "\\\\", "\\ud83d", "\\uDE00", "\\udBff", "\\uDc00", "ud83d", "udc00", "\\u0041", "\\ud8", "u", "x"]
HIGH, LOW = range(0xD800, 0xDC00), range(0xDC00, 0xE000)


def half_of_a_pair_in(text: str) -> bool:
    """Whether an escape in JSON's ``text`` is one half of a pair without the other."""
    at = 0
    while at < len(text):
        unit = escaped(text, at)
        if unit in LOW or (unit in HIGH and escaped(text, at + 6) not in LOW):
            return True
        at += 12 if unit in HIGH else 2 if text[at] == "\\" else 1
    return False


def escaped(text: str, at: int) -> int | None:
    """The UTF-16 code unit that is escaped at ``at``."""
    found = re.compile(r"\\u([0-9a-fA-F]{4})").match(text, at)
    return int(found[1], 16) if found else None


@given(st.lists(st.sampled_from(PARTS), max_size=10).map("".join))
def test_it_finds_what_a_scanner_finds(text: str) -> None:
    assert bool(re.search(_LONE_SURROGATE, text)) == half_of_a_pair_in(text)


@given(st.text(st.sampled_from("\\u\ud83d\ude00\U0001f600x"), max_size=10))
def test_it_finds_what_a_producer_has_written(text: str) -> None:
    is_whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").count("\ufffd") == 0
    assert bool(re.search(_LONE_SURROGATE, json.dumps(text))) != is_whole


def test_any_number_of_backslashes_may_come_before() -> None:
    many = "\\\\" * 100_000
    assert not re.search(_LONE_SURROGATE, rf"{many}\ud83d\ude00")
    assert re.search(_LONE_SURROGATE, rf"{many}\ud83d\n")
    assert re.search(_LONE_SURROGATE, rf"{many}ud83d\ude00")
