"""What Kafka answers while a partition changes its leader is asked again, and is no refusal. Where it does not answer,
another client asks next time.
"""

import pytest
from confluent_kafka import KafkaError, KafkaException

from hourline_core.errors import KafkaAwayError
from hourline_core.runtime.kafka_admin import KeptAdmin, broker_error
from hourline_core.runtime.topics import retry

BETWEEN_LEADERS = [
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.KAFKA_STORAGE_ERROR,
]


@pytest.mark.parametrize("code", BETWEEN_LEADERS)
def test_an_answer_between_two_leaders_is_asked_for_again(code: int) -> None:
    failures = [KafkaException(KafkaError(code))]

    def ask() -> int:
        if failures:
            raise failures.pop()
        return 7

    assert retry(ask) == 7


@pytest.mark.parametrize("code", BETWEEN_LEADERS)
def test_a_partition_that_stays_without_a_leader_is_a_kafka_that_is_away(code: int) -> None:
    assert type(broker_error(KafkaError(code), [], "broker-1:9092", "tell the offsets", 5.0)) is KafkaAwayError


def test_after_a_request_that_got_no_answer_another_client_asks() -> None:
    kept, asked = KeptAdmin("127.0.0.1:1", {}), []
    for _ in range(2):
        with pytest.raises(KafkaAwayError), kept.asking("list topics", 0.1) as client:
            asked.append(client)
            client.list_topics(timeout=0.1)
    assert asked[0] is not asked[1], "it knows a leader that has died"
