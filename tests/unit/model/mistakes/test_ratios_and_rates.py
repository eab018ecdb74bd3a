"""A ratio or a rate is of measures of its metric that suit it."""

from pathlib import Path

import pytest

from tests.support.declaration_mistakes import mistakes, with_measure

NAMES = "allowed is ratio(a, b) with the names of two measures of the metric; each of them may have a condition"
NAME = "allowed is rate(a) with the name of one measure of the metric, which may have a condition"


@pytest.mark.parametrize(
    ("ratio", "said"),
    [
        ("ratio(n)", f"got 'ratio(n)', {NAMES}"),
        ("ratio(n, sum(a))", f"got 'ratio(n, sum(a))', {NAMES}"),
        ("ratio(n, n) where a", f"got 'ratio(n, n) where a', {NAMES}"),
        ("ratio(n, m)", "got 'm', allowed is a measure of this metric that is no ratio or rate (there is: n)"),
        ("ratio(x, n)", "got 'x', allowed is a measure of this metric that is no ratio or rate (there is: n)"),
        ("rate(n, n)", f"got 'rate(n, n)', {NAME}"),
        ("rate(sum(a))", f"got 'rate(sum(a))', {NAME}"),
        ("rate(n) where a", f"got 'rate(n) where a', {NAME}"),
        ("rate(count)", "got 'count', allowed is a measure of this metric that is no ratio or rate (there is: n)"),
    ],
)
def test_ratios_and_rates(tmp_path: Path, ratio: str, said: str) -> None:
    (found,) = mistakes(tmp_path, {"metrics/m.yaml": with_measure(ratio)})
    assert found == f"metrics/m.yaml:4: measures.x: {said}"


@pytest.mark.parametrize(
    ("quotient", "operand", "allowed"),
    [
        ("ratio(n, y)", "any(b)", "a measure that is a number"),
        ("ratio(n, y)", "top(b, 10)", "a measure that is a number"),
        ("rate(y)", "mean(b)", "a count or a sum"),
    ],
)
def test_operands_that_do_not_suit_are_refused(tmp_path: Path, quotient: str, operand: str, allowed: str) -> None:
    (found,) = mistakes(tmp_path, {"metrics/m.yaml": with_measure(f"{quotient}\n  y: {operand}")})
    assert found == f"metrics/m.yaml:4: measures.x: got 'y', allowed is {allowed}; it is {operand}"
