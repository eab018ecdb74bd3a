"""Resets: whatever is read again, skipped, or computed again, and wherever the command is killed, no record counts twice
and none is lost.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from deltalake import DeltaTable

import serving_layer
from batch_layer.plan import plan_range
from hourline import load_project
from hourline_core.errors import BrokerError, UsageError
from hourline_core.ledger import snapshot
from hourline_core.ledger.coverage import open_coverage, read_coverage
from hourline_core.model.hours import HourRange
from hourline_core.runtime.topics import ensure_topic, offsets_at
from serving_layer.reports.source_status import SourceStatus
from serving_layer.reports.status import report_project_status
from speed_layer.commit.maintenance import prune
from speed_layer.reset import MetricReset, SourceReset, Target
from tests.support import oracle, parcels
from tests.support.project_files import write_project
from tests.support.speed_process import SpeedProcess
from tests.support.stack_project import StackProject, leave_rows

pytestmark = pytest.mark.heavy

DAY = timedelta(days=1)
NOW = datetime(2026, 1, 1, tzinfo=UTC)
STRICT = "belt: {type: string, required: true}"
Address = tuple[int, int]
Strict = tuple[StackProject, dict[Address, oracle.Body]]


@pytest.mark.long
def test_a_reset_to_the_earliest_offset_changes_no_number(kafka: str, tmp_path: Path) -> None:
    project = parcels.make(tmp_path, kafka, topic="reset_earliest", records_per_batch=200, few=True)
    project.send("scans", parcels.scans(project.random, 200, first_hour=0, hours=4))
    project.send_refused("scans", [b"{", None, b"", None])
    project.drain()
    project.recompute()
    project.send("scans", parcels.scans(project.random, 100, first_hour=1, hours=4))
    project.drain()
    before, events = numbers(project), project.table("events", "scans")

    project.send(
        "scans", parcels.scans(project.random, 30, first_hour=1, hours=4)
    )  # not read yet: new in all that follows
    new, project.sent["scans"] = project.sent["scans"][-30:], project.sent["scans"][:-30]
    reset(project, "earliest")
    assert numbers(project) == before
    project.sent["scans"] += new
    finished = project.drain()
    assert sum(done.already_counted for done in finished) == 302, "all that is archived, and the tombstones"
    assert sum(done.rejected for done in finished) == 2
    assert project.check() > 200
    assert [row for row in project.table("events", "scans") if row["sequence"] < finished[0].sequence] == events
    assert numbers(project)["records"] == before["records"] + 30

    before = numbers(project)
    reset(project, "earliest")
    project.drain()
    assert numbers(project) == before


def test_a_mended_declaration_accepts_what_was_rejected_and_nothing_else(
    strict: Strict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, mended = strict[0].copy(tmp_path), strict[1]
    project.recompute()
    before = numbers(project)
    assert before["rejected"] == len(mended) + 2

    mend(project)
    accept(project, mended, after=reset(project, "earliest"))
    # Killed when what it has validated again is committed, and what was said before is not deleted yet.
    monkeypatch.setenv("HOURLINE_FAILPOINT", "kill before delete rejected")
    with SpeedProcess(project, "--drain") as speed:
        assert speed.wait() < 0, speed.lines
    monkeypatch.delenv("HOURLINE_FAILPOINT")
    project.drain()
    assert project.check() > 100
    assert numbers(project)["records"] == before["records"]
    assert numbers(project)["rejected"] == 2
    assert numbers(project)["duplicates"] > before["duplicates"], "one at least has the id of an archived event"
    project.recompute()
    assert project.check() > 100


@pytest.mark.long
def test_a_reset_taken_back_before_anything_was_read_loses_nothing(strict: Strict, tmp_path: Path) -> None:
    project, mended = strict[0].copy(tmp_path), strict[1]
    before = numbers(project)
    mend(project)
    reset(project, "earliest")
    reset(project, "latest")
    assert project.drain() == []
    assert numbers(project) == before
    assert project.check() > 100

    # Read again in one partition alone.
    partition = min(mended)[0]
    last = reset(project, {(None, partition): 0})
    accept(project, {address: body for address, body in mended.items() if address[0] == partition}, after=last)
    project.drain()
    assert project.check() > 100


@pytest.mark.long  # In CI, records that were lost are on record by test_gaps.py.
def test_what_a_reset_skips_is_on_record_until_it_is_read(kafka: str, tmp_path: Path) -> None:
    project = parcels.make(tmp_path, kafka, topic="reset_latest", few=True)
    project.send("scans", parcels.scans(project.random, 100, first_hour=0, hours=4))
    project.drain()
    read = project.sent["scans"]
    project.sent["scans"] = []
    project.send("scans", parcels.scans(project.random, 60, first_hour=0, hours=4))
    project.send_refused("scans", [None, b"{"])
    skipped, project.sent["scans"] = project.sent["scans"], read
    reset(project, "latest")
    assert (status(project).skipped, status(project).lag) == (62, 0)
    assert project.drain() == []
    project.send("scans", parcels.scans(project.random, 50, first_hour=2, hours=4))
    project.drain()
    assert project.check() > 100
    assert status(project).skipped == 62

    first: dict[tuple[str | None, int], int] = {
        (None, partition): min(record.offset for record in skipped if record.partition == partition)
        for partition in range(3)
    }
    reset(project, first)
    assert status(project).lag == 112
    project.sent["scans"] = project.sent["scans"] + skipped
    project.drain()
    assert project.check() > 100
    assert (status(project).skipped, status(project).lag) == (0, 0)


@pytest.mark.long
def test_a_source_reset_killed_anywhere_is_exact_and_can_be_done_again(
    finished_project: StackProject, tmp_path: Path
) -> None:
    project = finished_project.copy(tmp_path)
    # A kill before a step leaves what a kill after the step before it has left.
    steps = ["before delete events", "after delete events", "after delete provisional", "after append progress"]
    for step in steps:
        for table in ("events/scans", "provisional/fragile/*"):
            (folder,) = Path(project.project.tables).glob(table)
            leave_rows(folder, sequence=project.last_sequence("scans") + 1)
        killed(project, "reset", "scans", "--yes", step=step)
        assert project.check_answers() > 100
        if step != steps[-1]:
            reset(project, "earliest")
            assert project.check() > 100
    project.drain()
    assert project.check() > 100
    assert status(project).skipped == 0


@pytest.mark.long  # tests/protocol/test_protocol_resets.py kills a reset of a metric at each commit
def test_a_metric_reset_killed_anywhere_is_exact_or_missing_and_can_be_done_again(kafka: str, tmp_path: Path) -> None:
    project = parcels.make_finished(tmp_path, kafka, topic="metric_reset", few=True)
    days = HourRange(parcels.BEGIN - DAY, parcels.BEGIN + DAY)
    # A kill before a step leaves what a kill after the step before it has left.
    for step in (
        "before append progress",
        "after append progress",
        "after delete provisional",
        "after delete coverage",
    ):
        killed(project, "reset", "flow", "--yes", step=step)
        missing = check_but_missing(project)
        assert missing == {} if step == "before append progress" else missing
        MetricReset(project.project, project.project.metrics["flow"]).apply(NOW)
        everything = check_but_missing(project)
        assert set(everything) == {"flow"}
        assert everything["flow"] == {event.hour for event in project.events("scans")}
        if step == "after delete provisional":
            project.recompute(plan_range(project.project, days, ["flow"]))
            assert check_but_missing(project) == {}
    project.send("scans", parcels.scans(project.random, 50, first_hour=1, hours=4))
    project.drain()
    project.recompute(plan_range(project.project, days))
    assert project.check() > 100


@pytest.mark.long
def test_a_reader_whom_a_metric_reset_overtakes_begins_again(
    finished_project: StackProject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = finished_project.copy(tmp_path)
    (provisional,) = Path(project.project.tables).glob("provisional/flow/*")
    covered = read_coverage(project.project).of("flow", provisional.name)
    prune(DeltaTable(provisional), covered)  # no answer can do without the coverage now
    resets = iter([MetricReset(project.project, project.project.metrics["flow"])])

    def overtaken(*read: Any) -> Any:
        for planned in resets:
            planned.apply(NOW)
        return open_coverage(*read)

    monkeypatch.setattr(snapshot, "open_coverage", overtaken)
    assert set(check_but_missing(project)) == {"flow"}


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ({(None, 0): 10**9}, "partition 0: got offset 1000000000, allowed are 0 to "),
        ({(None, 7): 0}, "has no partition 7 (there is: 0, 1, 2)"),
    ],
)
def test_an_offset_that_kafka_does_not_hold_is_refused(strict: Strict, target: Target, said: str) -> None:
    project = strict[0]
    with pytest.raises(UsageError) as refused:
        SourceReset(project.project, project.project.sources["scans"], project.kafka, target)
    assert said in str(refused.value)


def test_a_time_is_looked_up_in_kafka(kafka: str) -> None:
    ensure_topic(kafka, "reset_times", 2, {})
    producer = Producer({"bootstrap.servers": kafka})
    for second in (10, 20, 30):
        producer.produce("reset_times", b"x", partition=1, timestamp=second * 1000)
    producer.flush()
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    wanted = {0: 0, 20: 1, 20.0001: 2, 31: 3}
    found = {seconds: offsets_at(kafka, "reset_times", epoch + timedelta(seconds=seconds), {}) for seconds in wanted}
    assert found == {seconds: {0: 0, 1: offset} for seconds, offset in wanted.items()}
    with pytest.raises(BrokerError, match="there is no topic 'reset_nowhere'"):
        offsets_at(kafka, "reset_nowhere", epoch, {})


@pytest.fixture(scope="module")
def strict(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Strict:
    """A project that has rejected some records, to be copied; and those of them that it accepts once it is mended, by
    partition and offset.
    """
    files = {
        name: text.replace("TOPIC", "reset_mended").replace("RECORDS_PER_BATCH", "150").replace("belt: string", STRICT)
        for name, text in parcels.keep_few(parcels.FILES).items()
    }
    folder = write_project(tmp_path_factory.mktemp("strict"), files)
    project = StackProject(folder, kafka, {"scans": parcels.rule(few=True)})
    bodies = parcels.scans(project.random, 240, first_hour=0, hours=4)
    good = [body for body in bodies if body["belt"] is not None]
    archived = next(body for body in good if body["scan"] is not None)
    refused = [*(body for body in bodies if body["belt"] is None), {**archived, "belt": None}]
    project.send("scans", good[:100])
    project.send_refused("scans", [*(json.dumps(body).encode() for body in refused), None, b"{", b"", None])
    project.send("scans", good[100:])
    project.drain()
    assert project.check() > 200
    rejected = [row for row in project.table("rejected", "scans") if b"depot" in (row["value"] or b"")]
    return project, {(row["partition"], row["offset"]): json.loads(row["value"]) for row in rejected}


def mend(project: StackProject) -> None:
    """Declare that an event needs no belt."""
    declaration = project.root / "sources/scans.yaml"
    declaration.write_text(declaration.read_text().replace(STRICT, "belt: string"))
    project.project = load_project(project.root, {"KAFKA": project.kafka})


def accept(project: StackProject, bodies: Mapping[Address, oracle.Body], after: int) -> None:
    """Expect these records to be accepted, when they are read again in a sequence beyond ``after``."""
    sent = project.sent["scans"]
    project.sent["scans"] = [
        replace(record, body=bodies.get((record.partition, record.offset), record.body)) for record in sent
    ]
    project.mended |= dict.fromkeys(bodies, after)


def reset(project: StackProject, target: Target) -> int:
    """Reset the source, and return the sequence of that."""
    return SourceReset(project.project, project.project.sources["scans"], project.kafka, target).apply(NOW)


def status(project: StackProject) -> SourceStatus:
    (source,) = report_project_status(project.project, 1).sources
    return source


def numbers(project: StackProject) -> dict[str, Any]:
    """All that is said about the source and of its hours, but for how far it has come."""
    with serving_layer.connect(project.project) as connection:
        hours = connection.sql("FROM hours ORDER BY ALL").fetchall()
        rows = connection.sql("FROM fragile ORDER BY ALL").fetchall()
    told = status(project).model_dump(exclude={"sequence", "lag", "finished", "partitions"})
    return {**told, "hours": hours, "rows": rows}


def killed(project: StackProject, *arguments: str, step: str) -> None:
    """Run a command that is killed by -9 at a step."""
    done = run_command(project, arguments, {"HOURLINE_FAILPOINT": f"kill {step}"})
    assert done.returncode == -signal.SIGKILL, f"{step}: {done.stdout}"


def run_command(
    project: StackProject, arguments: Sequence[str], further: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "KAFKA": project.kafka, "HOURLINE_PROJECT": str(project.root), **further}
    return subprocess.run(
        [sys.executable, "-m", "hourline", *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def check_but_missing(project: StackProject) -> dict[str, set[datetime]]:
    """Each hour of each metric is exact, or missing and left out; returns the missing ones by metric."""
    rule, events = project.rules["scans"], project.events("scans")
    missing: dict[str, set[datetime]] = {}
    with serving_layer.connect(project.project) as connection:
        for name, hour in connection.sql(
            "SELECT name, hour FROM hours WHERE kind = 'metric' AND state = 'missing'"
        ).fetchall():
            missing.setdefault(name, set()).add(hour)
        for metric, of_metric in rule.metrics.items():
            expected = oracle.answer(rule, metric, events, project.cutoffs)
            known = {key: row for key, row in expected.items() if key[0] not in missing.get(metric, set())}
            oracle.compare(connection.sql(f"FROM {metric}").to_arrow_table().to_pylist(), of_metric, known)
    return missing
