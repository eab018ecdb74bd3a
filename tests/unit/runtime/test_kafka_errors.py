"""What Kafka answers while a partition changes its leader is asked again, and is no refusal. Where it does not answer,
another client asks next time.
"""

import pytest
from confluent_kafka import KafkaError, KafkaException

from hourline_core.errors import KafkaAwayError, KafkaForbidsError
from hourline_core.runtime.kafka_admin import KeptAdmin, broker_error
from hourline_core.runtime.topics import retry

OWN = "ssl.certificate.location and ssl.key.location"
USER = "sasl.username, sasl.password and sasl.mechanism"
CLIENT = "sasl.oauthbearer.client.id and sasl.oauthbearer.client.secret"
BROKEN = {"security.protocol": "SSL", "ssl.ca.location": "/no/such/file.pem"}
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


# Words of librdkafka 2.16 and of Kafka's Java client 3.9, as a real broker brought them about.
WORDS = [
    ("SSL handshake failed: error:0A000086:SSL routines::certificate verify failed: broker certificate could not be verified, "
     "verify that ssl.ca.location is correctly configured", "ssl.ca.location"),
    ("unable to find valid certification path to requested target", "ssl.ca.location"),
    ("Receive failed: error:0A000412:SSL routines::ssl/tls alert bad certificate: SSL alert number 42", OWN),
    ("Receive failed: error:0A000416:SSL routines::ssl/tls alert certificate unknown: SSL alert number 46", OWN),
    ("Received fatal alert: bad_certificate", OWN),
    ("Received fatal alert: certificate_unknown", OWN),
    ("SASL authentication error: Authentication failed: Invalid username or password", USER),
    ("Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-512", USER),
    ("SASL PLAIN mechanism handshake failed: Broker: Unsupported SASL mechanism: broker's supported mechanisms: SCRAM-SHA-512",
     "sasl.mechanism"),
    ("Client SASL mechanism 'PLAIN' not enabled in the server, enabled mechanisms are [SCRAM-SHA-512]", "sasl.mechanism"),
    ('Failed to acquire SASL OAUTHBEARER token: {"error": "invalid_client", "error_description": "wrong secret"}', CLIENT),
    ('The response code 401 and error response {"invalid_client" - "wrong secret"} was encountered reading the token '
     "endpoint response; will not attempt further retries", CLIENT),
    ("Failed to acquire SASL OAUTHBEARER token: SSL certificate OpenSSL verify result: unable to get local issuer "
     "certificate (20)", "https.ca.location"),
    ("An internal error occurred while retrieving token from callback handler",
     "sasl.oauthbearer.token.endpoint.url and https.ca.location"),
    ("No subject alternative names matching IP address 127.0.0.1 found", "ssl.endpoint.identification.algorithm"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "options"), WORDS)
def test_the_words_of_a_refusal_name_the_options_to_check(words: str, options: str) -> None:
    reported = KafkaError(
        KafkaError._TRANSPORT, f"ssl://127.0.0.1:9093/bootstrap: {words} (after 9ms in state SSL_HANDSHAKE)"
    )
    down = KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down")
    error = broker_error(KafkaError(KafkaError._TRANSPORT), [reported, down], "b:9093", "list its topics", 10)
    assert type(error) is KafkaForbidsError
    sentence = str(error)
    assert sentence.startswith("Kafka at b:9093 does not let this client in, to list its topics: ")
    assert sentence.endswith(f"; check {options} of kafka.options in hourline.yaml")
    assert "after 9ms" not in sentence and "ssl://" not in sentence and "error:0A" not in sentence


FRONT = "sasl_ssl://b:1/bootstrap: "
AWAY = [
    ("b:1/bootstrap: Connect to ipv4#127.0.0.1:1 failed: Connection refused (after 0ms in state CONNECT, 4 identical error(s) "
     "suppressed)", ": Connect to ipv4#127.0.0.1:1 failed: Connection refused; start it, or change kafka.bootstrap in hourline.yaml"),
    ("ssl://b:1/bootstrap: Disconnected: SSL connection closed by peer",
     "it closes the connection; security.protocol of kafka.options in hourline.yaml may not be that of this address"),
    ("b:1/bootstrap: Receive failed: Invalid response size 1213486160 (0..100000000): increase receive.message.max.bytes",
     "what answers is no Kafka, or speaks another protocol; check kafka.bootstrap and security.protocol of kafka.options"),
    (FRONT + "SASL authentication error: SaslAuthenticateRequest failed: Local: Broker transport failure", "; start it, or"),
    ("Failed to acquire SASL OAUTHBEARER token: Failed to connect to 127.0.0.1:1 after 0 ms: Could not connect to server",
     "; start the server of the tokens, or check sasl.oauthbearer.token.endpoint.url of kafka.options in hourline.yaml"),
    (None, "it does not answer, or closes each connection; start it, or check kafka.bootstrap and security.protocol of"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "said"), AWAY)
def test_a_kafka_that_is_away_has_refused_nothing(words: str | None, said: str) -> None:
    reported = [KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down")]
    reported += [] if words is None else [KafkaError(KafkaError._TRANSPORT, words)]
    error = broker_error(KafkaError(KafkaError._TRANSPORT), reported, "b:1", "list its topics", 10)
    assert type(error) is KafkaAwayError
    assert said in str(error), error


def test_what_a_server_of_tokens_says_beside_its_error_is_not_shown() -> None:
    words = 'Failed to acquire SASL OAUTHBEARER token: {"error": "invalid_client", "error_description": "not \\"this word\\""}'
    reported = [KafkaError(KafkaError._AUTHENTICATION, words)]
    error = broker_error(KafkaError(KafkaError._TRANSPORT), reported, "b:1", "list its topics", 10)
    assert '{"error": "invalid_client"}' in str(error) and "this word" not in str(error)


def test_a_refusal_in_unknown_words_is_a_refusal() -> None:
    reported = [KafkaError(KafkaError._AUTHENTICATION, FRONT + "no entry")]
    error = broker_error(KafkaError(KafkaError._TRANSPORT), reported, "b:1", "list its topics", 10)
    assert type(error) is KafkaForbidsError and str(error).endswith("to list its topics: no entry")


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "the right READ on that topic"),
        (KafkaError.GROUP_AUTHORIZATION_FAILED, "the right READ on that consumer group"),
        (KafkaError.CLUSTER_AUTHORIZATION_FAILED, "the right READ on that topic"),
        (KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "on the transactional ids that begin with `hourline-`"),
    ],
)
def test_a_missing_right_is_named(code: int, said: str) -> None:
    error = broker_error(KafkaError(code), [], "b:1", "read topic 'orders'", 10, "READ")
    assert type(error) is KafkaForbidsError
    assert "does not allow this user to read topic 'orders'; the user needs the right " in str(error) and said in str(
        error
    )


def test_a_client_that_does_not_take_its_options_has_not_asked_kafka() -> None:
    with pytest.raises(KafkaForbidsError) as refused, KeptAdmin("b:1", BROKEN).asking("list its topics", 1):
        pass
    assert str(refused.value).startswith("Kafka's client does not take its options: ssl.ca.location failed")
    with (
        pytest.raises(KafkaForbidsError) as refused,
        KeptAdmin("b:1", {"reconnect.backoff.ms": "soon"}).asking("ask", 1),
    ):
        pass
    assert str(refused.value).endswith('"reconnect.backoff.ms"; change kafka.options in hourline.yaml')
