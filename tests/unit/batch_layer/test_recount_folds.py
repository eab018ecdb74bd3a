"""How near a published value has to be to a recounted one, at the edges of what is promised."""

import math
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from batch_layer.recount.compare import Difference, find_differences
from batch_layer.recount.equality import key_of
from batch_layer.recount.folds import DistinctFold, Fold, TopFold
from batch_layer.recount.groups import Group
from batch_layer.recount.number_folds import QuantileFold, SumFold, VarianceFold
from batch_layer.recount.read_rows import Row
from hourline_core.model import Measure, Metric

ROW = Row(datetime(2024, 5, 6, tzinfo=UTC), 1, "id", 0, 0, 0, "t", None, True, True, (), {})
LONG = [str(n) for n in range(3000) for _ in range(1 + 100 * (n == 7))]
LISTED = {"value": "7", "count": 99, "error": 2}


def folded(fold: Fold, values: list[Any]) -> Fold:
    for value in values:
        fold.add(ROW, (value,))
    return fold


@pytest.mark.parametrize(
    ("fold", "values", "near", "far"),
    [
        (SumFold(Measure(kind="sum", argument="x")), [2**63 - 1, 2**63 - 1, None], 2**64 - 2, float(2**64)),
        (
            SumFold(Measure(kind="sum", argument="x")),
            [Decimal("1e27"), Decimal("0.01")],
            Decimal("1000000000000000000000000000.01"),
            Decimal("1e27"),
        ),
        (SumFold(Measure(kind="sum", argument="x")), [1e9, -1e9, 0.5], 1.5, 3.0),
        (SumFold(Measure(kind="sum", argument="x")), [math.inf, 1.0], math.inf, 1.0),
        (SumFold(Measure(kind="mean", argument="x")), [math.nan, 1.0], math.nan, 1.0),
        (VarianceFold(Measure(kind="variance", argument="x")), [1e9, 1e9 + 2], 2.0 + 1e-9, 2.1),
        (VarianceFold(Measure(kind="var_pop", argument="x")), [1e200, 1.0], math.nan, None),
        (
            QuantileFold(Measure(kind="quantile", argument="x", quantile=0.29)),
            [float(n) for n in range(101)],
            29.2,
            29.4,
        ),
        (DistinctFold(Measure(kind="distinct", argument="x")), [0.0, -0.0, math.nan, math.nan], 2, 3),
        (DistinctFold(Measure(kind="distinct", argument="x")), list(range(4097)), 4000, 3700),
        (TopFold(Measure(kind="top", argument="x", limit=1)), LONG, [LISTED], [{**LISTED, "error": 1}]),
        (TopFold(Measure(kind="top", argument="x", limit=1)), LONG, [LISTED], [{"value": "8", "count": 1, "error": 2}]),
    ],
)
def test_a_value_agrees_within_what_is_promised_and_no_further(
    fold: Fold, values: list[Any], near: Any, far: Any
) -> None:
    done = folded(fold, values)
    assert done.agrees(done.value())
    assert done.agrees(near)
    assert not done.agrees(far)


def test_a_doubled_row_is_told_as_a_second_one() -> None:
    declared = {"name": "views", "source": "clicks", "dimensions": ["page"], "measures": {"spent": "sum(ms)"}}
    metric = Metric.model_validate(declared)
    fold = folded(SumFold(metric.measures["spent"]), [3])
    groups = {key_of(("a",)): Group(("a",), {"spent": fold})}
    row = {"page": "a", "spent": 3}
    assert find_differences(metric, [row], groups) == []
    assert find_differences(metric, [row, row], groups) == [Difference({"page": "a"}, "spent", 3, "no second row")]
