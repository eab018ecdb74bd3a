"""What people read of a value tells null from any text."""

from hypothesis import given
from hypothesis import strategies as st

from hourline_core.model.value_text import value_text

TEXTS = st.text(max_size=4) | st.sampled_from(["null", "NULL", "'null'", "", "''", " a", "'", "'a", "None"])


def test_null_the_text_null_and_the_empty_text_differ() -> None:
    assert [value_text(value) for value in (None, "null", "", "'null'", " ", "JFK", 7, 1.5, True)] == [
        *("null", "'null'", "''", "''null''", "' '", "JFK", "7", "1.5", "True"),
    ]


@given(one=st.none() | TEXTS, other=st.none() | TEXTS)
def test_no_two_values_read_alike(one: str | None, other: str | None) -> None:
    assert (value_text(one) == value_text(other)) == (one == other)
    assert value_text(one) != ""
