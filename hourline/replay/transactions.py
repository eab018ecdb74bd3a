"""The transactions of a replay: a bounded number of records each, committed as a whole or aborted."""

from collections.abc import Callable
from contextlib import suppress

from confluent_kafka import KafkaException, Producer

from hourline.replay.deliveries import Deliveries
from hourline_core.runtime.kafka_admin import kafka_error_of

_RECORDS = 10_000
"""The maximum number of records of a transaction."""

_SECONDS = 1.0
"""The time after which a transaction is committed, if its records come slowly. Kafka aborts it after a minute."""

_SECONDS_TO_END = 30.0


class Transactions:
    """Begins a transaction with the first record that is sent after the last one. ``clock`` returns seconds; only
    differences matter.
    """

    def __init__(self, producer: Producer, deliveries: Deliveries, clock: Callable[[], float]) -> None:
        self._producer, self._deliveries, self._clock = producer, deliveries, clock
        self._open = False
        self._records = 0
        self._began = 0.0

    def begin(self) -> None:
        """Begin a transaction, unless one is open. Raises KafkaException."""
        if not self._open:
            self._producer.begin_transaction()
            self._open, self._records, self._began = True, 0, self._clock()

    def count_record(self) -> None:
        """Count a record that was handed over in the open transaction."""
        self._records += 1

    def commit_if_due(self) -> None:
        """Commit the open transaction if it has its records, or its time is over."""
        if self._open and (self._records >= _RECORDS or self._clock() - self._began >= _SECONDS):
            self.end(commit=True)

    def end(self, commit: bool) -> None:
        """End the open transaction, if there is one. It is aborted if one of its records has failed, or unless
        ``commit``.
        """
        if not self._open:
            return
        self._open = False
        try:
            self._producer.flush()
            # Where the client itself has given records up, the commit fails, and it alone tells why.
            if self._deliveries.purged or (commit and not self._deliveries.failed):
                self._producer.commit_transaction(_SECONDS_TO_END)
                self._deliveries.keep()
                return
        except (KafkaException, SystemError) as error:
            told = kafka_error_of(error)
            self._deliveries.give_up(told)
            # After a time-out, for example, Kafka may have committed it all the same.
            outcome = "may not have been" if told.retriable() else "was not"
            reason = f"the transaction {outcome} committed: {told.str()}"
        else:
            reason = "it was in a transaction that was aborted"
        # A Kafka that is away aborts it by itself, after a minute.
        with suppress(KafkaException):
            self._producer.abort_transaction(_SECONDS_TO_END)
        self._deliveries.take_back(reason)
