"""Derived sources on a standalone Spark of two workers, whose executors join: the same answers, also when one of these is
killed in mid-join.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.paid_orders import PaidOrders
from tests.support.speed_process import SpeedProcess
from tests.support.standalone_spark import StandaloneSpark, standalone_spark
from tests.support.task_losses import count_lost_tasks, kill_until_a_task_is_lost

# In CI, test_joins.py and test_outer_joins.py join on a local Spark.
pytestmark = [pytest.mark.heavy, pytest.mark.long]

ORDERS = 120_000
"""With their payments, they are shared by two tasks."""


@pytest.fixture(scope="module")
def two_workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneSpark]:
    """A Spark of two workers with a core each."""
    with standalone_spark(tmp_path_factory.mktemp("spark")) as spark:
        yield spark


@pytest.fixture(autouse=True)
def on_two_workers(two_workers: StandaloneSpark, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the settings of the project alone."""
    monkeypatch.setenv("SPARK_MASTER", two_workers.master)


def test_inner_and_left_joins_and_upserts_on_two_workers_are_exact(
    kafka: str, tmp_path: Path, two_workers: StandaloneSpark
) -> None:
    shop = PaidOrders(tmp_path, kafka, "joined_by_two")
    shop.order(ORDERS)
    shop.pay()
    shop.close()
    shop.run("speed", "--drain")
    assert two_workers.used() == 2, "both have worked"
    for source in ("paid", "half"):
        assert max(shop.tasks(source)) == 2, "two tasks have joined"
    shop.run("recompute")
    assert set(shop.check()) == {"final"}


def test_an_executor_killed_in_mid_join_changes_nothing(
    kafka: str, tmp_path: Path, two_workers: StandaloneSpark
) -> None:
    shop = PaidOrders(tmp_path, kafka, "killed_join", records_per_batch=200)
    shop.order(2_000)
    shop.run("speed", "--drain")
    shop.pay()
    shop.close()
    with SpeedProcess(shop.sent, "--drain") as speed:
        finished = kill_until_a_task_is_lost(speed, shop.sent, "paid", lambda: two_workers.busy_executors()[:1])
        assert speed.wait() == 0, speed.lines
    assert count_lost_tasks(shop.sent.project.workspace / "logs" / "spark-speed.log") > 0
    assert len([*shop.tasks("paid")]) > finished, "it has gone on"
    shop.run("recompute")
    assert set(shop.check()) == {"final"}
