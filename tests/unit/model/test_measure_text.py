"""A measure is read from its text, and its text gives back the same measure."""

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hourline_core.model import Measure
from hourline_core.model.measure_text import KINDS

arguments = st.recursive(
    st.sampled_from(["delay", "1", "'it)s'", '"("', "`a,b`", "a -> b", "x = 'q\\'('"]),
    lambda inner: st.one_of(
        inner.map(lambda one: f"({one})"),
        st.tuples(inner, inner).map(lambda two: f"coalesce({two[0]}, {two[1]})"),
        st.tuples(inner, inner).map(lambda two: f"{two[0]} + {two[1]}"),
    ),
    max_leaves=6,
)


@given(
    st.sampled_from([kind for kind in KINDS if kind not in ("count", "quantile", "top", "ratio", "rate")]),
    arguments,
    st.none() | arguments,
    st.sampled_from(["", " ", "\n\t"]),
)
def test_measures_survive_their_text_form(kind: str, argument: str, where: str | None, space: str) -> None:
    condition = "" if where is None else f"wHere {where}"
    measure = Measure.parse(f"{space}{kind}{space}({space}{argument}{space}){space}{condition}")
    assert (measure.kind, measure.argument, measure.where) == (kind, argument, where)
    assert Measure.parse(str(measure)) == measure


@given(arguments, st.floats(0, 1))
def test_a_quantile_survives_its_text_form(argument: str, quantile: float) -> None:
    measure = Measure.parse(f"quantile({argument}, {quantile} ) where x")
    assert measure == Measure(kind="quantile", argument=argument, quantile=quantile, where="x")
    assert Measure.parse(str(measure)) == measure
    assert Measure.parse(f"median({argument})") == Measure.parse(f"quantile({argument}, 0.50)")


@given(arguments, st.integers(1, 100))
def test_a_top_survives_its_text_form(argument: str, limit: int) -> None:
    measure = Measure.parse(f"approx_top_k({argument}, {limit} ) where x")
    assert measure == Measure(kind="top", argument=argument, limit=limit, where="x")
    assert Measure.parse(str(measure)) == measure


@pytest.mark.parametrize(
    ("text", "argument", "where"),
    [
        ("sum(x)where y", "x", "y"),
        ("sum(where) WHERE where > 1", "where", "where > 1"),
        ("sum(if(a = ' where ', `where`, 0)) where a <> ')'", "if(a = ' where ', `where`, 0)", "a <> ')'"),
        ("sum(x) where (somewhere > 0)", "x", "(somewhere > 0)"),
        ("sum(somewhere) where whereabouts > 0", "somewhere", "whereabouts > 0"),
    ],
)
def test_the_condition_begins_at_the_first_where_outside_brackets_and_quotes(
    text: str, argument: str, where: str
) -> None:
    assert Measure.parse(text) == Measure(kind="sum", argument=argument, where=where)


@given(arguments, st.sampled_from(["distinct ", "DISTINCT\n"]))
def test_sql_words_are_read_as_the_one_form_of_a_measure(argument: str, distinct: str) -> None:
    assert str(Measure.parse(f"avg({argument})")) == f"mean({argument})"
    assert str(Measure.parse(f"count({distinct}{argument})")) == f"distinct({argument})"
    assert str(Measure.parse("count(*)")) == "count"
    assert str(Measure.parse(f"count_if({argument})")) == f"count where {argument}"
    assert str(Measure.parse(f"count_if({argument}) where b")) == f"count where ({argument}) and (b)"
    assert str(Measure.parse(f"bool_or({argument})")) == str(Measure.parse(f"some({argument})")) == f"any({argument})"
    assert str(Measure.parse(f"bool_and({argument})")) == f"every({argument})"


@given(st.text(max_size=30))
def test_any_text_is_a_measure_or_a_clean_refusal(text: str) -> None:
    try:
        measure = Measure.parse(text)
    except pydantic.ValidationError as error:
        assert [details["type"] for details in error.errors()] == ["declaration"]
    else:
        assert Measure.parse(str(measure)) == measure
