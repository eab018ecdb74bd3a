"""A compacted topic of Kafka: the newest value of each key is the result, and a tombstone says that it is gone.

Each part of a round is a transaction. Before the first one, the records since the last one that is noted are read, so
nothing is sent twice that a process has sent without noting it. Readers with ``read_committed`` get each change once.
"""

from collections import deque
from collections.abc import Sequence
from contextlib import suppress

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicCollection

from hourline_core.errors import BrokerError, SinkError
from hourline_core.model import Project, Sink
from hourline_core.runtime.compacted_topic import ensure_compacted_topic
from hourline_core.runtime.kafka import reachable_kafka
from hourline_core.runtime.kafka_admin import SILENT, TIMEOUT_SECONDS, KeptAdmin, broker_error, kafka_error_of
from hourline_core.runtime.topics import id_of
from serving_layer.sinks.record_format import RecordFormat
from serving_layer.sinks.result import Result
from serving_layer.sinks.sent_results import SentResults
from serving_layer.sinks.topic_records import OFFSETS, Owner, earlier_bytes_of, headers_of, key_of, read_sent_records

_SECONDS = 30.0
_MOST_BYTES = 1_000_000_000
"""The client's own limit of a record. The broker and the topic have theirs."""
_BATCH_BYTES = 1_000_000


class KafkaTopic:
    """A producer with transactions. Another one for the same sink puts an end to this one."""

    results_at_once = 10_000

    def __init__(self, project: Project, sink: Sink, format: RecordFormat, sent: SentResults) -> None:
        """Connect, and bring ``sent`` up to date. Raises BrokerError, and SinkError if the topic cannot be used."""
        assert sink.topic is not None
        self._topic, self._format = sink.topic, format
        self._owner = Owner(f"{project.identifier}/{sink.name}", format.name, format.key_front)
        self._kafka, options = reachable_kafka(project), project.settings.kafka.options
        self._there = ensure_compacted_topic(self._kafka, sink.topic, sink.partitions, options)
        # If it is another topic, or keys are written in another way, what it has is read.
        sent.begin(f"topic {self._there.id} {format.name} {format.key_front.hex()}".strip(), format.value_front.hex())
        self._admin = KeptAdmin(self._kafka, options)
        self._reported: deque[KafkaError] = deque(maxlen=10)
        self._refused: list[tuple[KafkaError, Message]] = []
        try:
            self._producer = Producer(
                {
                    **options,
                    "bootstrap.servers": self._kafka,
                    "transactional.id": f"hourline-sink-{self._owner.name}",
                    # As Java's producers do, so that Kafka Streams finds a key in the partition where it looks for it.
                    "partitioner": "murmur2_random",
                    "compression.type": "lz4",
                    "linger.ms": 5,
                    # The limit of the topic is one for all records that are sent at once.
                    "batch.size": min(_BATCH_BYTES, self._there.most_bytes),
                    "message.max.bytes": _MOST_BYTES,
                    "transaction.timeout.ms": int(_SECONDS * 1000),
                    "log_level": 0,
                    "error_cb": self._reported.append,
                },
                logger=SILENT,
            )
            # It ends the transactions of another producer, so whatever that has sent is decided on now.
            self._producer.init_transactions(_SECONDS)
        except KafkaException as error:
            raise self._error(error.args[0]) from None
        self._nexts = read_sent_records(self._kafka, options, sink.topic, self._owner, sent)

    def send(self, results: Sequence[Result], token: str, revision: int, sent: SentResults) -> None:
        """See ``Target``. All of them are sent, or none. After an error, this object is of no use."""
        self._refused.clear()
        self._reported.clear()
        try:
            self._producer.begin_transaction()
            for result in results:
                self._produce(result, token, revision)
                self._producer.poll(0)
            self._producer.flush()
            if self._refused:
                self._tell_why_purged()
                self._producer.abort_transaction(_SECONDS)
                raise self._refusal(self._refused[0][0])
            self._refuse_another_topic()
            self._producer.commit_transaction(_SECONDS)
        except (KafkaException, SystemError) as error:
            with suppress(KafkaException, SystemError):  # It raises a fatal error again.
                self._producer.poll(0)  # Of a record that was refused, a later one may tell.
            raise self._refusal(kafka_error_of(error)) from None
        sent.keep(results, revision, **{OFFSETS: self._nexts})

    def end_round(self, first_revision: int) -> None:
        """See ``Target``."""

    def close(self) -> None:
        """See ``Target``."""
        # A client that is dropped closes its connections, in a thread of its own.
        del self._producer

    def _produce(self, result: Result, token: str, revision: int) -> None:
        value = result.sent_value(token, revision)
        key = earlier_bytes_of(result) or self._format.key(result.key)
        while True:
            try:
                self._producer.produce(
                    self._topic,
                    key=key,
                    value=None if value is None else self._format.value(value),
                    headers=headers_of(self._owner, result, revision),
                    on_delivery=self._on_delivery,
                )
            except BufferError:  # Its queue is full.
                self._producer.poll(1)
            else:
                return

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._refused.append((error, message))
        else:
            self._nexts[message.partition() or 0] = (message.offset() or 0) + 1

    def _refuse_another_topic(self) -> None:
        """Raise SinkError if the topic was deleted and made again: the new one lacks what was sent before."""
        with self._admin.asking(f"describe topic '{self._topic}'") as client:
            described = client.describe_topics(TopicCollection([self._topic]), request_timeout=TIMEOUT_SECONDS)
            if id_of(described[self._topic].result()) == self._there.id:
                return
        self._producer.abort_transaction(_SECONDS)
        raise SinkError(f"topic '{self._topic}' was deleted and made again; all results are sent to the new one")

    def _tell_why_purged(self) -> None:
        """Raise KafkaException with the reason if the client itself has given the records up. Only the commit of the
        transaction, which has failed, tells it.
        """
        if self._refused[0][0].code() == KafkaError._PURGE_QUEUE:
            self._producer.commit_transaction(_SECONDS)

    def _refusal(self, error: KafkaError) -> Exception:
        """The error of results that were not taken. If one of them is too large, it names that."""
        too_large = [one for of, one in self._refused if of.code() == KafkaError.MSG_SIZE_TOO_LARGE]
        if not too_large:
            return self._error(error)
        message = max(too_large, key=lambda one: len(one.value() or b""))
        named, value = key_of(message), message.value() or b""
        return SinkError(
            f"topic '{self._topic}' did not take the result {named}: it has {len(value):,} bytes, which is more than "
            f"the broker takes; `max.message.bytes` of the topic allows more"
        )

    def _error(self, error: KafkaError) -> Exception:
        if error.code() in (KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH):
            return SinkError(
                f"another process sends to topic '{self._topic}' for the same sink; stop one of them, or give the "
                "project or the sink another name"
            )
        found: BrokerError = broker_error(
            error, self._reported, self._kafka, f"send results to topic '{self._topic}'", _SECONDS, "WRITE"
        )
        return found
