"""Kafka's admin client, with short time limits and errors that say what to do."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from hourline_core.errors import BrokerError, KafkaAwayError, KafkaForbidsError

TIMEOUT_SECONDS = 10.0
_NOT_REACHED = {
    KafkaError._TRANSPORT,
    KafkaError._TIMED_OUT,
    KafkaError._TIMED_OUT_QUEUE,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._RESOLVE,
    KafkaError.REQUEST_TIMED_OUT,
}
WITHOUT_LEADER = {
    KafkaError.BROKER_NOT_AVAILABLE,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.KAFKA_STORAGE_ERROR,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_CONTROLLER,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.UNKNOWN_LEADER_EPOCH,
}
"""While a partition moves to another node, and until its new leader knows how far the copies are."""
FORBIDDEN = {
    KafkaError._AUTHENTICATION,
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
}


class KeptAdmin:
    """An admin client for the Kafka at ``bootstrap``, which stays connected until a request fails. ``client_options``
    are those of librdkafka.
    """

    def __init__(self, bootstrap: str, client_options: Mapping[str, str]) -> None:
        self._bootstrap = bootstrap
        # The client reports only here why it cannot connect, such as a wrong password. The call itself just times out.
        self._reported: deque[KafkaError] = deque(maxlen=10)
        self._options: dict[str, Any] = {
            "reconnect.backoff.max.ms": 1000,
            **client_options,
            "bootstrap.servers": bootstrap,
            "log_level": 0,
            "error_cb": self._reported.append,
        }
        self._client: AdminClient | None = None

    @contextmanager
    def asking(self, doing: str, seconds: float = TIMEOUT_SECONDS) -> Iterator[AdminClient]:
        """The client, for requests in a block. ``seconds`` is their time limit, for the message.

        Raises BrokerError for any error of Kafka or the client in the block: KafkaAwayError, KafkaForbidsError, or
        another refusal. Its message contains ``doing``, such as "create topic 'x'".
        """
        client = self._client  # several threads ask, and each of them may give the client up
        if client is not None:
            client.poll(0)  # what was reported since the last request
        self._reported.clear()
        try:
            if client is None:
                client = self._client = AdminClient(self._options)
            yield client
        except KafkaException as error:
            if client is not None:
                client.poll(0)
            # A client asks the leaders that it knows, also one that has died, and looks for others every five minutes.
            if self._client is client:
                self._client = None
            raise broker_error(error.args[0], self._reported, self._bootstrap, doing, seconds) from error


def admin(
    bootstrap: str, client_options: Mapping[str, str], doing: str, seconds: float = TIMEOUT_SECONDS
) -> AbstractContextManager[AdminClient]:
    """An admin client for one block. Its arguments and errors are those of ``KeptAdmin``."""
    return KeptAdmin(bootstrap, client_options).asking(doing, seconds)


def broker_error(
    error: KafkaError, reported: Iterable[KafkaError], bootstrap: str, doing: str, seconds: float
) -> BrokerError:
    """The error of a request to Kafka in words. ``reported`` is what the client has reported meanwhile."""
    if error.code() not in _NOT_REACHED:
        away = KafkaAwayError if error.code() in WITHOUT_LEADER else BrokerError
        refused = KafkaForbidsError if error.code() in FORBIDDEN else away
        return refused(f"Kafka at {bootstrap} refused to {doing}: {error.str()}")
    causes = [one for one in reported if one.code() != KafkaError._ALL_BROKERS_DOWN]
    cause = causes[-1] if causes else error
    unreached = KafkaForbidsError if cause.code() in FORBIDDEN else KafkaAwayError
    return unreached(
        f"Kafka at {bootstrap} did not answer within {seconds:.0f} seconds, to {doing}: {cause.str()}; "
        "start it, or change kafka.bootstrap and kafka.options in hourline.yaml"
    )
