"""`hourline topics` at a real Kafka: a topic is created, filled, read in each way, copied, described and deleted."""

import io
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions  # type: ignore[attr-defined] # not in strict mypy's way
from typer.testing import CliRunner

from hourline.cli import app, run
from hourline_core.errors import SourceError, UsageError
from hourline_core.runtime.topic_changes import create_topic, delete_topic
from hourline_core.runtime.topic_facts import describe_topic
from hourline_core.runtime.topic_reader import TopicReader, TopicRecord
from tests.support.command_line import Failing, answer
from tests.support.project_files import write_project

SETTINGS = 'name: shop\nkafka: {bootstrap: "BOOTSTRAP"}\n'
SOURCE = "topic: taps\nevent_time: at\nfields: {at: timestamp, n: int}\n"
HEADERS = [("a", b""), ("b", None), ("a", b"2"), ("", b"\xff")]


@pytest.fixture
def folder(tmp_path: Path, kafka: str) -> Path:
    return write_project(tmp_path, {"hourline.yaml": SETTINGS.replace("BOOTSTRAP", kafka), "sources/taps.yaml": SOURCE})


def tail(folder: Path, *arguments: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in answer("topics", "tail", *arguments, folder=folder).splitlines()]


def sent(folder: Path, topic: str, lines: list[dict[str, Any]], *arguments: str) -> str:
    text = "".join(f"{json.dumps(line)}\n" for line in lines)
    command = ["topics", "produce", topic, *arguments, "--project", str(folder)]
    done = CliRunner().invoke(app, command, input=text, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def values(records: list[dict[str, Any]]) -> list[object]:
    return [record["value"] for record in records]


def as_kafka_has_them(kafka: str, topic: str, count: int) -> list[tuple[Any, ...]]:
    """What another consumer reads of partition 0."""
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": "oracle"})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        found = consumer.consume(count, timeout=30)
        return [(one.key(), one.value(), one.headers() or [], one.timestamp()[1]) for one in found]
    finally:
        consumer.close()


def test_a_topic_is_created_described_and_deleted(folder: Path, kafka: str, failing: Failing) -> None:
    config = ["--config", "cleanup.policy=compact", "--config", "segment.ms=3600000"]
    created = answer("topics", "create", "taps", "--partitions", "2", "--replication", "1", *config, folder=folder)
    assert created == "topic 'taps' was created with 2 partition(s)\n"
    for arguments, said in {
        ("create", "taps"): "Kafka does not create topic 'taps': Topic 'taps' already exists.",
        ("create", "b", "--config", "foo=1"): "Kafka does not create topic 'b': Unknown topic config name: foo",
        ("create", "b", "--replication", "9"): "Unable to replicate the partition 9 time(s)",
        ("create", "a b"): "Topic name is invalid",
        ("describe", "tapz"): "there is no topic 'tapz' — did you mean 'taps'?",
        ("tail", "tapz"): "there is no topic 'tapz' — did you mean 'taps'?",
        ("produce", "tapz"): "there is no topic 'tapz' — did you mean 'taps'?",
        ("delete", "tapz", "--yes"): "there is no topic 'tapz' — did you mean 'taps'?",
        ("delete", "taps", "--yes"): "topic 'taps' is read by source 'taps'; add --accept-loss",
        ("tail", "taps", "--partition", "2"): "topic 'taps' has no partition 2, allowed are 0 to 1",
        ("tail", "taps", "--from", "9"): "got --from 9, and topic 'taps' ends at 0",
    }.items():
        assert said in failing.sentence("topics", *arguments, folder=folder)

    sent(folder, "taps", [{"key": "k", "value": str(n), "partition": 1} for n in range(3)])
    [listed] = [
        one for one in json.loads(answer("topics", "list", "-f", "json", folder=folder)) if one["topic"] == "taps"
    ]
    assert listed == {
        "topic": "taps",
        "partitions": 2,
        "replication": 1,
        "records": 3,
        "cleanup_policy": "compact",
        "sources": ["taps"],
        "sinks": [],
    }
    described = json.loads(answer("topics", "describe", "taps", "-f", "json", folder=folder))
    assert {key: described["config"].get(key) for key in ("cleanup.policy", "segment.ms", "segment.bytes")} == {
        "cleanup.policy": "compact",
        "segment.ms": "3600000",
        "segment.bytes": None,
    }
    ends = [(of["partition"], of["begin"], of["end"]) for of in described["partitions"]]
    assert ends == [(0, 0, 0), (1, 0, 3)]
    assert all([of["leader"]] == of["replicas"] == of["in_sync"] for of in described["partitions"])
    assert described["id"] in answer("topics", "describe", "taps", folder=folder)
    assert "__consumer_offsets" not in answer("topics", "list", folder=folder)
    assert "got an empty name" in failing.sentence("topics", "describe", "", folder=folder)

    assert answer("topics", "delete", "taps", "--yes", "--accept-loss", folder=folder) == "topic 'taps' was deleted\n"
    assert "there is no topic 'taps'" in failing.sentence("topics", "describe", "taps", folder=folder)


class Terminal(io.StringIO):
    """Somebody who types."""

    def isatty(self) -> bool:
        return True


def test_a_deletion_asks_for_the_name(folder: Path, monkeypatch: pytest.MonkeyPatch, kafka: str) -> None:
    answer("topics", "create", "asked", folder=folder)
    monkeypatch.setattr(sys, "argv", ["hourline", "topics", "delete", "asked", "--project", str(folder)])
    for typed, status in (("y", 1), ("Asked", 1), ("asked", 0)):
        assert describe_topic(kafka, "asked", {}).name == "asked"
        monkeypatch.setattr(sys, "stdin", Terminal(f"{typed}\n"))
        with pytest.raises(SystemExit) as ended:
            run()
        assert (ended.value.code or 0) == status
    with pytest.raises(UsageError, match="there is no topic 'asked'"):
        describe_topic(kafka, "asked", {})


class Slow(Terminal):
    """Somebody who types while the topic is recreated."""

    def __init__(self, kafka: str, topic: str) -> None:
        super().__init__(f"{topic}\n")
        self._kafka, self._topic = kafka, topic

    def readline(self, size: int | None = -1, /) -> str:  # type: ignore[override] # as StringIO itself
        delete_topic(self._kafka, self._topic, {})
        create_topic(self._kafka, self._topic, {}, 1, 1, {})
        return super().readline(-1 if size is None else size)


def test_a_topic_that_is_recreated_meanwhile_is_not_deleted(
    folder: Path, monkeypatch: pytest.MonkeyPatch, kafka: str, failing: Failing
) -> None:
    answer("topics", "create", "renewed", folder=folder)
    monkeypatch.setattr(sys, "stdin", Slow(kafka, "renewed"))
    monkeypatch.setattr(sys, "argv", ["hourline", "topics", "delete", "renewed", "--project", str(folder)])
    with pytest.raises(SystemExit) as ended:
        run()
    assert ended.value.code == 2
    assert describe_topic(kafka, "renewed", {}).name == "renewed"


def test_records_are_read_from_each_place_and_copied_as_they_are(folder: Path, kafka: str, tmp_path: Path) -> None:
    for topic in ("reads", "copies"):
        answer("topics", "create", topic, "--partitions", "2", folder=folder)
    producer = Producer({"bootstrap.servers": kafka})
    records = [
        (None, b"0", [], 1_000),
        (b"", b"", HEADERS, 2_000),
        (b"\xff", None, [], 3_000),
        (b"k", b"\xfe", [], 4_000),
    ]
    for key, value, headers, timestamp in records:
        producer.produce("reads", value, key, 0, headers=list(headers), timestamp=timestamp)
    for number in range(12):
        producer.produce("reads", str(number).encode(), partition=1, timestamp=1_000 * number + 1)
    producer.flush()

    assert len(tail(folder, "reads")) == 4 + 10, "the last 10 of each partition"
    assert values(tail(folder, "reads", "--last", "2", "--partition", "1")) == ["10", "11"]
    assert values(tail(folder, "reads", "--from", "9", "--partition", "1")) == ["9", "10", "11"]
    assert values(tail(folder, "reads", "--from", "beginning", "--partition", "1", "--limit", "2")) == ["0", "1"]
    assert tail(folder, "reads", "--from", "end") == []
    since = tail(folder, "reads", "--from", "1970-01-01T00:00:03Z")
    assert sorted((one["partition"], one["offset"]) for one in since) == [
        (0, 2),
        (0, 3),
        *((1, n) for n in range(3, 12)),
    ]

    copied = tail(folder, "reads", "--from", "beginning")
    assert sent(folder, "copies", copied) == "16 record(s) were delivered to topic 'copies'\n"
    assert as_kafka_has_them(kafka, "copies", 4) == records
    places = ("partition", "timestamp", "key", "headers", "value")

    def content(topic: str) -> list[str]:
        found = tail(folder, topic, "--from", "beginning")
        return sorted(json.dumps([one[place] for place in places]) for one in found)

    assert content("copies") == content("reads")
    (tmp_path / "lines.txt").write_bytes(b"one\r\n\n{three")
    answer("topics", "create", "raw", "--partitions", "1", folder=folder)
    raw = answer("topics", "produce", "raw", str(tmp_path / "lines.txt"), "--raw", folder=folder)
    assert raw == "3 record(s) were delivered to topic 'raw'\n"
    assert [(one["key"], one["value"]) for one in tail(folder, "raw")] == [
        (None, "one\r"),
        (None, ""),
        (None, "{three"),
    ]


def test_open_and_aborted_transactions_are_not_read_and_do_not_count_as_the_last(folder: Path, kafka: str) -> None:
    answer("topics", "create", "sure", "--partitions", "1", folder=folder)
    producer = Producer({"bootstrap.servers": kafka, "transactional.id": "sure"})
    producer.init_transactions(30)
    for number in range(6):
        producer.begin_transaction()
        producer.produce("sure", str(number).encode())
        producer.flush()
        producer.abort_transaction() if number == 4 else producer.commit_transaction()
    producer.begin_transaction()
    producer.produce("sure", b"open")
    producer.flush()
    assert values(tail(folder, "sure", "--last", "4")) == ["1", "2", "3", "5"]
    assert values(tail(folder, "sure", "--from", "beginning")) == ["0", "1", "2", "3", "5"]
    producer.abort_transaction()


def test_what_cannot_be_delivered_is_named_by_its_line(folder: Path, failing: Failing, tmp_path: Path) -> None:
    answer("topics", "create", "strict", "--partitions", "1", folder=folder)
    answer("topics", "create", "keyed", "--config", "cleanup.policy=compact", folder=folder)
    lines = tmp_path / "lines.jsonl"
    good, large = '{"value": "a"}', json.dumps({"value": "x" * 2_000_000})

    def refused(topic: str, *content: str, status: int) -> str:
        lines.write_text("".join(f"{line}\n" for line in content))
        return failing.sentence("topics", "produce", topic, str(lines), folder=folder, status=status)

    assert refused("strict", good, "[]", good, status=2) == (
        "line 2: got a list, want a JSON object; --raw sends each line as a value; 1 records were sent before that"
    )
    said = refused("strict", large, '{"value": "a", "partition": 7}', good, status=75)
    assert said.startswith("2 records were not delivered to topic 'strict' and 1 were (line 1: ")
    assert "Message size too large; line 2: " in said
    assert "Unknown partition" in said
    assert "line 1: it has no key, which each record of a compacted topic needs" in refused("keyed", good, status=2)
    assert values(tail(folder, "strict")) == ["a", "a"]
    lines.unlink()
    assert f"{lines} cannot be read: No such file" in failing.sentence(
        "topics", "produce", "strict", str(lines), folder=folder
    )


def test_fields_are_those_of_the_source(folder: Path) -> None:
    answer("topics", "create", "taps", "--partitions", "1", folder=folder)
    sent(
        folder, "taps", [{"value": '{"at": "2026-03-02T10:00:00Z", "n": 1}'}, {"value": '{"n": "x"}'}, {"value": None}]
    )
    good, wrong, tombstone = tail(folder, "taps", "--source", "taps")
    assert good["fields"] == {"at": "2026-03-02T10:00:00Z", "n": 1}
    assert "'n'" in wrong["rejected"]
    assert not {"fields", "rejected"} & tombstone.keys()


@contextmanager
def started(folder: Path, *arguments: str) -> "Iterator[subprocess.Popen[str]]":
    command = [sys.executable, "-m", "hourline", "topics", *arguments, "--project", str(folder)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as running:
        try:
            yield running
        finally:
            running.kill()


def ended(running: "subprocess.Popen[str]") -> tuple[int, str, str]:
    """How it ends by Ctrl-C, while its standard input is still open."""
    running.send_signal(signal.SIGINT)
    status = running.wait(timeout=30)
    return (status, *running.communicate())


def test_what_goes_on_ends_by_ctrl_c_or_with_its_topic(folder: Path, kafka: str) -> None:
    answer("topics", "create", "followed", "--partitions", "2", folder=folder)
    sent(folder, "followed", [{"value": "before", "partition": 0}])
    with started(folder, "tail", "followed", "--follow") as tailing, started(folder, "produce", "followed") as sending:
        assert tailing.stdout is not None
        assert sending.stdin is not None
        assert json.loads(tailing.stdout.readline())["value"] == "before"
        sending.stdin.write('{"value": "after", "partition": 1}\n{"value": "unfinished')
        sending.stdin.flush()
        assert json.loads(tailing.stdout.readline())["value"] == "after"
        assert ended(sending) == (130, "1 record(s) were delivered to topic 'followed'\n", "")
        assert ended(tailing) == (0, "", "stopping\n")

    over = time.monotonic() + 60
    topic_id = describe_topic(kafka, "followed", {}).id
    with TopicReader(kafka, "followed", topic_id, {}, stopped=lambda: time.monotonic() > over) as reader:
        following = reader.follow({0: 0, 1: 1})
        assert value_of(following) == b"before"
        client = AdminClient({"bootstrap.servers": kafka})
        client.create_partitions([NewPartitions("followed", 3)])["followed"].result()
        sent(folder, "followed", [{"value": "new", "partition": 2}])
        assert value_of(following) == b"new"
        delete_topic(kafka, "followed", {})
        with pytest.raises(SourceError, match="topic 'followed' was deleted while it was read"):
            value_of(following)


def value_of(following: Iterator[list[TopicRecord]]) -> bytes | None:
    """None: nothing has come in a minute."""
    return next((record.value for records in following for record in records), None)
