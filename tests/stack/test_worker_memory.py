"""The memory of Spark's Python workers is what the settings say: what does not fit goes to files."""

import json
import os
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pytest
from pyspark.sql import SparkSession

import batch_layer.recompute as batch
import serving_layer
from batch_layer.plan import plan
from hourline import load_project
from hourline_core.model.hours import iso_text
from hourline_core.runtime.lease import lease
from hourline_core.runtime.spark import stop_spark
from speed_layer.import_files import find_history, import_files
from speed_layer.spark_session import speed_session
from tests.support.command_line import hourline
from tests.support.project_files import write_project

# tests/unit/compute/test_worker_database.py shows the limit of a worker.
pytestmark = [pytest.mark.heavy, pytest.mark.long]

BASE = datetime(2026, 3, 2, 8, tzinfo=UTC)
# One task takes all of them, and DuckDB needs more than 40 MB for so many groups.
EVENTS, USERS, AGAIN = 300_000, 200_000, 20_000
CORES = os.cpu_count() or 1
FILES = {
    "sources/visits.yaml": """\
        topic: visits
        fields: {visit: string, user: string, seconds: long, at: timestamp}
        event_time: at
        id: visit
        grace: 0s
        """,
    "metrics/by_user.yaml": "source: visits\ndimensions: [user]\nmeasures: {visits: count, seconds: sum(seconds)}\n",
}


class Visit(NamedTuple):
    visit: str
    user: str
    seconds: int
    at: datetime


def test_a_recompute_writes_to_files_what_its_declared_memory_does_not_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = write_project(tmp_path / "site", {**FILES, "hourline.yaml": settings("2g")})
    project = load_project(root)
    history = root / "history.jsonl"
    with history.open("w") as file:
        file.writelines(json.dumps({**one._asdict(), "at": iso_text(one.at)}) + "\n" for one in visits())
    with lease(project.workspace, "speed"), speed_session(project) as spark:
        source = project.sources["visits"]
        import_files(spark, project, source, find_history(project, source, [str(history)]))

    # Each core has half a megabyte.
    write_project(root, {"hourline.yaml": settings(f"{CORES // 2 or 1}m")})
    told = hourline("recompute", folder=root, status=75)
    assert "a Python worker of Spark has used up its" in told
    assert f"the part of a core in spark.worker_memory ({CORES // 2 or 1}m); raise that in hourline.yaml" in told

    write_project(root, {"hourline.yaml": settings(f"{32 * CORES}m")})
    project, spilled = load_project(root), list[Path]()

    def look_and_stop(session: SparkSession) -> None:
        spilled.extend((project.workspace / "spark").rglob("hourline-*"))
        stop_spark(session)

    monkeypatch.setattr(batch, "stop_spark", look_and_stop)
    batch.recompute(project, plan(project))
    assert spilled, "all of it was in memory"
    with serving_layer.connect(project) as connection:
        closed = f"SELECT state FROM hours WHERE name = 'by_user' AND hour = '{iso_text(BASE)}'"
        assert connection.sql(closed).fetchall() == [("final",)]
        rows = connection.sql("SELECT user, visits, seconds FROM by_user WHERE state = 'final'").fetchall()
    assert {user: (number, seconds) for user, number, seconds in rows} == expected()


def settings(worker_memory: str) -> str:
    return f"spark: {{master: 'local[1]', worker_memory: {worker_memory}}}\n"


def visits() -> Iterator[Visit]:
    """Those of an hour, some of them again as another user, and one later that closes it."""
    for number in range(EVENTS + AGAIN):
        user = f"the user with the number {number % USERS:09d}"
        yield Visit(f"visit {number % EVENTS:09d}", user, number % 100, BASE + timedelta(milliseconds=number))
    yield Visit("last", "nobody", 0, BASE + timedelta(hours=2))


def expected() -> dict[str, tuple[int, int]]:
    """By user, the visits and their seconds in the hour that is closed. The first of an id counts."""
    first: dict[str, Visit] = {}
    for one in visits():
        if one.at < BASE + timedelta(hours=1):
            first.setdefault(one.visit, one)
    totals: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for one in first.values():
        number, seconds = totals[one.user]
        totals[one.user] = number + 1, seconds + one.seconds
    return dict(totals)
