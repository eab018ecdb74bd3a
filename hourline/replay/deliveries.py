"""Counts Kafka's answers to the records of a replay."""

from confluent_kafka import KafkaError, Message

from hourline_core.errors import DeliveryError
from hourline_core.runtime.kafka_admin import FORBIDDEN

_EXAMPLES = 3
# These errors concern one record. After any other error, the next records would fail, too.
_OF_ONE_RECORD = {
    KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError.INVALID_MSG,
    KafkaError.INVALID_RECORD,
    KafkaError._UNKNOWN_PARTITION,
}


class Deliveries:
    """Counts the records that Kafka confirmed, and keeps the errors of the first others."""

    def __init__(self) -> None:
        self.sent = 0
        self.failed = 0
        self.hopeless = False
        """Whether an error means that all further records would fail, too."""
        self.purged = False
        """Whether the client itself has given records up."""
        self._forbidden = False
        """Whether an error means that this user may not write to the topic."""
        self._examples: list[str] = []
        self._told = 0
        """The number of records that the examples are about."""
        self._kept = 0
        """The number of confirmed records that a failure does not take back."""

    def report(self, line: int, error: KafkaError | None, message: Message | None = None) -> None:
        """Count the answer to the record of ``line``. This is the producer's delivery callback."""
        if error is None:
            self.sent += 1
        else:
            self.fail(line, error.str())
            self.purged = self.purged or error.code() == KafkaError._PURGE_QUEUE
            if error.code() not in _OF_ONE_RECORD:
                self.give_up(error)

    def give_up(self, error: KafkaError) -> None:
        """Note an error after which all further records would fail, too."""
        self.hopeless = True
        self._forbidden = self._forbidden or error.code() in FORBIDDEN

    def fail(self, line: int, reason: str) -> None:
        """Count the record of ``line`` as not delivered."""
        self.failed += 1
        if len(self._examples) < _EXAMPLES:
            self._examples.append(f"line {line}: {reason}")
            self._told += 1

    def keep(self) -> None:
        """Count what was confirmed so far for good."""
        self._kept = self.sent

    def take_back(self, reason: str) -> None:
        """Count what was confirmed since as not delivered."""
        if taken := self.sent - self._kept:
            self.sent, self.failed = self._kept, self.failed + taken
            if len(self._examples) < _EXAMPLES:
                self._examples.append(f"{taken:,} records: {reason}")
                self._told += taken

    def error(self, bootstrap: str, topic: str) -> DeliveryError:
        """The error to raise when records failed."""
        more = self.failed - self._told
        which = "; ".join(self._examples) + (f"; and {more:,} more" if more else "")
        remedy = f"check that Kafka at {bootstrap} is up"
        if self._forbidden:
            remedy = f"give this user of Kafka at {bootstrap} the right WRITE on that topic"
        given_up = f"; later records were not sent: {remedy}" if self.hopeless else ""
        error = DeliveryError(
            f"{self.failed:,} records were not delivered to topic '{topic}' and {self.sent:,} were ({which}){given_up}"
        )
        error.retryable = not self._forbidden
        return error
