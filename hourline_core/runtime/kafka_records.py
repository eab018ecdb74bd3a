"""Reads single records of Kafka by their offsets, also those whose transaction is open or was aborted."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, KafkaError, KafkaException, Message, TopicPartition

from hourline_core.runtime.kafka_admin import OF_GROUP, TIMEOUT_SECONDS, broker_error

Partition = tuple[str, int]
"""A partition of a topic, by the topic's name."""

_NOTHING_THERE = {KafkaError._PARTITION_EOF, KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class KafkaRecord:
    """A record as it stands in Kafka."""

    timestamp: datetime | None
    """In UTC, of whole milliseconds. None: it has none, or one outside the years 1 to 9999."""
    key: bytes | None
    value: bytes | None
    headers: Mapping[str, bytes | None]
    """Of several with one name, the last."""


def records_at(
    bootstrap: str,
    client_options: Mapping[str, str],
    group: str,
    offsets: Mapping[Partition, int],
    seconds: float = TIMEOUT_SECONDS,
) -> dict[Partition, KafkaRecord]:
    """The records at ``offsets`` (by topic and partition). A partition is left out if it has none there.

    ``group`` is the name of a consumer group, of which no offset is committed. Raises BrokerError, also after
    ``seconds``.
    """
    reported: list[KafkaError] = []
    doing = "read records again"
    consumer = _consumer(bootstrap, client_options, group, seconds, doing, reported)
    found: dict[Partition, KafkaRecord] = {}
    waiting = set(offsets)
    deadline = time.monotonic() + seconds
    try:
        consumer.assign([TopicPartition(topic, number, offset) for (topic, number), offset in offsets.items()])
        while waiting:
            message = consumer.poll(max(0.0, deadline - time.monotonic()))
            if message is None:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
            error_met = message.error()
            if error_met is not None and error_met.code() == OF_GROUP:
                continue
            if error_met is not None and error_met.code() not in _NOTHING_THERE:
                raise KafkaException(error_met)
            of = _partition_of(message)
            if of in waiting:
                waiting.remove(of)
                consumer.pause([TopicPartition(*of, offsets[of])])
                if error_met is None and message.offset() == offsets[of]:
                    found[of] = _record_of(message)
    except KafkaException as error:
        raise broker_error(error.args[0], reported, bootstrap, doing, seconds, "READ") from error
    finally:
        consumer.close()
    return found


def record_times(
    bootstrap: str, topic: str, offsets: Mapping[int, int], client_options: Mapping[str, str], seconds: float
) -> dict[int, datetime]:
    """By partition, Kafka's timestamp (UTC) of the first record at or after an offset. A partition without such a
    record, or whose record has no such timestamp or has not come within ``seconds``, is left out.

    Raises BrokerError when the client refuses its options.
    """
    consumer = _consumer(bootstrap, client_options, "hourline", seconds, "look up when records were sent", [])
    found: dict[int, datetime] = {}
    waiting = set(offsets)
    deadline = time.monotonic() + seconds
    try:
        consumer.assign([TopicPartition(topic, partition, offset) for partition, offset in offsets.items()])
        while waiting and (left := deadline - time.monotonic()) > 0:
            message = consumer.poll(left)
            if message is None or (partition := message.partition()) not in waiting:
                continue
            if (failed := message.error()) is None and (sent := _timestamp_of(message)):
                found[partition] = sent
            if failed is None or failed.code() == KafkaError._PARTITION_EOF:
                waiting.discard(partition)
    finally:
        consumer.close()
    return found


def _consumer(
    bootstrap: str,
    client_options: Mapping[str, str],
    group: str,
    seconds: float,
    doing: str,
    reported: list[KafkaError],
) -> Consumer:
    """A consumer that reads few records. ``group`` is a name that the client wants: no offset is committed to it.
    ``reported`` gets what the client reports. Raises BrokerError when the client refuses its options.
    """
    settings: dict[str, object] = {
        **client_options,
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "error",
        # A record that was read had been committed. If it is not now, it is another record.
        "isolation.level": "read_uncommitted",
        "queued.min.messages": 1,  # Records behind these are of no use.
        "log_level": 0,
        "error_cb": reported.append,
    }
    try:
        return Consumer(settings)
    except KafkaException as error:
        raise broker_error(error.args[0], reported, bootstrap, doing, seconds) from error


def _partition_of(message: Message) -> Partition:
    topic, number = message.topic(), message.partition()
    assert topic is not None
    assert number is not None
    return topic, number


def _record_of(message: Message) -> KafkaRecord:
    headers: dict[str, str | bytes | None] = dict(message.headers() or ())
    return KafkaRecord(
        _timestamp_of(message),
        as_bytes(message.key()),
        as_bytes(message.value()),
        {name: as_bytes(value) for name, value in headers.items()},
    )


def _timestamp_of(message: Message) -> datetime | None:
    kind, milliseconds = message.timestamp()
    if kind == TIMESTAMP_NOT_AVAILABLE:
        return None
    try:
        return _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:  # Kafka allows any number.
        return None


def as_bytes(value: str | bytes | None) -> bytes | None:
    """A key or value, which the client's types allow to be text."""
    return value.encode() if isinstance(value, str) else value
