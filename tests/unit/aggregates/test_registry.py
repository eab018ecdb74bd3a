"""Every kind of measure that can be declared has an aggregate, whose parts fit together.

What the aggregates compute is tested with Spark in tests/stack/test_aggregates.py.
"""

from math import sqrt

import duckdb
import pytest

from hourline_core.aggregates import StateColumn, UnsuitableArgumentError, aggregate_of
from hourline_core.model import Measure, MeasureKind
from hourline_core.model.expressions import ATTEMPT
from hourline_core.model.measure_text import EXAMPLES, KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_each_state_has_a_column_a_partial_a_fold_and_a_merge(kind: MeasureKind) -> None:
    aggregate = aggregate_of(Measure.parse(EXAMPLES[kind]))
    columns = aggregate.columns("delay")
    assert len(set(columns)) == len(columns) == len(aggregate.states)
    values = aggregate.values({"count": "", "any": "boolean", "every": "boolean"}.get(kind, "int"))
    assert len(aggregate.partials(values)) == len(aggregate.folds(values)) == len(columns)
    assert len(aggregate.merges([StateColumn(column, "BIGINT") for column in columns])) == len(columns)


def test_columns_of_two_measures_differ_where_one_name_begins_like_the_other() -> None:
    measures = {"a": Measure.parse("mean(x)"), "a_n": Measure.parse("sum(x)")}
    columns = [column for name, measure in measures.items() for column in aggregate_of(measure).columns(name)]
    assert len(set(columns)) == len(columns)


@pytest.mark.parametrize(
    ("kind", "size"),
    [("sum", 12.0), ("mean", 4.0), ("variance", 56e-6), ("stddev", sqrt(168) * 1e-6), ("min", None), ("max", None)],
)
def test_the_magnitude_is_that_of_the_value_where_the_addends_cancel_out(kind: MeasureKind, size: float | None) -> None:
    magnitude = aggregate_of(Measure(kind=kind, argument="x")).magnitude("x < 100")
    assert (magnitude is None) == (size is None)
    if magnitude:  # which DuckDB reads as Spark does
        rows = "FROM (VALUES (-6), (4), (2), (NULL), (200)) AS t(x)"
        assert duckdb.sql(f"SELECT {magnitude} {rows}").fetchone() == pytest.approx((size,))


@pytest.mark.parametrize(("kind", "size"), [("sum", 3.0), ("mean", 3.0), ("stddev", 3e-6)])
def test_the_magnitude_leaves_out_what_the_condition_leaves_out(kind: MeasureKind, size: float) -> None:
    magnitude = aggregate_of(Measure(kind=kind, argument="x", where="x > 0")).magnitude("true")
    rows = "FROM (VALUES (-600), (3), (NULL)) AS t(x)"
    with duckdb.connect() as connection:
        connection.execute(f"CREATE MACRO {ATTEMPT}(x) AS x")  # Nothing raises here.
        assert connection.sql(f"SELECT {magnitude} {rows}").fetchone() == pytest.approx((size,))


@pytest.mark.parametrize(
    ("measure", "argument_type"),
    [
        ("sum(x)", "string"),
        ("mean(x)", "date"),
        ("sum(x)", "decimal(29,2)"),
        ("max(x)", "array<int>"),
        ("any(x)", "int"),
    ],
)
def test_an_argument_that_an_aggregate_cannot_take_is_refused_by_name(measure: str, argument_type: str) -> None:
    with pytest.raises(UnsuitableArgumentError) as error:
        aggregate_of(Measure.parse(measure)).values(argument_type)
    assert measure in str(error.value) and argument_type in str(error.value)
