"""A shop whose declarations change while its records stay, on real Kafka and Spark."""

import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

import serving_layer
from batch_layer.plan import plan
from hourline import Project, load_project
from tests.support.project_files import write_project
from tests.support.stack_project import StackProject

START = datetime(2026, 3, 2, 8, tzinfo=UTC)
FILES = {
    "hourline.yaml": """\
        kafka: {bootstrap: "${KAFKA}"}
        spark: {master: "local[2]"}
        """,
    "sources/sales.yaml": """\
        topic: TOPIC
        fields: {id: string, at: timestamp, amount: long}
        event_time: at
        id: id
        """,
    "metrics/revenue.yaml": "{source: sales, measures: {sales: count, amount: sum(amount)}}",
}
Row = dict[str, Any]
Answer = dict[tuple[Any, ...], tuple[Any, ...]]


def sale(number: int, **more: Any) -> Row:
    """One record. Some fields of it are not declared at first."""
    at = START + timedelta(minutes=number)
    return {
        "id": f"s{number}",
        "at": at.isoformat(),
        "sent_at": (at + timedelta(minutes=45)).isoformat(),
        "amount": number,
        "shop": "north" if number % 3 else "south",
        "tip": number / 4,
        **more,
    }


class Shop:
    """A project whose declarations change while its records stay."""

    def __init__(self, folder: Path, kafka: str, topic: str) -> None:
        files = {name: text.replace("TOPIC", topic) for name, text in FILES.items()}
        self._stack = StackProject(write_project(folder, files), kafka, {})
        self._folder, self._kafka, self._topic = folder, kafka, topic

    def declare(self, source: str, metric: str) -> None:
        """Declare the source and its metric in another way. The speed layer takes it up with the next ``drain``."""
        files = {"sources/sales.yaml": f"topic: {self._topic}\n{source}\n", "metrics/revenue.yaml": metric}
        for name, text in files.items():
            (self._folder / name).write_text(text)
        self._stack.project = load_project(self._folder, {"KAFKA": self._kafka})

    @property
    def project(self) -> Project:
        """The declarations of now."""
        return self._stack.project

    def send(self, records: Iterable[Row | bytes], older: Project | None = None) -> None:
        """Send ``records``, and read them by the declarations of now, or by those of a speed layer that is ``older``."""
        values = [record if isinstance(record, bytes) else json.dumps(record).encode() for record in records]
        self._stack.send_refused("sales", values)
        now = self.project
        self._stack.project = older or now
        self._stack.drain()
        self._stack.project = now

    def drain(self) -> None:
        self._stack.drain()

    def plan(self) -> dict[str, set[str]]:
        """By reason, the hours to recompute."""
        reasons = defaultdict(set)
        for item in plan(self._stack.project):
            reasons[item.reason].add(f"{item.hour:%H}")
        return dict(reasons)

    def command(self, *arguments: str, status: int | None = 0) -> str:
        return self._stack.command(*arguments, status=status)

    def killed(self, *arguments: str, failpoint: str) -> int:
        """The status of a command of another process, which a failpoint kills, or a Python worker of it."""
        fired = self._folder / "fired"
        fired.unlink(missing_ok=True)
        further = {"KAFKA": self._kafka, "HOURLINE_FAILPOINT": failpoint, "HOURLINE_FAILPOINT_FIRED": str(fired)}
        command = [sys.executable, "-m", "hourline", *arguments, "--project", str(self._folder)]
        done = subprocess.run(command, env={**os.environ, **further}, capture_output=True, text=True, check=False)
        assert fired.exists(), done.stderr
        return done.returncode

    def decoded_rows(self) -> list[int]:
        """By decoding, the number of rows that are decoded anew."""
        tables = Path(self.project.tables).glob("decoded/sales/*")
        return [rows for table in tables if (rows := DeltaTable(table).to_pyarrow_table().num_rows)]

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        with serving_layer.connect(self._stack.project) as connection:
            return connection.sql(sql).fetchall()


def by_hour(records: Iterable[Row], time: str, keys: Callable[[Row], tuple[Any, ...]], value: str) -> Answer:
    """A naive pass over all records: by hour and keys, the number of the records and the sum of ``value``."""
    groups: dict[tuple[Any, ...], list[Any]] = defaultdict(list)
    for record in {record["id"]: record for record in records}.values():
        hour = datetime.fromisoformat(record[time]).replace(minute=0, second=0, microsecond=0)
        groups[hour, *keys(record)].append(record[value])
    return {group: (len(values), sum(values)) for group, values in groups.items()}
