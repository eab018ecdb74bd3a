"""Measures the cost of the audit and its reports relative to the recompute, with little and with much history.

    python -m benchmarks.audit [EVENTS_PER_HOUR]

Events of 500 hours are imported. One hour is recomputed when 3 hours have been audited, and again when 500 have, in the
same process, three times each. In between, the other hours are recomputed, one week per job. Times are wall times,
ratios are within one job. The answers are compared with DuckDB over the file before a time counts.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from batch_layer.audit import run_audit
from batch_layer.job import open_job
from batch_layer.plan import PlannedHour, plan_range
from batch_layer.publication import Publication
from batch_layer.publish import Recomputed
from batch_layer.recompute import run_job
from batch_layer.reports import follow
from benchmarks.trips import FIRST, HOURS, check, imported
from hourline_core.model import Project
from hourline_core.model.hours import HOUR, HourRange, wall_clock
from hourline_core.runtime.spark import spark_session

ROUNDS = 3


def main(events: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        project, file = imported(Path(folder), events)
        rows = measure(project)
        check(project, file)
    table = Table(
        "audited before", "hours in the job", "recompute s", "audit s", "reports s", "audit + reports / recompute"
    )
    for row in rows:
        table.add_row(*row)
    Console(width=120).print(table)


def measure(project: Project) -> list[list[str]]:
    spark = spark_session(project, "batch")
    try:
        run(spark, project, 2, 1)  # compiles
        rows = [["3", "1", *run(spark, project, 1, 1)]]
        run(spark, project, 0, 2)
        for first in range(3, HOURS - 1, 168):
            rows.append(
                [str(first), str(min(168, HOURS - 1 - first)), *run(spark, project, first, min(168, HOURS - 1 - first))]
            )
        rows.append([str(HOURS), "1", *run(spark, project, 1, 1)])
        return rows
    finally:
        spark.stop()


def run(spark: Any, project: Project, first: int, hours: int) -> list[str]:
    """Recompute ``hours`` from ``first`` on. A job of one hour is the median of ROUNDS runs."""
    taken = [one_run(spark, project, first, hours) for _ in range(ROUNDS if hours == 1 else 1)]
    whole, audit, reports = (statistics.median(column) for column in zip(*taken, strict=True))
    recompute = whole - audit - reports
    return [f"{recompute:.2f}", f"{audit:.2f}", f"{reports:.2f}", f"{(audit + reports) / recompute:.2f}"]


def one_run(spark: Any, project: Project, first: int, hours: int) -> tuple[float, float, float]:
    start = FIRST + first * HOUR
    planned = plan_range(project, HourRange(start, start + hours * HOUR))
    spent: dict[str, float] = {"audit": 0.0, "reports": 0.0}
    with (
        timed(spent, "audit", run_audit, "audit"),
        timed(spent, "reports", follow, "follow"),
    ):
        began = time.monotonic()
        done = run_one_job(spark, project, planned)
        whole = time.monotonic() - began
    assert not done.blocked, done.blocked
    return whole, spent["audit"], spent["reports"]


def run_one_job(spark: SparkSession, project: Project, planned: list[PlannedHour]) -> Recomputed:
    """Recompute ``planned`` in one job, in a session that runs already, and write its reports."""
    publication = Publication(project)
    with open_job(project, planned, wall_clock, lambda: spark) as job:
        done = run_job(publication, job)
    follow.follow(project, wall_clock)
    return done


@contextmanager
def timed(spent: dict[str, float], what: str, owner: object, name: str) -> Iterator[None]:
    original: Callable[..., Any] = getattr(owner, name)

    def measured(*arguments: Any) -> Any:
        began = time.monotonic()
        try:
            return original(*arguments)
        finally:
            spent[what] += time.monotonic() - began

    with patch.object(owner, name, measured):
        yield


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 400)
