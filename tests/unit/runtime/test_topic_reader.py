"""A reader of a topic says so when Kafka is away. What it reads is tested with a broker."""

import re

import pytest

from hourline_core.errors import BrokerError, KafkaAwayError
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
    with pytest.raises(BrokerError, match=r"to read topic 'clicks': .*security\.protocol"):
        TopicReader("127.0.0.1:1", "clicks", "its id", {"security.protocol": "telepathy"})
