"""Reads the committed records of a topic, in the order of each partition. No offset is committed."""

import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, Self

from confluent_kafka import (
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from hourline_core.errors import BrokerError, SourceError
from hourline_core.runtime.kafka_admin import OF_GROUP, TIMEOUT_SECONDS, broker_error
from hourline_core.runtime.kafka_facts import KafkaFacts
from hourline_core.runtime.kafka_records import as_bytes

_GROUP = "hourline"
"""The client wants a name."""
_AT_ONCE = 500
_POLL_SECONDS = 0.25
_LOOK_SECONDS = 2.0
_WIDER = 8
_TIMESTAMP_TYPES: dict[int, Literal["create", "log_append"]] = {
    TIMESTAMP_CREATE_TIME: "create",
    TIMESTAMP_LOG_APPEND_TIME: "log_append",
}
_GONE = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.UNKNOWN_TOPIC_ID, KafkaError._UNKNOWN_TOPIC}


@dataclass(frozen=True, slots=True)
class TopicRecord:
    """A record of a topic."""

    topic: str
    partition: int
    offset: int
    timestamp: int | None
    """In milliseconds since 1970 in UTC. None: it has none."""
    timestamp_type: Literal["create", "log_append"] | None
    """Whether the producer or the broker has set it."""
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    """All of them, also several with one name, in their order."""


class TopicReader:
    """Reads records of ``topic``. ``client_options`` are those of librdkafka. Once ``stopped`` says so, reading ends.

    All methods raise BrokerError when Kafka is away for ``seconds``, and SourceError when the topic is no more that of
    ``topic_id``.
    """

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        topic_id: str,
        client_options: Mapping[str, str],
        stopped: Callable[[], bool] = lambda: False,
        seconds: float = TIMEOUT_SECONDS,
    ) -> None:
        self._bootstrap, self._topic, self._topic_id, self._stopped = bootstrap, topic, topic_id, stopped
        self._reported: deque[KafkaError] = deque(maxlen=10)
        self._seconds = seconds
        self._facts = KafkaFacts(bootstrap, client_options, _GROUP, seconds)
        settings: dict[str, object] = {
            **client_options,
            "bootstrap.servers": bootstrap,
            "group.id": _GROUP,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
            "log_level": 0,
            "error_cb": self._reported.append,
        }
        try:
            self._consumer = Consumer(settings)
        except KafkaException as error:
            raise self._error(error.args[0]) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._consumer.close()

    def read(self, starts: Mapping[int, int], ends: Mapping[int, int]) -> Iterator[list[TopicRecord]]:
        """The records from the offset ``starts`` of each partition up to its offset ``ends``, in lists."""
        waiting = {partition for partition, start in starts.items() if start < ends[partition]}
        self._assign({partition: starts[partition] for partition in waiting})
        last_came = time.monotonic()
        while waiting and not self._stopped():
            records: list[TopicRecord] = []
            for message in self._poll():
                partition, offset = message.partition(), message.offset()
                assert partition is not None
                assert offset is not None
                if partition not in waiting:
                    continue
                last_came = time.monotonic()
                if message.error() is None and offset < ends[partition]:
                    records.append(_record_of(message))
                # Markers of transactions at the end are no messages: then it is the end of the partition that comes.
                if message.error() is not None or offset >= ends[partition] - 1:
                    waiting.discard(partition)
                    self._consumer.incremental_unassign([TopicPartition(self._topic, partition)])
            yield records
            if time.monotonic() - last_came > self._seconds:
                raise self._error(KafkaError(KafkaError._TIMED_OUT))

    def read_last(self, begins: Mapping[int, int], ends: Mapping[int, int], count: int) -> list[TopicRecord]:
        """The last ``count`` records before the offset ``ends`` of each partition, one partition after the other."""
        found: dict[int, deque[TopicRecord]] = {}
        # Offsets may have no record, so it may be necessary to begin further ahead.
        ahead, left = count, set(ends)
        while left and not self._stopped():
            starts = {partition: max(begins[partition], ends[partition] - ahead) for partition in left}
            found |= {partition: deque(maxlen=count) for partition in left}
            for records in self.read(starts, ends):
                for record in records:
                    found[record.partition].append(record)
            left = {of for of in left if len(found[of]) < count and starts[of] > begins[of]}
            ahead *= _WIDER
        return [record for partition in sorted(found) for record in found[partition]]

    def follow(self, starts: Mapping[int, int], with_new: bool = True) -> Iterator[list[TopicRecord]]:
        """The records from the offset ``starts`` of each partition on, in lists, some of them empty, until stopped.
        ``with_new``: also those of partitions that the topic gets.
        """
        self._assign(starts)
        known = set(starts)
        looked = time.monotonic()
        while not self._stopped():
            yield [_record_of(message) for message in self._poll() if message.error() is None]
            if time.monotonic() - looked > _LOOK_SECONDS:
                there = set(range(self._look()))
                if with_new and (new := there - known):
                    self._add(new)
                    known |= new
                looked = time.monotonic()

    def _assign(self, starts: Mapping[int, int]) -> None:
        self._consumer.assign([TopicPartition(self._topic, partition, start) for partition, start in starts.items()])

    def _add(self, partitions: Collection[int]) -> None:
        """Read new partitions, too, from their beginning."""
        try:
            # The client takes a partition that it does not know of yet for a wrong one.
            self._consumer.list_topics(self._topic, self._seconds)
            self._consumer.incremental_assign([TopicPartition(self._topic, partition, 0) for partition in partitions])
        except KafkaException as error:
            raise self._error(error.args[0]) from error

    def _poll(self) -> list[Message]:
        """The next messages, of which some only say that a partition has ended."""
        messages = self._consumer.consume(_AT_ONCE, _POLL_SECONDS)
        if messages:
            self._reported.clear()  # It was about another connection.
        for message in messages:
            if (error := message.error()) is None or error.code() in (KafkaError._PARTITION_EOF, OF_GROUP):
                continue
            if error.code() in _GONE:
                raise SourceError(f"topic '{self._topic}' was deleted while it was read")
            raise self._error(error)
        return [message for message in messages if (error := message.error()) is None or error.code() != OF_GROUP]

    def _look(self) -> int:
        """The number of partitions. Kafka's client does not say that a topic has gone, nor that Kafka is away."""
        now = self._facts.topics([self._topic])[self._topic]
        if now is None or now.id != self._topic_id:
            became = "deleted" if now is None else "deleted and recreated"
            raise SourceError(f"topic '{self._topic}' was {became} while it was read")
        return now.partitions

    def _error(self, error: KafkaError) -> BrokerError:
        return broker_error(
            error, self._reported, self._bootstrap, f"read topic '{self._topic}'", self._seconds, "READ"
        )


def _record_of(message: Message) -> TopicRecord:
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None
    assert partition is not None
    assert offset is not None
    kind, milliseconds = message.timestamp()
    named: dict[str, str | bytes | None] | list[tuple[str, str | bytes | None]] = message.headers() or []
    pairs = named.items() if isinstance(named, dict) else named
    return TopicRecord(
        topic,
        partition,
        offset,
        milliseconds if kind in _TIMESTAMP_TYPES else None,
        _TIMESTAMP_TYPES.get(kind),
        as_bytes(message.key()),
        as_bytes(message.value()),
        tuple((name, as_bytes(value)) for name, value in pairs),
    )
