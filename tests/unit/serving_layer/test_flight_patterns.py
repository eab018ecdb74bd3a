"""Patterns by which views are found: as DuckDB matches them, but in a bounded time."""

import time

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hourline_core.errors import UsageError
from serving_layer.flight.patterns import matcher

DATABASE = duckdb.connect()
LETTERS = "aAbB_%\\ä.\n"


@given(st.text(LETTERS, max_size=6), st.text(LETTERS, max_size=6))
def test_a_text_is_like_a_pattern_as_duckdb_says(text: str, pattern: str) -> None:
    try:
        (wanted,) = DATABASE.execute(r"SELECT ? ILIKE ? ESCAPE '\'", [text, pattern]).fetchall()[0]
    except duckdb.Error as error:
        assert "must not end with escape character" in str(error)
        return
    try:
        assert matcher(pattern)(text) == wanted
    except UsageError:  # DuckDB refuses it only if the text is like it so far.
        assert not wanted and (len(pattern) - len(pattern.rstrip("\\"))) % 2


def test_a_pattern_that_ends_with_the_escape_is_refused() -> None:
    with pytest.raises(UsageError, match=r"the pattern ends with \\, which escapes the character after it"):
        matcher("totals\\")


def test_no_pattern_takes_long() -> None:
    """DuckDB takes seconds with eleven repetitions, and five times as long with one more."""
    begun = time.process_time()
    assert not matcher("%_" * 60 + "1")("abcdefghijklmnopqrstuvwxyz" * 3)
    assert time.process_time() - begun < 1
    with pytest.raises(UsageError, match="the pattern has 257 characters; allowed are 256"):
        matcher("%" * 257)
