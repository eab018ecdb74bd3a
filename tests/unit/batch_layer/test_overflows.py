"""An hour whose sum of doubles overflows says so: in which groups, and what can be done."""

import json
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from batch_layer.audit.declared_expectations import Check
from batch_layer.audit.findings import Finding
from batch_layer.audit.overflows import explain_overflows
from hourline_core.ledger.layout import TIMESTAMP
from hourline_core.model import Measure, Metric

HOUR, OTHER = datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, 1, tzinfo=UTC)
METRIC = Metric(
    name="m",
    source="s",
    dimensions={"shop": "shop"},
    measures={"spent": Measure.parse("sum(price)"), "n": Measure.parse("count")},
)


def tiles(of_shops: dict[str | None, float | None], hour: datetime = HOUR) -> pa.Table:
    rows = [{"hour": hour, "shop": shop, "spent": spent, "n": 1} for shop, spent in of_shops.items()]
    schema = pa.schema([("hour", TIMESTAMP), ("shop", pa.string()), ("spent", pa.float64()), ("n", pa.int64())])
    return pa.Table.from_pylist(rows, schema)


def finding(column: str, off_by: object, success: bool = False) -> Finding:
    check = Check("expect_column_values_to_be_between", {"column": column, "max_value": 1e-9})
    return Finding("2024-01-01T00:00Z", check, success, "before", rows=[json.dumps({"hour": "h", column: off_by})])


@pytest.mark.parametrize(
    ("of_shops", "where"),
    [
        ({"a": 1.0, "b": float("inf"), None: float("nan")}, "where shop = b, and where shop = null:"),
        ({"a": 1e308, "b": 1e308, "c": None}, "over all groups of the hour:"),
        ({str(shop): float("-inf") for shop in range(9)}, "where shop = 2 and in 6 more groups:"),
    ],
)
def test_a_sum_that_overflows_names_its_groups_its_measure_and_what_can_be_done(
    of_shops: dict[str | None, float | None], where: str
) -> None:
    rows = pa.concat_tables([tiles(of_shops), tiles({"other": float("inf")}, OTHER)])
    (told,) = explain_overflows(METRIC, rows, [finding("spent off by", "Infinity")])
    assert where in told.found
    assert "'spent' overflows" in told.found
    assert "`sum(price)`" in told.found
    assert "condition" in told.found
    assert "other" not in told.found, "the group of another hour"


@pytest.mark.parametrize(
    "one",
    [
        finding("spent off by", 0.25),
        finding("spent off by", "Infinity", success=True),
        finding("number of rows", "Infinity"),
    ],
)
def test_any_other_finding_stays_as_it_is(one: Finding) -> None:
    assert explain_overflows(METRIC, tiles({"a": float("inf")}), [one]) == [one]
