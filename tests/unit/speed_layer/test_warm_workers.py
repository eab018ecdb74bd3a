"""Spark's Python workers are kept within the block alone."""

import threading
from typing import Any, cast

import pytest

from speed_layer import warm_workers

SECONDS = 20.0
"""The maximum time to wait for what must happen."""


class Spark:
    """Stands in for a session, which counts the jobs. It may have ended."""

    def __init__(self, ended: bool = False) -> None:
        self.jobs = threading.Semaphore(0)
        self.may_work = threading.Event()
        self.ended = ended

    def range(self, _: int) -> "Spark":
        return self

    def mapInArrow(self, *_: object) -> "Spark":  # noqa: N802 (Spark's name)
        return self

    def collect(self) -> None:
        assert self.may_work.wait(SECONDS)
        self.jobs.release()
        if self.ended:
            raise ConnectionError


@pytest.mark.parametrize(("ended", "jobs"), [(False, 3), (True, 1)])
def test_a_worker_does_something_now_and_then_until_spark_ends(
    ended: bool, jobs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warm_workers, "_SECONDS_BETWEEN", 0.001)
    spark, before = Spark(ended), set(threading.enumerate())
    with warm_workers.warm_workers(cast(Any, spark)):
        (thread,) = set(threading.enumerate()) - before
        spark.may_work.set()
        for _ in range(jobs):
            assert spark.jobs.acquire(timeout=SECONDS)
        if ended:
            thread.join(SECONDS)
            assert not thread.is_alive()
    thread.join(SECONDS)
    assert not thread.is_alive()
