"""What a transactional replay says of records whose transaction was not committed: each is counted once."""

from typing import cast

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from hourline.replay.deliveries import Deliveries
from hourline.replay.transactions import Transactions


class Kafka:
    """Stands in for a producer. A commit fails with ``error``."""

    def __init__(self, error: KafkaError | None = None) -> None:
        self.error = error

    def begin_transaction(self) -> None: ...
    def flush(self) -> None: ...
    def abort_transaction(self, seconds: float) -> None: ...

    def commit_transaction(self, seconds: float) -> None:
        if self.error:
            raise KafkaException(self.error)


def told(sent: int, too_large: list[int], error: KafkaError | None = None) -> str:
    """What is said of a transaction of which ``sent`` records were confirmed and these lines were too large."""
    deliveries = Deliveries()
    transactions = Transactions(cast(Producer, Kafka(error)), deliveries, lambda: 0.0)
    transactions.begin()
    for line in range(sent):
        deliveries.report(line, None)
    for line in too_large:
        deliveries.report(line, KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, "too large"))
    transactions.end(commit=True)
    return str(deliveries.error("kafka:9092", "orders"))


def test_a_record_of_an_aborted_transaction_is_counted_once() -> None:
    aborted = "1,500 records: it was in a transaction that was aborted"
    assert told(1500, [1500]).endswith(f"(line 1500: too large; {aborted})")
    lines = "; ".join(f"line {line}: too large" for line in range(1500, 1503))
    assert told(1500, [*range(1500, 1504)]).endswith(f"({lines}; and 1,501 more)")


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (KafkaError(KafkaError._TIMED_OUT, "timed out", retriable=True), "may not have been committed: timed out"),
        (KafkaError(KafkaError._FENCED, "fenced", fatal=True), "was not committed: fenced"),
    ],
)
def test_a_commit_whose_outcome_is_not_known_is_not_called_a_failure(error: KafkaError, outcome: str) -> None:
    assert f"(1,500 records: the transaction {outcome})" in told(1500, [], error)
