"""The numbers of events of an hour: those read, those that count, and those of the metric, as Spark has counted them."""

import math
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from batch_layer.audit.built_in_expectations import compare_metric, measure_deviation, measure_distance_beyond
from batch_layer.audit.facts import ArchivedCounts
from batch_layer.audit.validator import Validator
from batch_layer.hour_totals import HourTotals, IdCounts
from hourline_core.compute.aggregation import AggregationPlan
from hourline_core.model.hours import hour_text
from tests.support.bare_tables import METRICS, SOURCE, TILE_SCHEMA

HOUR = datetime(2024, 5, 6, 20, tzinfo=UTC)
EVERYTHING, SOME = METRICS["totals"], METRICS["odd"]  # without and with a condition


@pytest.fixture(scope="module")
def validator() -> Validator:
    return Validator()


IN_METRIC = "events of the metric, with those in quarantine"


def found(
    validator: Validator,
    numbers: tuple[int, int, int],
    some: bool,
    of_source: dict[str, Any],
    quarantined: int = 0,
    of_ids: tuple[int, int, int, int] | None = None,
) -> list[str]:
    """What does not agree of the numbers of events that were read, that count, and that are of the metric. ``of_ids``
    are those of IdCounts.
    """
    read, counted, of_metric = ({HOUR: number} for number in numbers)
    source, rows = SOURCE.model_copy(update=of_source), {HOUR: (min(numbers), min(numbers))}
    aggregation = AggregationPlan(source, SOME if some else EVERYTHING, TILE_SCHEMA)
    totals = HourTotals(TILE_SCHEMA.empty_table(), of_metric, counted, {HOUR: quarantined}, read, {}, {})
    totals = replace(totals, ids=of_ids and IdCounts(*({HOUR: number} for number in of_ids)))
    archived = ArchivedCounts(read, {}, {}, {})
    compared = compare_metric(aggregation, totals, archived, {}, {}, rows, [HOUR], {}, {}, TILE_SCHEMA)
    checks = [check for check in compared.checks if "events" in str(check.parameters.get("column_A"))]
    results = validator.evaluate_results(compared.frame, checks, [hour_text(HOUR)], ["hour"])
    return [
        f"{finding.check.parameters['column_A']}, {finding.check.parameters['column_B']}"
        for finding in results.findings
        if not finding.success
    ]


def test_all_events_count_unless_an_id_or_a_condition_leaves_some_out(validator: Validator) -> None:
    assert found(validator, (3, 3, 3), some=False, of_source={}) == []
    assert found(validator, (3, 2, 2), some=False, of_source={}) == ["events read, events that count"]
    assert found(validator, (3, 2, 2), some=False, of_source={"id": "n"}) == []
    assert found(validator, (3, 2, 2), some=False, of_source={"where": "n > 1"}) == []
    assert found(validator, (2, 3, 3), some=False, of_source={"id": "n"}) == ["events read, events that count"]


def test_a_metric_has_all_events_that_count_unless_its_condition_leaves_some_out(validator: Validator) -> None:
    assert found(validator, (3, 3, 2), some=False, of_source={}) == [f"events that count, {IN_METRIC}"]
    assert found(validator, (3, 3, 2), some=True, of_source={}) == []
    assert found(validator, (3, 3, 4), some=True, of_source={}) == [f"events that count, {IN_METRIC}"]


def test_each_event_that_counts_is_in_the_metric_or_in_its_quarantine(validator: Validator) -> None:
    assert found(validator, (3, 3, 2), some=False, of_source={}, quarantined=1) == []
    assert found(validator, (3, 3, 2), some=False, of_source={}, quarantined=2) == [f"events that count, {IN_METRIC}"]
    assert found(validator, (3, 3, 2), some=True, of_source={}, quarantined=2) == [f"events that count, {IN_METRIC}"]


@pytest.mark.parametrize(
    ("of_ids", "counted", "differ"),
    [
        ((3, 3, 2, 2), 3, []),
        ((3, 2, 2, 2), 3, ["first events of an id, ids, and events without one"]),
        ((3, 3, 2, 1), 3, ["repeated events, events after the first of their id"]),
        ((3, 3, 1, 1), 3, ["first and repeated events, events read"]),
        ((3, 3, 2, 2), 2, ["first events of an id, events that count"]),
    ],
)
def test_the_first_event_of_each_id_counts_and_no_other(
    validator: Validator, of_ids: tuple[int, int, int, int], counted: int, differ: list[str]
) -> None:
    numbers = (5, counted, counted)
    assert found(validator, numbers, some=False, of_source={"id": "n"}, of_ids=of_ids) == differ
    where = {"id": "n", "where": "n > 1"}
    assert found(validator, numbers, some=False, of_source=where, of_ids=of_ids) == (differ if counted == 3 else [])


@pytest.mark.parametrize(
    ("mine", "theirs", "size", "deviation"),
    [
        (5.0, 4.0, 10.0, 0.1),
        (5.0, 7.0, math.inf, 2 / 7),
        (math.nan, 5.0, 1.0, math.inf),
        (math.inf, -math.inf, 1.0, math.inf),
        (math.inf, 5.0, math.inf, math.inf),
        (math.nan, math.nan, math.nan, 0.0),
        (math.inf, math.inf, 1.0, 0.0),
        (None, 5.0, 1.0, math.inf),
        (None, None, 1.0, 0.0),
    ],
)
def test_a_value_that_is_no_finite_number_agrees_only_with_itself(
    mine: float | None, theirs: float | None, size: float, deviation: float
) -> None:
    assert measure_deviation(mine, theirs, size) == pytest.approx(deviation)


def test_nan_lies_outside_all_bounds() -> None:
    assert measure_distance_beyond(math.nan, 0.0, 9.0) == math.inf
    assert measure_distance_beyond(math.nan, math.nan, math.nan) == 0
    assert measure_distance_beyond(10.0, 0.0, 9.0) == 1
