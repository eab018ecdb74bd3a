"""Kafka's admin client, with short time limits and errors that say what to do."""

import logging
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from hourline_core.errors import BrokerError, KafkaAwayError, KafkaForbidsError
from hourline_core.kafka_refusals import (
    explain_absence,
    explain_refusal_of_options,
    find_options_to_check,
    is_refusal,
    without_noise,
)

TIMEOUT_SECONDS = 10.0
_OF_OPTIONS = re.compile(r"^Failed to create|configuration property")
_NOT_REACHED = {
    KafkaError._TRANSPORT,
    KafkaError._TIMED_OUT,
    KafkaError._TIMED_OUT_QUEUE,
    KafkaError._MSG_TIMED_OUT,
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
_AGAIN_LATER = {
    *WITHOUT_LEADER,
    KafkaError.NOT_ENOUGH_REPLICAS,
    KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.NOT_COORDINATOR,
    KafkaError.THROTTLING_QUOTA_EXCEEDED,
}
"""Also while replicas are missing, a coordinator moves, or a quota is used up."""
_NOT_ALLOWED = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "that topic",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "that consumer group",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "that topic",  # A right on the cluster would do, too.
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "the transactional ids that begin with `hourline-`",
}
FORBIDDEN = {KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED, *_NOT_ALLOWED}

OF_GROUP = KafkaError.GROUP_AUTHORIZATION_FAILED
"""A consumer reports it, and goes on: it is told which partitions to read, and commits no offset. So a user needs no
right on its group.
"""

SILENT = logging.getLogger("hourline.kafka.client")
"""For producers: they write of fatal errors by themselves, whatever their level is."""
SILENT.addHandler(logging.NullHandler())
SILENT.propagate = False


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
    def asking(self, doing: str, seconds: float = TIMEOUT_SECONDS, right: str = "DESCRIBE") -> Iterator[AdminClient]:
        """The client, for requests in a block. ``seconds`` is their time limit, and ``right`` the one that they need,
        for the message.

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
            if self._client is client and error.args[0].code() not in _NOT_ALLOWED:
                self._client = None
            raise broker_error(error.args[0], self._reported, self._bootstrap, doing, seconds, right) from error


def admin(
    bootstrap: str,
    client_options: Mapping[str, str],
    doing: str,
    seconds: float = TIMEOUT_SECONDS,
    right: str = "DESCRIBE",
) -> AbstractContextManager[AdminClient]:
    """An admin client for one block. Its arguments and errors are those of ``KeptAdmin``."""
    return KeptAdmin(bootstrap, client_options).asking(doing, seconds, right)


def broker_error(
    error: KafkaError,
    reported: Iterable[KafkaError],
    bootstrap: str,
    doing: str,
    seconds: float,
    right: str = "DESCRIBE",
) -> BrokerError:
    """The error of a request to Kafka in words. ``reported`` is what the client has reported meanwhile, and ``right``
    the one that the request needs.
    """
    code = error.code()
    if code == KafkaError._INVALID_ARG and _OF_OPTIONS.search(error.str()):
        options = find_options_to_check(error.str())
        remedy = f"check {options} of kafka.options" if options else "change kafka.options"
        words = without_noise(error.str())
        return KafkaForbidsError(f"Kafka's client does not take its options: {words}; {remedy} in hourline.yaml")
    if code in _NOT_ALLOWED:
        return KafkaForbidsError(
            f"Kafka at {bootstrap} does not allow this user to {doing}; the user needs the right {right} on "
            f"{_NOT_ALLOWED[code]}"
        )
    if code not in _NOT_REACHED:
        away = KafkaAwayError if code in _AGAIN_LATER else BrokerError
        refused = KafkaForbidsError if code in FORBIDDEN else away
        return refused(f"Kafka at {bootstrap} refused to {doing}: {error.str()}")
    return _unreached([*reported], bootstrap, doing, seconds)


def _unreached(reported: list[KafkaError], bootstrap: str, doing: str, seconds: float) -> BrokerError:
    causes = [one for one in reported if one.code() != KafkaError._ALL_BROKERS_DOWN]
    for cause in reversed(causes):
        words = cause.str()
        about = explain_refusal_of_options(words) if is_refusal(words) else None
        if about is None and cause.code() in FORBIDDEN and is_refusal(words):
            about = without_noise(words)
        if about:
            return KafkaForbidsError(f"Kafka at {bootstrap} does not let this client in, to {doing}: {about}")
    last = causes[-1].str() if causes else None
    return KafkaAwayError(
        f"Kafka at {bootstrap} did not answer within {seconds:.0f} seconds, to {doing}: {explain_absence(last)}"
    )


def kafka_error_of(error: KafkaException | SystemError) -> KafkaError:
    """Kafka's error. Python makes a SystemError of a fatal one that is met while deliveries are told, and others of its
    own: they are raised again.
    """
    cause = error.__cause__ if isinstance(error, SystemError) else error
    if not isinstance(cause, KafkaException):
        raise error
    found: KafkaError = cause.args[0]
    return found
