"""Every kind of measure that can be declared has an aggregate, whose parts fit together.

What they compute is tested in test_folds.py, and what Spark evaluates for them in tests/stack/test_fold_tiles.py.
"""

from math import sqrt

import pyarrow as pa
import pytest

from hourline_core.aggregates import StateColumn, UnsuitableArgumentError, aggregate_of
from hourline_core.model import Measure, MeasureKind
from hourline_core.model.measure_text import EXAMPLES, KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_each_state_has_a_column_a_type_a_fold_and_a_merge(kind: MeasureKind) -> None:
    aggregate = aggregate_of(Measure.parse(EXAMPLES[kind]))
    columns = aggregate.columns("delay")
    assert len(set(columns)) == len(columns) == len(aggregate.states)
    values = aggregate.values({"count": "", "any": "boolean", "every": "boolean"}.get(kind, "int"))
    assert len(aggregate.state_types(pa.int32())) == len(aggregate.folds(values)) == len(columns)
    assert len(aggregate.merges([StateColumn(column, "BIGINT") for column in columns])) == len(columns)


def test_columns_of_two_measures_differ_where_one_name_begins_like_the_other() -> None:
    measures = {"a": Measure.parse("mean(x)"), "a_n": Measure.parse("sum(x)")}
    columns = [column for name, measure in measures.items() for column in aggregate_of(measure).columns(name)]
    assert len(set(columns)) == len(columns)


@pytest.mark.parametrize(
    ("kind", "states", "size"),
    [
        ("sum", (0.0,), 12.0),
        ("mean", (3, 0.0), 4.0),
        ("variance", (3, 0.0, 56.0), 56e-6),
        ("stddev", (3, 0.0, 56.0), sqrt(168) * 1e-6),
    ],
)
def test_the_magnitude_is_that_of_the_value_where_the_addends_cancel_out(
    kind: MeasureKind, states: tuple[float, ...], size: float
) -> None:
    """The states are those of -6, 4 and 2."""
    aggregate = aggregate_of(Measure(kind=kind, argument="x"))
    assert aggregate.magnitude(states, 12.0) == pytest.approx(size)


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
