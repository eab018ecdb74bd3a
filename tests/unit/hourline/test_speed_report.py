"""What `hourline speed` says, and that it says it by the facts."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hourline.cli.speed_report import SpeedReport
from hourline_core.errors import KafkaAwayError, RegistryAwayError, TopicReplacedError
from hourline_core.runtime.file_lock import hold_lock
from hourline_core.runtime.kafka_absence import KafkaAbsence
from hourline_core.runtime.notes import read_note
from speed_layer.state import State

SINCE = datetime(2024, 4, 1, tzinfo=UTC)


def test_each_fact_about_kafka_is_one_sentence_with_the_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with hold_lock(tmp_path / "lease", "reads") as lease:
        report = SpeedReport(lease, "kafka:9092", None)
        report.kafka_absent(KafkaAbsence(SINCE, "Kafka at kafka:9092 does not answer"))
        report.kafka_absent(KafkaAbsence(SINCE, "no answer", SINCE + timedelta(minutes=21)))
        report.retries_after(KafkaAwayError("the stream of source 'visits' stopped: no leader"), 4)
        report.topic_replaced(TopicReplacedError("topic 'visits' was deleted", goes_on=True))
        report.topic_is_back("visits")
        report.registry_absent(RegistryAwayError("the schema registry does not answer", source="visits"))
        report.registry_is_back("visits")
    out, said = capsys.readouterr()
    assert out == "", "it is about progress and not about results"
    lines = said.splitlines()
    assert all(re.match(r"\d\d:\d\d:\d\d ", line) for line in lines)
    assert [line[9:] for line in lines] == [
        "Kafka at kafka:9092 does not answer; nothing is lost, and the speed layer goes on by itself when Kafka is back",
        "Kafka is back after 1,260 s; the speed layer goes on",
        "the stream of source 'visits' stopped: no leader; the speed layer tries again by itself in 4 s",
        "topic 'visits' was deleted",
        "topic 'visits' is there again; the speed layer reads it from its beginning",
        "the schema registry does not answer; nothing is lost, and source 'visits' goes on by itself when the registry answers",
        "the schema registry answers again; source 'visits' goes on",
    ]


def test_only_the_first_streams_make_it_ready(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ready = tmp_path / "ready"
    with hold_lock(tmp_path / "lease", "reads") as lease:
        report = SpeedReport(lease, "kafka:9092", ready)
        report.changed(State.STARTING, State.STOPPED)
        report.heartbeat()
        assert (capsys.readouterr().err, ready.exists()) == ("", False)
        report.changed(State.RUNNING, State.STARTING)
        assert capsys.readouterr().err == "ready; Ctrl-C stops\n"
        announced = read_note(ready)
        assert announced is not None
        assert announced["address"] == "kafka:9092"
        for state, before in [(State.AWAY, State.RUNNING), (State.RUNNING, State.AWAY)]:
            report.changed(state, before)
        assert capsys.readouterr().err == ""


def test_a_deleted_lease_is_taken_again_and_announced(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    with hold_lock(tmp_path / "lease", "reads") as lease:
        report = SpeedReport(lease, "kafka:9092", ready)
        lease.path.unlink()
        report.heartbeat()
        assert lease.path.exists()
        assert ready.exists()
