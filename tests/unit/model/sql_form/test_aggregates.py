"""An aggregate of a statement is a measure."""

import pytest

from hourline_core.model.measure import Measure
from tests.support.sql_form import metric_of


@pytest.mark.parametrize(
    ("aggregate", "measure"),
    [
        ("count(*)", "count"),
        ("COUNT(1)", "count"),
        ("count(delay)", "count where delay IS NOT NULL"),
        ("COUNT(DISTINCT tail)", "distinct(tail)"),
        ("COUNT(DISTINCT tail) FILTER (WHERE delay > 0)", "distinct(tail) where delay > 0"),
        ("AVG(delay)", "mean(delay)"),
        ("mean( delay )", "mean(delay)"),
        ("MAX(delay /* minutes */ + 1)", "max(delay + 1)"),
        ("count(delay) FILTER (WHERE a OR b)", "count where (delay IS NOT NULL) AND (a OR b)"),
        ("SUM(`delay`)", "sum(`delay`)"),
        ("COUNT(a OR b)", "count where (a OR b) IS NOT NULL"),
        ("MIN(DISTINCT delay)", "min(delay)"),
        ("SUM(record.offset)", "sum(record.offset)"),
        ("COUNT(*) FILTER (WHERE delay > 15)", "count where delay > 15"),
        ("COUNT_IF(delay > 15)", "count where delay > 15"),
        ("ANY(delay > 15)", "any(delay > 15)"),
        ("BOOL_OR(delay > 15)", "any(delay > 15)"),
        ("LAST(delay)", "last(delay)"),
        ("MEDIAN(delay)", "quantile(delay, 0.5)"),
        ("QUANTILE(delay, 0.99) FILTER (WHERE delay > 0)", "quantile(delay, 0.99) where delay > 0"),
        ("APPROX_TOP_K(tail, 10) FILTER (WHERE delay > 0)", "top(tail, 10) where delay > 0"),
        ("TOP(concat(a, ','), 3)", "top(concat(a, ','), 3)"),
        ("VAR_SAMP(delay)", "variance(delay)"),
        ("STDDEV_POP(delay) FILTER (WHERE delay > 15)", "stddev_pop(delay) where delay > 15"),
        ("bool_and(delay > 15) FILTER (WHERE tail = 'x')", "every(delay > 15) where tail = 'x'"),
        ("min(element_at(xs, 1))", "min(element_at(xs, 1))"),
        ("sum(aggregate(xs, 0, (a, b) -> a + b))", "sum(aggregate(xs, 0, (a, b) -> a + b))"),
    ],
)
def test_an_aggregate_is_a_measure(aggregate: str, measure: str) -> None:
    assert metric_of(f"SELECT {aggregate} AS x FROM s").measures == {"x": Measure.parse(measure)}
