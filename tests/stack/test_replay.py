"""What a replay sends: every record once, in order, at its pace; and what is not delivered is said."""

import json
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Message, TopicPartition

from hourline.replay import producer
from hourline.replay.pacing import at_speed
from hourline.replay.producer import Compression
from hourline.replay.replay_file import replay_file
from hourline.replay.sending import Delivered, Progress, replay
from hourline_core.errors import BrokerError, DeliveryError, UsageError
from hourline_core.formats.files.record import Record
from hourline_core.model import Field
from hourline_core.runtime.broker import Broker
from hourline_core.runtime.topics import ensure_topic, topic_offsets
from tests.support.records import record
from tests.support.speed_process import PATIENCE

PARTITIONS = 3


# Kafka


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with Broker(tmp_path_factory.mktemp("replay")) as broker:
        yield broker.bootstrap


@pytest.fixture
def topic(bootstrap: str, request: pytest.FixtureRequest) -> str:
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)[-200:]
    ensure_topic(bootstrap, name, PARTITIONS, {})
    return name


def consume(bootstrap: str, topic: str) -> dict[int, list[Message]]:
    """All that is in the topic, by partition."""
    offsets = topic_offsets(bootstrap, topic, {})
    remaining = sum(latest - earliest for earliest, latest in offsets.values())
    found: dict[int, list[Message]] = defaultdict(list)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "test", "check.crcs": True})
    try:
        consumer.assign([TopicPartition(topic, partition, earliest) for partition, (earliest, _) in offsets.items()])
        while remaining:
            messages = consumer.consume(remaining, timeout=PATIENCE)
            assert messages, f"{remaining} records are missing"
            for message in messages:
                assert message.error() is None
                found[message.partition() or 0].append(message)
            remaining -= len(messages)
    finally:
        consumer.close()
    return found


def committed(bootstrap: str, topic: str) -> list[Message]:
    """The committed records of partition 0."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "test", "enable.partition.eof": True})
    found: list[Message] = []
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        while (message := consumer.poll(30)) is not None and message.error() is None:
            found.append(message)
    finally:
        consumer.close()
    return found


def values(messages: list[Message]) -> list[bytes | str | None]:
    return [message.value() for message in messages]


@pytest.mark.parametrize(
    "compression",
    ["none", "lz4", *(pytest.param(codec, marks=pytest.mark.long) for codec in ("gzip", "snappy", "zstd"))],
)
def test_every_line_arrives_once_and_unchanged_with_its_key_in_the_order_of_its_partition(
    bootstrap: str, topic: str, tmp_path: Path, compression: Compression
) -> None:
    lines = [json.dumps({"n": number, "k": f"key {number % 7}"}).encode() for number in range(20_000)]
    lines[10], lines[11] = b"\xff garbage", b""
    (tmp_path / "events.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    delivered = replay_file(
        str(tmp_path / "events.jsonl"),
        bootstrap=bootstrap,
        topic=topic,
        client_options={},
        key="k",
        compression=compression,
    )
    assert delivered == Delivered(20_000, interrupted=False)
    found = consume(bootstrap, topic)
    assert sorted(value for messages in found.values() for value in values(messages)) == sorted(lines)  # type: ignore[type-var] # bytes all
    homes: dict[object, set[int]] = defaultdict(set)
    for partition, messages in found.items():
        keyed = [
            (message.key(), json.loads(message.value() or b"")) for message in messages if message.key() is not None
        ]
        assert [event["n"] for _, event in keyed] == sorted(event["n"] for _, event in keyed)
        for key, event in keyed:
            assert key == event["k"].encode()
            homes[key].add(partition)
    assert len(homes) == 7
    assert all(len(partitions) == 1 for partitions in homes.values())


def test_an_ordered_csv_arrives_in_the_order_of_its_column_in_the_partitions_it_names(
    bootstrap: str, topic: str, tmp_path: Path
) -> None:
    rows = [(number * 7919 % 1000, number % PARTITIONS) for number in range(1000)]
    file = tmp_path / "events.csv"
    file.write_text("n,p\n" + "".join(f"{n},{p}\n" for n, p in rows), encoding="utf-8")
    replay_file(
        str(file),
        bootstrap=bootstrap,
        topic=topic,
        client_options={},
        order_by="n",
        partition="p",
        fields={"n": Field(type="int"), "p": Field(type="string")},
    )
    found = consume(bootstrap, topic)
    for partition in range(PARTITIONS):
        expected = [f'{{"n":{n},"p":"{p}"}}'.encode() for n, p in sorted(rows) if p == partition]
        assert values(found[partition]) == expected


def test_a_paced_replay_waits_by_its_clock_and_tells_the_time_it_has_reached(bootstrap: str, topic: str) -> None:
    # Each look at this clock takes it on by a second, so that a replay of a century ends at once, and needs the looks
    # it needs.
    seconds = iter(range(10**9))
    progress: list[Progress] = []
    events = [record(year, at=f"{year}-01-01", partition=1) for year in range(1900, 2001)]
    delivered = replay(
        events,
        bootstrap=bootstrap,
        topic=topic,
        client_options={"client.id": "test"},
        pace=at_speed(1e8, "at"),
        on_progress=progress.append,
        clock=lambda: float(next(seconds)),
    )
    assert delivered.sent == len(events) == len(consume(bootstrap, topic)[1])
    assert next(seconds) > 100 * 365 * 86400 / 1e8
    assert progress[-1] == Progress(len(events), 946684800_000_000)


def test_records_that_kafka_refuses_for_themselves_are_named_and_the_others_delivered(
    bootstrap: str, topic: str
) -> None:
    events = [
        record(1),
        record(2, b"x" * 2_000_000),
        record(3, partition=PARTITIONS),
        record(4, partition=None),
        record(5, b"x" * 2_000_000),
        record(6),
    ]
    with pytest.raises(DeliveryError) as caught:
        replay(events, bootstrap=bootstrap, topic=topic, client_options={})
    message = str(caught.value)
    assert message.startswith(f"4 records were not delivered to topic '{topic}' and 2 were (line 2: ")
    assert "Unknown partition; line 4: it does not name its partition" in message
    assert message.endswith("; and 1 more)")
    assert sum(map(len, consume(bootstrap, topic).values())) == 2


def test_a_transactional_replay_is_committed_in_parts_and_aborts_the_one_that_fails(bootstrap: str, topic: str) -> None:
    # Each transaction leaves a marker in the partition, at an offset without a record.
    sent = replay(
        (record(n, partition=0) for n in range(25_000)),
        bootstrap=bootstrap,
        topic=topic,
        client_options={},
        transactional=True,
    )
    assert sent == Delivered(25_000, interrupted=False)
    _, end = topic_offsets(bootstrap, topic, {})[0]
    assert 25_003 <= end < 25_100
    assert len(committed(bootstrap, topic)) == 25_000

    def failing() -> Iterator[Record]:
        yield from (record(n, partition=0) for n in range(1_500))
        yield record(1_500, b"x" * 2_000_000, partition=0)
        yield from (record(n, partition=0) for n in range(1_501, 10**9))

    with pytest.raises(DeliveryError, match=r"and 0 were \(line 1500: .*1,500 records: it was in a transaction"):
        replay(failing(), bootstrap=bootstrap, topic=topic, client_options={}, transactional=True)
    _, after = topic_offsets(bootstrap, topic, {})[0]
    assert after > end + 1_500, "they are there, and aborted"
    assert len(committed(bootstrap, topic)) == 25_000


def test_a_file_that_turns_out_unsound_in_its_middle_says_how_much_was_sent(bootstrap: str, topic: str) -> None:
    def events() -> Iterator[Record]:
        yield from map(record, range(1, 6))
        raise UsageError("the file is broken")

    with pytest.raises(UsageError, match="the file is broken; 5 records were sent before that"):
        replay(events(), bootstrap=bootstrap, topic=topic, client_options={})
    assert sum(map(len, consume(bootstrap, topic).values())) == 5


def test_a_replay_that_is_stopped_delivers_what_is_under_way(bootstrap: str, topic: str) -> None:
    handed_over = []

    def events() -> Iterator[Record]:
        for line in range(1, 10**9):
            handed_over.append(line)
            yield record(line)

    delivered = replay(
        events(), bootstrap=bootstrap, topic=topic, client_options={}, stopped=lambda: len(handed_over) > 1234
    )
    assert delivered == Delivered(1234, interrupted=True)
    assert sum(map(len, consume(bootstrap, topic).values())) == 1234


SLOWLY = """
import sys
from hourline.replay.replay_file import replay_file
print(replay_file(sys.argv[1], bootstrap=sys.argv[2], topic=sys.argv[3], client_options={}, rate=20))
"""


def test_ctrl_c_ends_a_replay_with_the_number_that_was_sent(bootstrap: str, topic: str, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"{}\n" * 100_000)
    command = [sys.executable, "-c", SLOWLY, str(tmp_path / "a.jsonl"), bootstrap, topic]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            while not any(latest for _, latest in topic_offsets(bootstrap, topic, {}).values()):
                assert process.poll() is None
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=600)
        finally:
            process.kill()
    sent = sum(map(len, consume(bootstrap, topic).values()))
    assert out == f"Delivered(sent={sent}, interrupted=True)\n"
    assert err.startswith(f"sent {sent} of 100,000 records to topic '{topic}'")
    assert process.returncode == 0


def test_a_missing_topic_is_named_with_a_near_one(bootstrap: str, topic: str) -> None:
    with pytest.raises(BrokerError, match=f"has no topic '{topic}s'.* — did you mean '{topic}'"):
        replay([], bootstrap=bootstrap, topic=topic + "s", client_options={})


def test_a_broker_that_dies_ends_the_replay_with_what_was_delivered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer, "_DELIVERED_WITHIN_SECONDS", 3)
    confirmed: list[int] = []
    with Broker(tmp_path) as broker:
        ensure_topic(broker.bootstrap, "flights", PARTITIONS, {})

        def events() -> Iterator[Record]:
            for line in range(1, 10**9):
                if line == 50_001:
                    broker.__exit__(None, None, None)
                yield record(line, b"x" * 100)

        with pytest.raises(DeliveryError) as caught:
            replay(
                events(),
                bootstrap=broker.bootstrap,
                topic="flights",
                client_options={},
                on_progress=lambda progress: confirmed.append(progress.sent),
            )
    message = str(caught.value)
    assert f" and {confirmed[-1]:,} were (line " in message
    assert "later records were not sent: check that Kafka at" in message
    with Broker(tmp_path) as broker:
        arrived = sum(latest for _, latest in topic_offsets(broker.bootstrap, "flights", {}).values())
    assert arrived >= confirmed[-1]
