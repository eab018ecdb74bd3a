"""Joins and upserts of more events than the memory of a task holds: exact, with files, and in more tasks."""

import os
from pathlib import Path

import pytest

from tests.support.paid_orders import PaidOrders
from tests.support.speed_process import SpeedProcess

# tests/unit/speed_layer/test_division.py and test_join_spills.py show both ways of it in CI.
pytestmark = [pytest.mark.heavy, pytest.mark.long]

ORDERS = 60_000
CORES = os.cpu_count() or 1
TOO_LITTLE, LITTLE = 1, 24
"""The megabytes of each core."""


def test_derived_sources_are_exact_in_the_least_memory_of_tasks(
    kafka: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = PaidOrders(tmp_path, kafka, "little_memory")
    shop.order(ORDERS)
    monkeypatch.setenv("WORKER_MEMORY", f"{LITTLE * CORES}m")
    shop.run("speed", "--drain")
    shop.pay()

    monkeypatch.setenv("WORKER_MEMORY", f"{TOO_LITTLE * CORES}m")
    with SpeedProcess(shop.sent, "--drain") as speed:
        assert speed.wait() == 75, speed.lines
    (told,) = [line for line in speed.lines if "spark.worker_memory" in line]
    assert f"the part of a core in spark.worker_memory ({TOO_LITTLE * CORES}m); raise that in hourline.yaml" in told

    monkeypatch.setenv("WORKER_MEMORY", f"{LITTLE * CORES}m")
    shop.run("speed", "--drain")
    for source in ("paid", "half"):
        assert max(shop.tasks(source)) > 2, f"{source} did fit into the memory of two tasks"
    shop.close()
    shop.run("speed", "--drain")
    shop.run("recompute")
    assert set(shop.check()) == {"final"}
