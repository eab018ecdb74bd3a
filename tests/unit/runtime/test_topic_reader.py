"""A reader of a topic says so when Kafka is away. What it reads is tested with a broker."""

import re
from collections.abc import Sequence
from itertools import count, islice
from types import SimpleNamespace

import pytest
from confluent_kafka import Message, Producer, TopicPartition

from hourline_core.errors import BrokerError, KafkaAwayError
from hourline_core.runtime import topic_reader
from hourline_core.runtime.ports import free_ports
from hourline_core.runtime.topic_reader import TopicReader


@pytest.mark.parametrize("follow", [False, True])
def test_a_kafka_that_is_away_ends_a_read(follow: bool) -> None:
    nobody = f"127.0.0.1:{free_ports(1)[0]}"
    with TopicReader(nobody, "clicks", "its id", {}, seconds=1) as reader:
        reading = reader.follow({0: 0}) if follow else reader.read({0: 0}, {0: 5})
        with pytest.raises(KafkaAwayError, match=re.escape(f"Kafka at {nobody} did not answer within 1 seconds, to ")):
            assert not any(reading), "it reads nothing"


def test_a_reader_that_is_stopped_reads_nothing() -> None:
    with TopicReader("127.0.0.1:1", "clicks", "its id", {}, stopped=lambda: True) as reader:
        assert [*reader.read({0: 0}, {0: 5}), *reader.follow({0: 0})] == []
        assert reader.read_last({0: 0}, {0: 5}, 10) == []


def test_client_options_that_kafka_does_not_take_are_named() -> None:
    with pytest.raises(BrokerError, match=r"Kafka's client does not take its options: .*security\.protocol"):
        TopicReader("127.0.0.1:1", "clicks", "its id", {"security.protocol": "telepathy"})


class HalfAwake:
    """A client of a Kafka of which partition 1 does not answer, while partition 0 gets records without an end."""

    now = 0.0
    """Its clock: an answer takes a tenth of a second."""

    def __init__(self, settings: object) -> None:
        self._offsets = count()

    def assign(self, partitions: Sequence[TopicPartition]) -> None:
        """Nothing needs to be kept."""

    def incremental_unassign(self, partitions: Sequence[TopicPartition]) -> None:
        """What was fetched before still comes."""

    def consume(self, number: int, seconds: float) -> list[Message]:
        HalfAwake.now += 0.1
        return [Message(topic="clicks", partition=0, offset=next(self._offsets), value=b"a")]

    def close(self) -> None:
        """There is nothing to close."""


def test_a_partition_that_is_done_does_not_hide_one_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_reader, "Consumer", HalfAwake)
    monkeypatch.setattr(topic_reader, "time", SimpleNamespace(monotonic=lambda: HalfAwake.now))
    with TopicReader("kafka:9092", "clicks", "its id", {}, seconds=10) as reader:
        reading = reader.read({0: 0, 1: 0}, {0: 2, 1: 5})
        with pytest.raises(KafkaAwayError, match="did not answer within 10 seconds, to read topic 'clicks'"):
            assert len(list(islice(reading, 1_000))) < 1_000, "it waits without an end"


def test_partitions_that_were_done_are_read_further_when_they_are_followed() -> None:
    producer = Producer({"bootstrap.servers": "", "test.mock.num.brokers": 1, "log_level": 0})
    (at,) = producer.list_topics("clicks", timeout=10).brokers.values()
    for number in range(4):
        producer.produce("clicks", str(number).encode(), partition=0)
    assert producer.flush(10) == 0
    with TopicReader(f"{at.host}:{at.port}", "clicks", "its id", {}, seconds=10) as reader:
        assert [one.value for one in reader.read_last({0: 0}, {0: 3}, 1)] == [b"2"]
        assert [one.value for one in reader.read_last({0: 0}, {0: 3}, 2)] == [b"1", b"2"]
        assert next(one.value for records in reader.follow({0: 3}) for one in records) == b"3"
