"""What the benchmarks of draining expect as the answer, and the projects that they declare."""

from pathlib import Path

import pyarrow as pa
import pytest

from benchmarks.order_metrics import CONDITIONAL, METRICS, SOURCE, WITH_EXPRESSIONS, OrderMetric, write_project
from benchmarks.preloaded import FIRST, HOUR_MILLISECONDS, orders
from hourline import load_project

HOUR = FIRST // HOUR_MILLISECONDS * HOUR_MILLISECONDS


def two_shops() -> pa.Table:
    return pa.table(
        {
            "at": [FIRST, FIRST + 1, FIRST + 2, FIRST + 3],
            "shop": ["a", "a", "b", "b"],
            "channel": ["web", "phone", "app", "web"],
            "amount": [100.25, 5000.0, 30.0, 600.5],
            "quantity": [10, 90, 2, 4],
        }
    )


def test_the_expected_answer_has_every_event_by_shop_and_hour() -> None:
    rows = METRICS["shops"].true_rows(two_shops())
    assert rows == [(HOUR, "a", 2, 5100.25, 90), (HOUR, "b", 2, 630.5, 4)]


def test_the_expected_answer_of_a_condition_has_only_what_fulfils_it_and_the_derived_amounts() -> None:
    rows = CONDITIONAL["large"].true_rows(two_shops())
    assert rows == [(HOUR, "a", 1, 1002.5, 10), (HOUR, "b", 1, 2402.0, 4)]


@pytest.mark.parametrize(("metrics", "source"), [(METRICS, SOURCE), (CONDITIONAL, WITH_EXPRESSIONS)])
def test_a_project_declares_what_the_answer_is_computed_from(
    metrics: dict[str, OrderMetric], source: str, tmp_path: Path
) -> None:
    project = load_project(write_project(tmp_path, "localhost:9092", metrics, source))
    assert set(project.metrics) == set(metrics)
    for name, metric in metrics.items():
        declared = project.metrics[name]
        assert [*declared.dimensions, *declared.measures] == metric.names
        assert declared.where == metric.where
    assert bool(project.sources["orders"].id) == (source is WITH_EXPRESSIONS)


@pytest.mark.parametrize("hours", [3, 24])
def test_orders_fill_their_hours_in_order_and_never_two_at_one_time(hours: int) -> None:
    times = orders(10_000, hours)["at"].to_pylist()
    assert times == sorted(set(times))
    assert 0 < FIRST + hours * HOUR_MILLISECONDS - times[-1] <= hours * HOUR_MILLISECONDS / 10_000 + 1
