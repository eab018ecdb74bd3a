"""The options of Kafka's Java client say what those of librdkafka say. (That Java takes them: test_secured_kafka.py.)"""

from pathlib import Path

from speed_layer.kafka.client_options import java_client_options
from tests.support.certificates import Authority

WORD = "a word"
MODULE = "org.apache.kafka.common.security"


def test_most_options_have_one_name() -> None:
    options = {"client.rack": "a", "security.protocol": "SSL", "reconnect.backoff.ms": "5"}
    assert java_client_options(options) == options


def test_a_name_that_is_not_looked_at_is_empty_in_java() -> None:
    name = "ssl.endpoint.identification.algorithm"
    assert java_client_options({name: "none"}) == {name: ""}
    assert java_client_options({name: "https"}) == {name: "https"}


def test_a_user_and_a_password_of_any_characters_become_a_login() -> None:
    user = {"sasl.username": 'a"b', "sasl.password": 'c\\d"'}
    plain = java_client_options({"sasl.mechanism": "PLAIN", **user})
    words = r'required username="a\"b" password="c\\d\"";'
    assert plain == {"sasl.mechanism": "PLAIN", "sasl.jaas.config": f"{MODULE}.plain.PlainLoginModule {words}"}
    scram = java_client_options({"sasl.mechanism": "SCRAM-SHA-256", **user})
    assert scram["sasl.jaas.config"] == f"{MODULE}.scram.ScramLoginModule {words}"


def test_files_become_their_content(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    files = authority.issue("shop", password=WORD)
    names = {"ssl.certificate.location": str(files.certificate), "ssl.key.location": str(files.key)}
    options = java_client_options({**names, "ssl.key.password": WORD, "ssl.ca.location": str(authority.file)})
    key = options.pop("ssl.keystore.key")
    assert options == {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": authority.file.read_text(),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": files.certificate.read_text(),
    }
    assert key.startswith("-----BEGIN PRIVATE KEY-----"), "Java could not decrypt it"


def test_tokens_are_asked_for_by_the_login(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    url = {"sasl.oauthbearer.token.endpoint.url": "https://login.example.org/token"}
    options = java_client_options(
        {
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": "shop",
            "sasl.oauthbearer.client.secret": "word",
            "sasl.oauthbearer.scope": "kafka",
            "https.ca.location": str(authority.file),
            **url,
        }
    )
    certificates = authority.file.read_text().replace("\n", "\\n")
    assert options == {
        "sasl.mechanism": "OAUTHBEARER",
        **url,
        "sasl.login.callback.handler.class": f"{MODULE}.oauthbearer.OAuthBearerLoginCallbackHandler",
        "sasl.jaas.config": (
            f'{MODULE}.oauthbearer.OAuthBearerLoginModule required clientId="shop" clientSecret="word" scope="kafka" '
            f'ssl.truststore.type="PEM" ssl.truststore.certificates="{certificates}";'
        ),
    }
