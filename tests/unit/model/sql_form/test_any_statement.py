"""Whatever is declared can be said in SQL, and no text at all raises."""

from hypothesis import given
from hypothesis import strategies as st

from hourline_core.model import Metric
from hourline_core.model.measure import Measure
from hourline_core.model.sql_form.keys import StatementKeys
from tests.support.sql_form import metric_of

_NAMES = st.sampled_from("abcdefgh")
_EXPRESSIONS = st.sampled_from(
    ["x", "`y`", "x + 1", "upper(x)", "x OR NOT y", "CASE WHEN x THEN 1 ELSE 0 END", "a.b", "'it''s, (x'"]
)
_MEASURES = st.one_of(
    st.just(("COUNT(*)", "count")),
    st.tuples(st.sampled_from(["sum", "min", "max", "mean"]), _EXPRESSIONS).map(
        lambda call: (f"{call[0].upper()}({call[1]})", f"{call[0]}({call[1]})")
    ),
    _EXPRESSIONS.map(lambda x: (f"COUNT( DISTINCT {x} )", f"distinct({x})")),
    st.tuples(_EXPRESSIONS, st.integers(1, 100)).map(
        lambda call: (f"APPROX_TOP_K({call[0]}, {call[1]})", f"top({call[0]}, {call[1]})")
    ),
)
_GAPS = st.sampled_from([" ", "\n", "\t", " -- it's\n", " /* , */ "])


@given(
    dimensions=st.dictionaries(_NAMES.map("d{}".format), _EXPRESSIONS, max_size=3),
    measures=st.dictionaries(_NAMES.map("m{}".format), _MEASURES, min_size=1, max_size=3),
    where=st.none() | _EXPRESSIONS,
    data=st.data(),
)
def test_every_declaration_can_be_said_in_sql(
    dimensions: dict[str, str], measures: dict[str, tuple[str, str]], where: str | None, data: st.DataObject
) -> None:
    def gap() -> str:
        return data.draw(_GAPS)

    def alias(name: str) -> str:
        return gap() + data.draw(st.sampled_from(["AS ", "as\n", ""])) + name

    items = [x + alias(name) for name, x in dimensions.items()] + [x + alias(n) for n, (x, _) in measures.items()]
    groups = [
        data.draw(st.sampled_from([x, name, str(place)])) for place, (name, x) in enumerate(dimensions.items(), start=1)
    ]
    # A group by its text is ambiguous if two dimensions have the same expression.
    if len(set(dimensions.values())) < len(dimensions):
        groups = list(dimensions)
    statement = f"SELECT{gap()}" + f",{gap()}".join(items)
    statement += f"{gap()}FROM{gap()}s"
    statement += f"{gap()}WHERE{gap()}{where}" if where else ""
    statement += f"{gap()}GROUP{' '}BY{gap()}" + f"{gap()},".join(groups) if groups else ""
    said = metric_of(statement)
    meant = Metric(
        name="m",
        source="s",
        dimensions=dimensions,
        measures={name: Measure.parse(text) for name, (_, text) in measures.items()},
        where=where,
    )
    assert said == meant


_WORDS = """SELECT FROM WHERE GROUP BY WINDOW TUMBLE HOP SESSION DISTINCT FILTER COUNT TABLE DESCRIPTOR OVER AS a b , , (
( ) ) * 'x' 1 INTERVAL HOUR . ; - = -> :: [ ] { } ? @ # $ EMIT CHANGES SIZE ADVANCE TUMBLING"""


@given(st.lists(st.sampled_from(_WORDS.split()), max_size=14))
def test_no_statement_raises(words: list[str]) -> None:
    keys = StatementKeys("SELECT a , COUNT ( * ) AS n FROM b " + " ".join(words), {})
    assert keys.mistakes or Metric(name="m", **{k: v for k, v in keys.values.items() if k != "window"})
