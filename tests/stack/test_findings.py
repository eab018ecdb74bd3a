"""Faults on the real stack open findings at the default bounds, and the findings close when the faults are gone."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from airflow.sdk.exceptions import AirflowFailException
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from hourline.airflow import report_audit
from hourline.exit_status import FOUND, MISTAKE
from hourline_core.model.hours import HOUR
from hourline_core.storage import commits
from speed_layer.spark_session import speed_session
from tests.support import observed
from tests.support.oracle import Body, SourceRule
from tests.support.project_files import write_project
from tests.support.stack_project import StackProject

pytestmark = pytest.mark.long  # In CI, tests/protocol/test_findings.py opens and closes each kind.

FILES = {
    "hourline.yaml": """\
        kafka: {bootstrap: "${KAFKA}"}
        spark: {master: "local[2]"}
        """,
    "sources/readings.yaml": """\
        topic: found
        fields: {meter: int, at: timestamp}
        event_time: at
        partitions: 2
        findings: {not_recomputed: off}  # Nothing is recomputed here, and time flies.
        """,
    "metrics/by_meter.yaml": """\
        source: readings
        dimensions: [meter]
        measures: {readings: count}
        """,
}


def test_faults_are_found_at_the_default_bounds_until_they_are_gone(kafka: str, tmp_path: Path) -> None:
    project = StackProject(write_project(tmp_path, FILES), kafka, {"readings": SourceRule(lambda _: NEVER, {})})
    with speed_session(project.project) as spark:
        faulty = Faulty(project, spark)
        faulty.send(0, 1)
        assert faulty.found() == {}
        reject_all(faulty)
        let_a_partition_die(faulty)
        hold_the_clock(faulty)
        be_silent(faulty)


def reject_all(faulty: "Faulty") -> None:
    """Nothing is accepted any more, and then something is again."""
    project = faulty.project
    faulty.refuse()
    one = faulty.found(MISTAKE)["all_rejected"]
    assert "12 of them: 12 × field 'meter': got 'one', want int" in one["sentence"].replace('"', "'")
    assert one["example"].startswith("found[")
    shown = project.command("quality", status=MISTAKE)
    assert shown.startswith("1 finding needs you.\n\nreadings  fail  all rejected\nfound    every record since")
    told = project.command("recompute", status=FOUND)
    results = project.root / "results.json"
    assert project.command("recompute", "--results", str(results), status=FOUND) == told, "it is recorded once"
    with pytest.raises(AirflowFailException, match="found: readings: every record since"):
        report_audit(json.loads(results.read_text()))
    faulty.send(0, 1)
    assert faulty.found() == {}
    project.command("recompute")
    assert "\nclosed at " in f"\n{project.command('quality')}"


def let_a_partition_die(faulty: "Faulty") -> None:
    """A partition has no record for two hours, and then has some again."""
    faulty.age(2 * HOUR)
    faulty.send(0)
    one = faulty.found(MISTAKE)["silent_partition"]
    assert one["numbers"] == {"partitions": ["found[1]"]}
    assert "declare `idle: 15m` in sources/readings.yaml" in one["remedy"]
    faulty.send(1)
    assert faulty.found() == {}


def hold_the_clock(faulty: "Faulty") -> None:
    """All records of a partition are rejected, while others go on."""
    faulty.send(0)
    assert faulty.found() == {}
    faulty.age(2 * HOUR)
    faulty.refuse(1)
    faulty.send(0)
    one = faulty.found(MISTAKE)["held_clock"]
    assert one["numbers"]["partitions"] == ["found[1]"]
    assert "held by found[1], whose records do not move it" in one["sentence"]
    faulty.send(1)
    assert faulty.found() == {}


def be_silent(faulty: "Faulty") -> None:
    """A source that has been read for a day has no record for more than twice its usual silence of two hours."""
    faulty.age(24 * HOUR)
    faulty.send(0, 1)
    assert faulty.found() == {}
    faulty.age(5 * HOUR)
    one = faulty.found()["silence"]
    assert one["sentence"].startswith("no record has been read for 5h")
    assert one["remedy"] == "`hourline up` starts the speed layer"
    faulty.send(0, 1)
    assert faulty.found() == {}


@dataclass
class Faulty:
    """A project, and a speed layer that reads what was sent whenever somebody looks."""

    project: StackProject
    spark: SparkSession

    def send(self, *partitions: int) -> None:
        """Send events of now: as many as make a dozen rejected ones few."""
        for partition in partitions:
            self.project.send("readings", readings(300), partition)

    def refuse(self, partition: int | None = None) -> None:
        """Send records of now with a meter that is no number."""
        refused = [json.dumps({**one, "meter": "one"}).encode() for one in readings(12)]
        self.project.send_refused("readings", refused, partition)

    def found(self, status: int = 0) -> dict[str, Any]:
        """By kind, what `hourline quality` says, and ends with ``status``."""
        observed.drain(self.spark, self.project.project, self.project.kafka)
        report = json.loads(self.project.command("quality", "--format", "json", status=status))
        return {one["kind"]: one for one in report["findings"]}

    def age(self, by: timedelta) -> None:
        """Let that much time pass between what was read and now: progress is dated back by it. The last records stay
        what Kafka has.
        """
        table = DeltaTable(self.project.project.workspace / "tables" / "progress" / "readings")
        rows = table.to_pyarrow_table()
        moved = [{**_earlier(row, by), "last_records": row["last_records"]} for row in rows.to_pylist()]
        commits.overwrite(table, pa.Table.from_pylist(moved, rows.schema), None, {"aged": by})


NEVER = datetime(2024, 1, 1, tzinfo=UTC)


def readings(count: int) -> list[Body]:
    # Records of one time alone would confirm no leap of the clock.
    times = [datetime.now(UTC) - timedelta(milliseconds=number) for number in range(count)]
    return [{"meter": number, "at": f"{at:%Y-%m-%dT%H:%M:%S.%fZ}"} for number, at in enumerate(times)]


def _earlier(value: Any, by: timedelta) -> Any:
    if isinstance(value, datetime):
        return value - by
    if isinstance(value, dict):
        return {name: _earlier(item, by) for name, item in value.items()}
    return [_earlier(item, by) for item in value] if isinstance(value, list) else value
