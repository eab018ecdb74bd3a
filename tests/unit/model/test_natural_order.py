"""Names are sorted as people expect: by the numbers in them, and without regard to capital letters."""

from hypothesis import given
from hypothesis import strategies as st

from hourline_core.model.natural_order import natural_key


def test_numbers_within_names_count_as_numbers() -> None:
    names = ["s10", "s2", "S1", "orders", "s1_b10", "s1_b9", "s02"]
    assert sorted(names, key=natural_key) == ["orders", "S1", "s1_b9", "s1_b10", "s02", "s2", "s10"]


@given(st.text("aB_", max_size=3), st.integers(0, 2000), st.integers(0, 2000), st.text("xY", max_size=2))
def test_names_that_differ_in_one_number_are_in_its_order(before: str, one: int, other: int, after: str) -> None:
    names = [f"{before}{number}{after}" for number in (one, other)]
    assert (natural_key(names[0]) < natural_key(names[1])) == (one < other)


@given(st.lists(st.text("aA10_", min_size=1, max_size=5), unique=True))
def test_different_names_have_different_keys(names: list[str]) -> None:
    assert len({natural_key(name) for name in names}) == len(names)
