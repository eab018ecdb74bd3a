"""Single records of Kafka, read from the broker that Kafka's client simulates in this process."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from hourline_core.runtime.kafka_records import KafkaRecord, record_times, records_at

SENT = 1_772_445_600_123


@pytest.fixture
def producer() -> Iterator[Producer]:
    """It holds the broker."""
    yield Producer({"bootstrap.servers": "", "test.mock.num.brokers": 1, "log_level": 0})


@pytest.mark.parametrize("milliseconds", [SENT * 1_000_000, 253_402_300_800_000])
def test_a_timestamp_outside_the_calendar_is_none(producer: Producer, milliseconds: int) -> None:
    (broker,) = producer.list_topics("taps", timeout=10).brokers.values()
    kafka = f"{broker.host}:{broker.port}"
    for timestamp in (milliseconds, SENT):
        producer.produce("taps", b"{}", b"k", 0, timestamp=timestamp)
    assert producer.flush(10) == 0
    strange = records_at(kafka, {}, "hourline", {("taps", 0): 0}, seconds=10)
    assert strange == {("taps", 0): KafkaRecord(None, b"k", b"{}", {})}
    assert record_times(kafka, "taps", {0: 0}, {}, seconds=10) == {}
    ((_, usual),) = records_at(kafka, {}, "hourline", {("taps", 0): 1}, seconds=10).items()
    assert usual.timestamp is not None
    assert round(usual.timestamp.timestamp() * 1000) == SENT
