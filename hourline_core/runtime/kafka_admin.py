"""Kafka's admin client, with short time limits and errors that say what to do."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

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
_WITHOUT_LEADER = {
    KafkaError.BROKER_NOT_AVAILABLE,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_CONTROLLER,
    KafkaError.NOT_LEADER_FOR_PARTITION,
}
_FORBIDDEN = {
    KafkaError._AUTHENTICATION,
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
}


@contextmanager
def admin(
    bootstrap: str, client_options: Mapping[str, str], doing: str, seconds: float = TIMEOUT_SECONDS
) -> Iterator[AdminClient]:
    """An admin client for the Kafka at ``bootstrap``. ``client_options`` are those of librdkafka.

    ``seconds`` is the time limit of the calls in the block, for the message. Raises BrokerError for any error of Kafka
    or the client in the block: KafkaAwayError, KafkaForbidsError, or another refusal. Its message contains ``doing``,
    such as "create topic 'x'".
    """
    # The client reports only here why it cannot connect, such as a wrong password. The call itself just times out.
    reported: list[KafkaError] = []
    try:
        client = AdminClient(
            {**client_options, "bootstrap.servers": bootstrap, "log_level": 0}, error_cb=reported.append
        )
    except KafkaException as error:
        raise _broker_error(error.args[0], reported, bootstrap, doing, seconds) from error
    try:
        yield client
    except KafkaException as error:
        client.poll(0)
        raise _broker_error(error.args[0], reported, bootstrap, doing, seconds) from error


def _broker_error(
    error: KafkaError, reported: list[KafkaError], bootstrap: str, doing: str, seconds: float
) -> BrokerError:
    if error.code() not in _NOT_REACHED:
        away = KafkaAwayError if error.code() in _WITHOUT_LEADER else BrokerError
        refused = KafkaForbidsError if error.code() in _FORBIDDEN else away
        return refused(f"Kafka at {bootstrap} refused to {doing}: {error.str()}")
    causes = [one for one in reported if one.code() != KafkaError._ALL_BROKERS_DOWN]
    cause = causes[-1] if causes else error
    unreached = KafkaForbidsError if cause.code() in _FORBIDDEN else KafkaAwayError
    return unreached(
        f"Kafka at {bootstrap} did not answer within {seconds:.0f} seconds, to {doing}: {cause.str()}; "
        "start it, or change kafka.bootstrap and kafka.options in hourline.yaml"
    )
