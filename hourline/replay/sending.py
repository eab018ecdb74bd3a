"""Sends records to a topic, each once, and reports the records that failed."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from uuid import uuid4

from confluent_kafka import KafkaException, Producer

from hourline.replay.deliveries import Deliveries
from hourline.replay.pacing import Pace, wait_until
from hourline.replay.producer import Compression, connect, error_of
from hourline.replay.transactions import Transactions
from hourline_core.errors import UsageError
from hourline_core.formats.files.record import Record, moment_of
from hourline_core.runtime.kafka_admin import FORBIDDEN, kafka_error_of

_RECORDS_PER_POLL = 1000
_SECONDS_PER_POLL = 1.0
"""Records that come slowly are not to wait for others until it is known that one of them failed."""
_POLL_SECONDS = 0.1


@dataclass(frozen=True)
class Progress:
    """The progress of a replay."""

    sent: int
    """Records that Kafka has confirmed."""
    moment: int | None
    """The time of the last record, from the order column: microseconds since 1970 in UTC."""


@dataclass(frozen=True)
class Delivered:
    """The result of a replay in which no record failed."""

    sent: int
    """Records that Kafka has confirmed."""
    interrupted: bool
    """Whether it was stopped before its last record."""


def replay(
    records: Iterable[Record],
    *,
    bootstrap: str,
    topic: str,
    client_options: Mapping[str, str],
    pace: Pace | None = None,
    compression: Compression = "lz4",
    transactional: bool = False,
    stopped: Callable[[], bool] = lambda: False,
    on_progress: Callable[[Progress], object] = lambda progress: None,
    clock: Callable[[], float] = time.monotonic,
) -> Delivered:
    """Send ``records`` to ``topic`` at their ``pace``, or as fast as possible, and wait until Kafka has confirmed them.

    With ``transactional``, they are sent in transactions of at most 10,000 records. A failure aborts the open one, and
    ends the replay.

    Each partition keeps their order. Those of files have no timestamps of their own: with event times in them, Kafka's
    retention would delete old records. ``stopped`` is called before each record. When it returns True, sending ends,
    and the records sent so far are still delivered. ``clock`` returns seconds; only differences matter.

    Raises BrokerError when Kafka cannot be reached or has no such topic. Raises DeliveryError when a record was not
    confirmed. A record that Kafka refuses, for example because it is too large, does not end the replay; one that could
    not be delivered within 30 s does. Raises the errors of ``records`` and ``pace``; a UsageError gets the number of
    records sent.
    """
    producer = connect(bootstrap, topic, client_options, compression, f"hourline-{uuid4()}" if transactional else None)
    deliveries = Deliveries()
    transactions = Transactions(producer, deliveries, clock) if transactional else None
    sending = _Sending(producer, topic, deliveries, transactions, on_progress)
    try:
        interrupted = sending.send(records, pace, stopped, clock)
        sending.finish()
    except UsageError as error:
        sending.finish(commit=False)
        raise UsageError(f"{error}; {sending.deliveries.sent:,} records were sent before that") from None
    except (KafkaException, SystemError) as error:  # Kafka takes nothing of this producer any more.
        told = kafka_error_of(error)
        if told.code() in FORBIDDEN or not sending.deliveries.failed:
            raise error_of(told, [], bootstrap, topic, _POLL_SECONDS) from error
        raise sending.deliveries.error(bootstrap, topic) from error
    if sending.deliveries.failed:
        raise sending.deliveries.error(bootstrap, topic)
    return Delivered(sending.deliveries.sent, interrupted)


class _Sending:
    def __init__(
        self,
        producer: Producer,
        topic: str,
        deliveries: Deliveries,
        transactions: Transactions | None,
        on_progress: Callable[[Progress], object],
    ) -> None:
        self.deliveries = deliveries
        self._producer = producer
        self._topic = topic
        self._transactions = transactions
        self._on_progress = on_progress
        self._moment: int | None = None

    def send(
        self, records: Iterable[Record], pace: Pace | None, stopped: Callable[[], bool], clock: Callable[[], float]
    ) -> bool:
        """Send the records, and return whether it was stopped before the last one."""
        start = polled = clock()

        def over() -> bool:
            failed = self._transactions is not None and self.deliveries.failed
            return bool(self.deliveries.hopeless or failed or stopped())

        for number, record in enumerate(records):
            if pace is not None:
                wait_until(start + pace(record), clock, self._serve, over)
            if over():
                return True
            self._hand_over(record)
            if record.rank is not None:
                self._moment = moment_of(record.rank)
            if number % _RECORDS_PER_POLL == 0 or clock() - polled >= _SECONDS_PER_POLL:
                self._serve(0)
                polled = clock()
        return False

    def finish(self, commit: bool = True) -> None:
        """Wait until each sent record is confirmed or failed, at most for the producer's time limit. Without
        ``commit``, the open transaction is aborted.
        """
        if self.deliveries.hopeless:
            self._producer.purge()
        while self._producer.flush(_POLL_SECONDS):
            self._serve(0)
        if self._transactions:
            self._transactions.end(commit)
        self._serve(0)

    def _hand_over(self, record: Record) -> None:
        if record.partition is None:
            self.deliveries.fail(record.line, "it does not name its partition, a whole number from 0")
            return
        confirm = partial(self.deliveries.report, record.line)
        while not self.deliveries.hopeless:
            try:
                if self._transactions:
                    self._transactions.begin()
                self._producer.produce(
                    self._topic,
                    record.payload,
                    record.key,
                    record.partition,
                    confirm,
                    timestamp=record.timestamp,
                    headers=list(record.headers),
                )
            except BufferError:  # the producer's queue is full until more records are confirmed
                self._serve(_POLL_SECONDS)
            except KafkaException as error:
                self.deliveries.report(record.line, error.args[0])
                return
            else:
                if self._transactions:
                    self._transactions.count_record()
                return

    def _serve(self, seconds: float) -> None:
        self._producer.poll(seconds)
        if self._transactions:
            self._transactions.commit_if_due()
        self._on_progress(Progress(self.deliveries.sent, self._moment))
