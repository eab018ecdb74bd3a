"""Options of Kafka's clients that contradict each other, or that one of the two clients does not know, are refused."""

from pathlib import Path

import pytest

from hourline import load_project
from hourline_core.errors import DeclarationError, KafkaForbidsError
from hourline_core.runtime.kafka import kafka_of
from tests.support.project_files import write_project

FILES = {
    "sources/scans.yaml": "topic: scans\nfields: {at: timestamp}\nevent_time: at\n",
    "metrics/flow.yaml": "source: scans\nmeasures: {scans: count}\n",
}
TLS = {"security.protocol": "SSL"}
PLAIN = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "a", "sasl.password": "b"}
TOKENS = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.client.id": "a",
    "sasl.oauthbearer.client.secret": "b",
    "sasl.oauthbearer.token.endpoint.url": "https://login.example.org/token",
}


def options_of(
    folder: Path, options: dict[str, str], bootstrap: str = "bootstrap: kafka.example.org:9093"
) -> dict[str, str]:
    lines = "".join(f"    {name}: '{value}'\n" for name, value in options.items())
    write_project(folder, {"hourline.yaml": f"kafka:\n  {bootstrap}\n  options:\n{lines}", **FILES})
    return load_project(folder).settings.kafka.options


def without(options: dict[str, str], name: str) -> dict[str, str]:
    return {key: value for key, value in options.items() if key != name}


@pytest.mark.parametrize(
    ("options", "name", "said"),
    [
        ({"security.protocol": "TLS"}, "security.protocol", "got 'TLS', allowed is PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ({**PLAIN, "sasl.mechanism": "GSSAPI"}, "sasl.mechanism", "got 'GSSAPI', allowed is PLAIN, SCRAM-SHA-256"),
        (without(PLAIN, "sasl.mechanism"), "security.protocol", "got SASL_SSL without sasl.mechanism: allowed is PLAIN"),
        (without(PLAIN, "sasl.password"), "sasl.mechanism", "got PLAIN without sasl.password"),
        ({**PLAIN, "sasl.username": ""}, "sasl.username", "got nothing, allowed is a value"),
        (without(PLAIN, "security.protocol"), "sasl.mechanism", "got it with security.protocol PLAINTEXT (the default), which has no users"),
        ({**PLAIN, **TLS}, "sasl.mechanism", "got it with security.protocol SSL, which has no users"),
        ({"ssl.ca.location": "ca.pem"}, "ssl.ca.location", "got it with security.protocol PLAINTEXT (the default), which is without TLS"),
        ({**TLS, "ssl.certificate.location": "a"}, "ssl.certificate.location", "got it without ssl.key.location"),
        ({**TLS, "ssl.key.location": "a"}, "ssl.key.location", "got it without ssl.certificate.location"),
        ({**TLS, "ssl.key.password": "a"}, "ssl.key.password", "got it without ssl.key.location"),
        (without(TOKENS, "sasl.oauthbearer.client.secret"), "sasl.mechanism", "got OAUTHBEARER without sasl.oauthbearer"),
        ({**TOKENS, "sasl.oauthbearer.method": "default"}, "sasl.oauthbearer.method", "got 'default', allowed is oidc"),
        (without(TOKENS, "sasl.oauthbearer.method"), "sasl.mechanism", "got OAUTHBEARER without sasl.oauthbearer.method"),
        ({**TOKENS, "sasl.username": "a"}, "sasl.username", "got it with sasl.mechanism OAUTHBEARER, which does not use it"),
        ({**PLAIN, "https.ca.location": "a"}, "https.ca.location", "got it with sasl.mechanism PLAIN, which does not use"),
        ({**TLS, "ssl.endpoint.identification.algorithm": ""}, "ssl.endpoint.identification.algorithm", "got nothing, allowed"),
        ({"ssl.truststore.location": "a.jks"}, "ssl.truststore.location", "write certificates and keys to PEM files"),
        ({"sasl.jaas.config": "a"}, "sasl.jaas.config", "write sasl.username and sasl.password"),
        ({"sasl.kerberos.keytab": "a"}, "sasl.kerberos.keytab", "which Hourline does not pass on: Kerberos is not supported"),
        ({**TOKENS, "sasl.oauthbearer.token.endpoint.url": "login"}, "sasl.oauthbearer.token.endpoint.url", "got 'login', allowed"),
        ({"client.rak": "a"}, "client.rak", "did you mean 'client.rack'?"),
    ],
)  # fmt: skip
def test_an_option_that_cannot_work_is_refused_with_its_line(
    tmp_path: Path, options: dict[str, str], name: str, said: str
) -> None:
    with pytest.raises(DeclarationError) as refused:
        options_of(tmp_path, options)
    line = 4 + list(options).index(name) if name in options else 3
    (sentence,) = str(refused.value).splitlines()
    assert sentence.startswith(f"hourline.yaml:{line}: kafka.options.{name}: ") and said in sentence


def test_security_without_a_kafka_of_ones_own_is_refused_where_that_would_start(tmp_path: Path) -> None:
    options_of(tmp_path, PLAIN, bootstrap="port: 9092")
    with (
        pytest.raises(KafkaForbidsError, match=r"got security\.protocol SASL_SSL without kafka\.bootstrap"),
        kafka_of(load_project(tmp_path), join=False),
    ):
        pass


def test_names_are_written_as_both_clients_know_them_and_files_are_relative_to_the_project(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    given = {
        **PLAIN,
        "security.protocol": "sasl_ssl",
        "sasl.mechanism": "scram-sha-512",
        "ssl.ca.location": "ca/kafka.pem",
    }
    found = options_of(tmp_path, {**given, "client.rack": "a"})
    assert (found["security.protocol"], found["sasl.mechanism"]) == ("SASL_SSL", "SCRAM-SHA-512")
    assert found["ssl.ca.location"] == f"{tmp_path}/ca/kafka.pem"
    assert options_of(tmp_path, {**TOKENS, "https.ca.location": "/etc/ca.pem"})["https.ca.location"] == "/etc/ca.pem"
