"""Records that Kafka deletes before they are read: the stream stops, and goes on if a person accepts the loss. Then the
gap is on record, and no hour that it may concern passes for exact.
"""

import os
import re
import signal
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

import serving_layer
from batch_layer.findings import look_now
from hourline import load_project
from hourline_core.errors import LostRecordsError, UnreliableResultError, UsageError
from hourline_core.ledger.finding import Finding
from hourline_core.model.hours import HOUR
from hourline_core.runtime.kafka import Kafka
from serving_layer.reports.gaps import GapReport, list_gaps
from speed_layer.commit.committer import Finished
from speed_layer.intake.read_micro_batch import MicroBatchReader, Read
from speed_layer.recovery.gaps import find_gaps
from speed_layer.reset import SourceReset
from speed_layer.spark_session import speed_session
from speed_layer.speed_layer import SpeedLayer
from tests.stack.test_reset import run_command, status
from tests.support import parcels
from tests.support.observed import Observed, drain
from tests.support.oracle import Sent
from tests.support.speed_process import PATIENCE, wait_until
from tests.support.stack_project import StackProject

pytestmark = pytest.mark.heavy

BEGAN = datetime.now(UTC).replace(microsecond=0)
"""Before anything is sent."""


@pytest.fixture(scope="module")
def project(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> StackProject:
    """A project with final hours. The tests go on with it, one after the other."""
    project = parcels.make(tmp_path_factory.mktemp("gaps"), kafka, topic="gaps", few=True)
    project.send("scans", parcels.scans(project.random, 200, first_hour=0, hours=4))
    project.drain()
    project.recompute()
    assert project.check() > 100
    return project


def test_a_loss_while_stopped_ends_the_start_until_a_person_accepts_it(project: StackProject) -> None:
    lost = send_lost(project, 60)
    done = run_command(project, ["speed", "--drain"], {})
    assert done.returncode == os.EX_DATAERR, "trying again does not help"
    error = done.stdout.splitlines()[-1]
    for partition, of in by_partition(lost).items():
        told = f"topic 'gaps' partition {partition} offsets {of[0].offset} to {of[-1].offset}: at most {len(of)} record"
        assert told in error
    sent_after = [datetime.fromisoformat(f"{moment}Z") for moment in re.findall(r"sent after (\S+ [0-9:]+)", error)]
    assert len(sent_after) == len(by_partition(lost))
    assert all(BEGAN <= moment <= datetime.now(UTC) for moment in sent_after)
    assert "--accept-loss" in error
    assert "Traceback" not in done.stdout
    assert found(project)["ended"].sentence.endswith(error.removeprefix("hourline: ").rstrip("."))
    assert project.check_answers() > 100, "nothing was changed"

    done = run_command(
        project, ["speed", "--drain", "--accept-loss"], {"HOURLINE_FAILPOINT": "kill before append progress"}
    )
    assert done.returncode == -signal.SIGKILL, done.stdout
    assert "going on without what is gone" in done.stdout
    assert gaps_of(project) == [], "it is not decided yet"
    assert found(project)["ended"].sentence.endswith("nobody told it to: its process was killed")
    accepted: list[str] = []
    project.drain(accepted)
    assert accepted == [error.removeprefix("hourline: ")]
    check_gaps(project, lost)
    gaps = gaps_of(project)
    assert project.drain() == []
    assert gaps_of(project) == gaps, "once is enough"


def found(project: StackProject) -> dict[str, Finding]:
    """By kind, what is found now."""
    return {one.kind: one for one in look_now(project.project)}


@pytest.mark.long  # In CI, records are lost while it is stopped, above.
def test_a_loss_while_the_stream_runs_is_told_in_a_sentence_and_accepted_without_a_restart(
    project: StackProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.send("scans", parcels.scans(project.random, 30, first_hour=2, hours=4))
    project.drain()
    before, held = gaps_of(project), Held()
    stop, reads, read = threading.Event(), threading.Semaphore(0), MicroBatchReader.read

    def count_read(*given: Any) -> Read | None:
        found = read(*given)
        reads.release()
        return found

    monkeypatch.setattr(MicroBatchReader, "read", count_read)
    with speed_session(project.project) as spark:
        speed_layer = SpeedLayer(spark, project.project, Kafka(project.kafka), held, accept_loss=True)
        stream = threading.Thread(target=speed_layer.run, args=(stop,))
        stream.start()
        try:
            # The commit of the first one is held up, and the second one waits for it, so that no third one is read.
            for _ in range(2):
                project.send("scans", parcels.scans(project.random, 1, first_hour=3, hours=1))
                assert reads.acquire(timeout=PATIENCE), "it is not read"
            held.wait()
            lost = send_lost(project, 50)
            project.send("scans", parcels.scans(project.random, 40, first_hour=3, hours=4))
            held.release()
            wait_until(lambda: status(project).lag == 0 or not stream.is_alive(), "it does not go on")
            assert stream.is_alive(), "it ended"
        finally:
            held.release()
            stop.set()
            stream.join()
    (sentence,) = held.losses
    assert f"at most {len(by_partition(lost)[0])} record(s)" in sentence
    assert not any(word in sentence for word in ("org.apache", "Exception", "\n"))
    check_gaps(project, lost, before)


@pytest.mark.long
def test_a_loss_is_not_passed_by_a_start_that_finds_another_topic_missing_or_looked_too_early(
    kafka: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = parcels.make(tmp_path, kafka, topic="gaps_of_one", partitions=2, few=True)
    project.send("scans", parcels.scans(project.random, 40, first_hour=0, hours=4))
    project.drain()
    lost = send_lost(project, 20)
    (declared,) = tmp_path.glob("sources/scans.yaml")
    declared.write_text(declared.read_text().replace("topic: gaps_of_one", "topic: [gaps_of_one, gaps_to_come]"))
    both = load_project(tmp_path, {"KAFKA": kafka})
    with speed_session(both) as spark:
        with pytest.raises(LostRecordsError, match=f"at most {len(by_partition(lost)[0])} record"):
            drain(spark, both, kafka)
        assert gaps_of(project) == []
        looks = iter([True])

        def look_late(*given: Any) -> SourceReset | None:
            return None if next(looks, False) else find_gaps(*given)

        monkeypatch.setattr("speed_layer.speed_layer.find_gaps", look_late)
        told = drain(spark, both, kafka, accept_loss=True)
    assert len(told.losses) == 1
    assert {(gap.partition, gap.records) for gap in gaps_of(project)} == {
        (partition, len(of)) for partition, of in by_partition(lost).items()
    }


def test_the_hours_of_a_gap_are_incomplete_until_a_person_confirms_them(project: StackProject) -> None:
    gaps = {gap.gap for gap in gaps_of(project)}
    assert gaps, "the tests before this one lost records"
    told = project.command("status")
    assert f"Kafka deleted at most {sum(gap.records for gap in gaps_of(project))} record(s)" in told
    with (
        serving_layer.connect(project.project, strict=True) as connection,
        pytest.raises(UnreliableResultError, match="incomplete"),
    ):
        connection.sql("FROM flow")
    project.recompute()  # which makes nothing of it complete
    assert project.check() > 100
    for gap in sorted(gaps):
        with pytest.raises(UsageError, match="wants a --reason"):
            project.command("gaps", "--confirm", gap)
        told = project.command("gaps", "--confirm", gap, "--reason", "counted elsewhere")
        assert f"confirmed {gap}" in told
    project.incomplete = set()
    assert project.check() > 100
    with serving_layer.connect(project.project, strict=True) as connection:
        assert connection.sql("FROM flow").fetchall()
    assert {gap.reason for gap in gaps_of(project)} == {"counted elsewhere"}, "they stay on record"
    with pytest.raises(UsageError, match="was confirmed on"):
        project.command("gaps", "--confirm", gap, "--reason", "x")


class Held(Observed):
    """Holds the commit of the first micro-batch up, until it is released."""

    def __init__(self) -> None:
        super().__init__()
        self._reached, self._released = threading.Event(), threading.Event()

    def finished(self, done: Finished) -> None:
        self._reached.set()
        self._released.wait()

    def wait(self) -> None:
        assert self._reached.wait(PATIENCE)

    def release(self) -> None:
        self._released.set()


def send_lost(project: StackProject, count: int) -> list[Sent]:
    """Send events and delete them from partitions 0 and 1 at once; those of partition 2 stay."""
    sent = len(project.sent["scans"])
    project.send("scans", parcels.scans(project.random, count, first_hour=3, hours=2))
    new = project.sent["scans"][sent:]
    lost = [record for record in new if record.partition < 2]
    ends = {partition: of[-1].offset + 1 for partition, of in by_partition(lost).items()}
    delete(project, ends)
    project.sent["scans"] = [record for record in project.sent["scans"] if record not in lost]
    return lost


def delete(project: StackProject, ends: dict[int, int]) -> None:
    """Delete what is before these offsets, by partition."""
    client = AdminClient({"bootstrap.servers": project.kafka})
    for deleted in client.delete_records([TopicPartition(project.project.name, *end) for end in ends.items()]).values():
        deleted.result()


def by_partition(records: list[Sent]) -> dict[int, list[Sent]]:
    return {
        partition: sorted((record for record in records if record.partition == partition), key=lambda one: one.offset)
        for partition in sorted({record.partition for record in records})
    }


def gaps_of(project: StackProject) -> list[GapReport]:
    with serving_layer.connect(project.project) as connection:
        return list_gaps(connection, "scans")


def check_gaps(project: StackProject, lost: list[Sent], before: list[GapReport] | None = None) -> None:
    """What is new on record is what was lost, all else counts, and the hours of what was lost are incomplete."""
    gaps = gaps_of(project)
    known = before or []
    assert gaps[: len(known)] == known
    told = {gap.partition: (gap.first, gap.last, gap.records) for gap in gaps[len(known) :]}
    assert told == {of: (r[0].offset, r[-1].offset, len(r)) for of, r in by_partition(lost).items()}
    assert (status(project).skipped, status(project).lag) == (sum(gap.records for gap in gaps), 0)
    now = datetime.now(UTC)
    for gap in gaps:
        assert gap.first_hour is not None
        for sent in (gap.sent_after, gap.sent_before or now):
            assert sent is not None
            assert BEGAN <= sent <= now
        span = range((gap.last_hour - gap.first_hour) // HOUR + 1)
        project.incomplete |= {gap.first_hour + HOUR * number for number in span}
    assert {
        project.rules["scans"].time(record.body).replace(minute=0, second=0, microsecond=0)
        for record in lost
        if record.body
    } <= project.incomplete
    assert project.check() > 100
