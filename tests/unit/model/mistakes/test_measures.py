"""A mistake in a measure is told with what is allowed, and with the measure that was meant."""

from pathlib import Path

import pytest

from tests.support.declaration_mistakes import UNCLOSED, mistakes, with_measure

MEASURES = "allowed are count, sum(x), min(x), max(x), first(x), last(x), mean(x), variance(x), stddev(x), var_pop(x), stddev_pop(x), quantile(x, 0.99), distinct(x), top(x, 10), any(x), every(x), ratio(a, b), rate(a); all but ratio and rate also with `where` and a condition"
LARGEST = "the largest values, which no measure keeps; allowed are max(x), the largest one, and top(x, 10), the most frequent ones"


@pytest.mark.parametrize(
    ("measure", "said"),
    [
        ("mx(delay)", f"got 'mx(delay)', {MEASURES} — did you mean 'max(delay)'?"),
        ("SUM(a)", f"got 'SUM(a)', {MEASURES} — did you mean 'sum(a)'?"),
        ("AVG(a)", f"got 'AVG(a)', {MEASURES} — did you mean 'mean(a)'?"),
        ("std(a)", f"got 'std(a)', {MEASURES} — did you mean 'stddev(a)'?"),
        ("cuont", f"got 'cuont', {MEASURES} — did you mean 'count'?"),
        ("count()", f"got 'count()', {MEASURES} — did you mean 'count'?"),
        ("count(distinct)", "got 'distinct' without an argument, allowed is distinct(x) with a field or expression"),
        ("count(distinct a, b)", "got 'distinct(a, b)', allowed is distinct(x) with one argument"),
        (
            "count(a)",
            "got 'count(a)', allowed is count without an argument; to count the events that fulfil a condition, write `count where condition`",
        ),
        ("sum", "got 'sum' without an argument, allowed is sum(x) with a field or expression"),
        ("sum( )", "got 'sum' without an argument, allowed is sum(x) with a field or expression"),
        ("sum(a, b)", "got 'sum(a, b)', allowed is sum(x) with one argument"),
        ("sum((a)", f"got 'sum((a)', {UNCLOSED}"),
        ("sum(a) / count", f"got 'sum(a) / count', {MEASURES}"),
        ("latest(a)", f"got 'latest(a)', {MEASURES} — did you mean 'last(a)'?"),
        ("skew(a)", f"got 'skew(a)', {MEASURES}; or define it with a class in measures/skew.py"),
        ("all(a)", f"got 'all(a)', {MEASURES} — did you mean 'every(a)'?"),
        ("count_if(a, b)", "got 'count_if(a, b)', allowed is count_if(x) with one condition"),
        (
            "sum(a) where",
            "got 'sum(a) where', allowed is a condition after `where`, such as `count where delay > 15`",
        ),
        (
            "sum(a) FILTER (WHERE a > (b))",
            f"got 'sum(a) FILTER (WHERE a > (b))', {MEASURES} — did you mean 'sum(a) where a > (b)'?",
        ),
        ("", f"got nothing, {MEASURES}"),
        ("[a]", f"got a list, {MEASURES}"),
        ("{kind: sum}", f"got a mapping, {MEASURES}"),
        ("median()", "got 'quantile' without an argument, allowed is quantile(x, 0.99) with a field or expression"),
        ("percentile(a, 0.9)", f"got 'percentile(a, 0.9)', {MEASURES} — did you mean 'quantile(a, 0.9)'?"),
        ("percentile(a)", f"got 'percentile(a)', {MEASURES} — did you mean 'quantile(a, 0.99)'?"),
        ("quantile(a)", "got 'quantile(a)', allowed is quantile(x, 0.99), with a number from 0 to 1"),
        (
            "mode(a)",
            "got 'mode(a)', which cannot be merged from partial results "
            f"(the most frequent value of the whole need not be the most frequent one of any part; top(x, 1) keeps all counts); {MEASURES}",
        ),
        ("top(a)", "got 'top(a)', allowed is top(x, 10), with a number from 1 to 100"),
        ("top()", "got 'top' without an argument, allowed is top(x, 10) with a field or expression"),
        ("top_k(a, 5)", f"got 'top_k(a, 5)', {MEASURES} — did you mean 'top(a, 5)'?"),
        ("top_n(a)", f"got 'top_n(a)', {MEASURES} — did you mean 'top(a, 10)'?"),
        ("TOPK(a, 5)", f"got 'TOPK(a, 5)', {LARGEST}"),
        (
            "rate()",
            "got 'rate', allowed is rate(a) with the name of one measure of the metric, which may have a condition",
        ),
    ],
)
def test_measures(tmp_path: Path, measure: str, said: str) -> None:
    assert mistakes(tmp_path, {"metrics/m.yaml": with_measure(measure)}) == [f"metrics/m.yaml:4: measures.x: {said}"]


@pytest.mark.parametrize(
    ("quantile", "said"),
    [(number, "a number from 0 to 1, such as 0.99") for number in ("1.5", "-0.1", "nan")] + [("b", "a number")],
)
def test_quantiles(tmp_path: Path, quantile: str, said: str) -> None:
    found = mistakes(tmp_path, {"metrics/m.yaml": with_measure(f"quantile(a, {quantile})")})
    assert found == [f"metrics/m.yaml:4: measures.x.quantile: got '{quantile}', allowed is {said}"]


@pytest.mark.parametrize(
    ("limit", "said"),
    [(number, "a number from 1 to 100, such as 10") for number in ("0", "101", "-1")] + [("2.5", "a whole number")],
)
def test_limits(tmp_path: Path, limit: str, said: str) -> None:
    found = mistakes(tmp_path, {"metrics/m.yaml": with_measure(f"top(a, {limit})")})
    assert found == [f"metrics/m.yaml:4: measures.x.limit: got '{limit}', allowed is {said}"]
