"""Sources that read files and the commits of a Delta table: each row counts once, also when the speed layer is killed in
the middle of a file, and when a file comes twice, is renamed, is changed, or goes.

The oracle is a loop in Python over all rows that were written.
"""

import json
import random
import shutil
import signal
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

import serving_layer
from batch_layer.recompute import recompute
from hourline_core.model.hours import iso_text
from speed_layer.spark_session import speed_session
from tests.support import observed
from tests.support.project_files import write_project
from tests.support.speed_process import SpeedProcess
from tests.support.stack_project import StackProject

pytestmark = pytest.mark.heavy

BEGIN = datetime(2026, 3, 2, 8, tzinfo=UTC)
FIELDS = """
fields:
  order: {type: string, required: true}
  shop: string
  amount: long
  at: {type: timestamp, required: true}
event_time: at
id: order
latest: 2027-01-01T00:00:00Z
"""
METRIC = """
dimensions: [shop]
measures:
  orders: count
  amount: sum(amount)
"""
FILES = {
    "hourline.yaml": """
        name: arrivals
        kafka: {bootstrap: "${KAFKA}"}
        speed: {max_records_per_batch: 100}
    """,
    "sources/orders.yaml": f"files: {{folder: in, settle: 0s}}{FIELDS}",
    "sources/returns.yaml": f"delta: {{table: lake}}{FIELDS}",
    "metrics/ordered.yaml": f"source: orders{METRIC}",
    "metrics/returned.yaml": f"source: returns{METRIC}",
}

Row = dict[str, Any]


def make(root: Path, kafka: str) -> StackProject:
    write_project(root, FILES)
    (root / "in").mkdir()
    return StackProject(root, kafka, {})


def rows(rand: random.Random, count: int, first_hour: int = 0, hours: int = 6, repeated: float = 0.1) -> list[Row]:
    """Orders in no order of time; a share of ``repeated`` has the number of another one."""
    made: list[Row] = []
    for _ in range(count):
        again = bool(made) and rand.random() < repeated
        at = BEGIN + timedelta(hours=first_hour, seconds=rand.randrange(hours * 3600))
        made.append(
            {
                "order": rand.choice(made)["order"] if again else f"o{rand.randrange(10**9)}",
                "shop": rand.choice(["north", "süd", None]),
                "amount": rand.choice([None, rand.randrange(-50, 1000)]),
                "at": iso_text(at),
            }
        )
    return made


def write_lines(file: Path, written: Iterable[Row]) -> None:
    file.write_text("".join(f"{json.dumps(row)}\n" for row in written), encoding="utf-8")


def write_csv(file: Path, written: Iterable[Row]) -> None:
    lines = [
        ",".join("" if row[name] is None else str(row[name]) for name in ("order", "shop", "amount", "at"))
        for row in written
    ]
    file.write_text("\n".join(["order,shop,amount,at", *lines, ""]), encoding="utf-8")


def as_table(written: Sequence[Row]) -> pa.Table:
    types = {"order": pa.string(), "shop": pa.string(), "amount": pa.int64(), "at": pa.string()}
    table = pa.table({name: pa.array([row[name] for row in written], kind) for name, kind in types.items()})
    times = pa.array([datetime.fromisoformat(row["at"]) for row in written], pa.timestamp("us", "UTC"))
    return table.set_column(3, "at", times)


def results_of(counted: Iterable[Row]) -> set[tuple[Any, ...]]:
    """The hours of these rows in a plain loop: of an order and an hour, the first row counts."""
    seen, groups = set(), defaultdict[tuple[datetime, str | None], list[int | None]](list)
    for row in counted:
        hour = datetime.fromisoformat(row["at"]).replace(minute=0, second=0, microsecond=0)
        if (hour, row["order"]) not in seen:
            seen.add((hour, row["order"]))
            groups[hour, row["shop"]].append(row["amount"])
    return {
        (hour, shop, len(amounts), sum(known) if (known := [of for of in amounts if of is not None]) else None)
        for (hour, shop), amounts in groups.items()
    }


def answer_of(project: StackProject, metric: str) -> set[tuple[Any, ...]]:
    with serving_layer.connect(project.project) as connection:
        return set(connection.sql(f"SELECT hour, shop, orders, amount FROM {metric}").fetchall())


def status_of(project: StackProject, source: str) -> dict[str, Any]:
    (found,) = (
        one for one in json.loads(project.command("status", "--format", "json"))["sources"] if one["source"] == source
    )
    return dict(found)


def test_files_and_commits_count_once_through_kills_copies_and_changes(kafka: str, tmp_path: Path) -> None:
    project = make(tmp_path / "arrivals", kafka)
    folder, lake, rand = project.root / "in", str(project.root / "lake"), project.random
    first, second, third = rows(rand, 350), rows(rand, 120, first_hour=5), rows(rand, 40, first_hour=8)
    write_lines(folder / "a.jsonl", first)
    write_deltalake(lake, as_table(rows_of_lake := rows(rand, 150, repeated=0)), partition_by=["shop"])

    # Killed when the third chunk of the first file is archived, and not finished.
    with SpeedProcess(project, "--drain", failpoint="kill after append events 3") as process:
        assert process.wait() == -signal.SIGKILL, process.lines
    (folder / "a.jsonl").rename(folder / "renamed.jsonl")
    write_csv(folder / "b.csv", second)
    shutil.copy(folder / "renamed.jsonl", folder / "copy.jsonl")
    (folder / "later").mkdir()
    pq.write_table(as_table(third), folder / "later/c.parquet")
    (folder / "_SUCCESS").touch()
    (folder / "bad.csv").write_text("a;b\n1;2\n")
    more_of_lake = rows(rand, 30, first_hour=4, repeated=0)
    write_deltalake(lake, as_table(more_of_lake), mode="append")
    DeltaTable(lake).optimize.compact()
    finished = drain(project)
    assert answer_of(project, "ordered") == results_of([*first, *second, *third])
    assert answer_of(project, "returned") == results_of([*rows_of_lake, *more_of_lake])
    # A file has no order, so none of its rows are late for others of it: the clock waits for its end.
    assert sum(done.late for done in finished if done.source == "orders") == 0
    # Nothing is left to read, and what was read once stays so, whatever becomes of the file.
    (folder / "copy.jsonl").unlink()
    (folder / "b.csv").write_text((folder / "b.csv").read_text() + "o1,north,7,2026-03-02T10:00:00Z\n")
    (folder / "bad.csv").write_text("order,shop,amount,at\no2,north,7,2026-03-02T11:00:00Z\nx,,,\n")
    DeltaTable(lake).delete("amount > 10")
    assert [(done.source, done.records, done.rejected) for done in drain(project)] == [("orders", 2, 1)]
    written = [*first, *second, *third, {"order": "o2", "shop": "north", "amount": 7, "at": "2026-03-02T11:00:00Z"}]
    assert answer_of(project, "ordered") == results_of(written)
    assert answer_of(project, "returned") == results_of([*rows_of_lake, *more_of_lake])
    recompute_all(project)
    assert answer_of(project, "ordered") == results_of(written)
    assert answer_of(project, "returned") == results_of([*rows_of_lake, *more_of_lake])

    # What the running speed layer does not read, it tells.
    with SpeedProcess(project) as speed:
        speed.wait_until_ready()
        write_lines(folder / "d.jsonl", fourth := rows(rand, 3, first_hour=9))
        speed.wait_for("orders #")
        files = status_of(project, "orders")["files"]
        assert (files["read"], files["waiting"], files["left_out"]) == (5, 0, 0)
        assert [one["name"] for one in files["unread"]] == ["b.csv"]
        (unread,) = status_of(project, "returns")["files"]["unread"]
        assert "(DELETE) changes or deletes rows" in unread["reason"]
        told = json.loads(project.command("quality", "--format", "json", status=None))
        assert {one["source"] for one in told["findings"] if one["kind"] == "unread_files"} == {"orders", "returns"}
        speed.stop()
    assert answer_of(project, "ordered") == results_of([*written, *fourth])
    assert status_of(project, "orders")["files"]["waiting"] is None


def drain(project: StackProject) -> list[Any]:
    with speed_session(project.project) as spark:
        return observed.drain(spark, project.project, project.kafka).batches


def recompute_all(project: StackProject) -> None:
    from batch_layer.plan import plan

    assert recompute(project.project, plan(project.project))
