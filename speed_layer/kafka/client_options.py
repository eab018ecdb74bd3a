"""The options of Kafka's Java client, which Spark reads with, from those of librdkafka, which the rest uses.

Files are read here, so executors need none of them. The options have secrets: they go to the executors with the tasks.
"""

from collections.abc import Mapping

from hourline_core.runtime.pem_files import key_as_pkcs8, read_certificates

_FILES = {
    "ssl.ca.location": "ssl.truststore.certificates",
    "ssl.certificate.location": "ssl.keystore.certificate.chain",
    "ssl.key.location": "ssl.keystore.key",
}
"""librdkafka's names of PEM files, and the Java client's names for their content."""

_SECURITY = "org.apache.kafka.common.security"
_LOGIN = {
    "PLAIN": f"{_SECURITY}.plain.PlainLoginModule",
    "SCRAM-SHA-256": f"{_SECURITY}.scram.ScramLoginModule",
    "SCRAM-SHA-512": f"{_SECURITY}.scram.ScramLoginModule",
    "OAUTHBEARER": f"{_SECURITY}.oauthbearer.OAuthBearerLoginModule",
}
_IN_LOGIN = {
    "sasl.username": "username",
    "sasl.password": "password",
    "sasl.oauthbearer.client.id": "clientId",
    "sasl.oauthbearer.client.secret": "clientSecret",
    "sasl.oauthbearer.scope": "scope",
}
"""What the Java client takes as options of its login module."""

_NAME_CHECK = "ssl.endpoint.identification.algorithm"


def java_client_options(options: Mapping[str, str]) -> dict[str, str]:
    """Client options, which have librdkafka's names, under the names of the Java client. Raises KafkaForbidsError
    if a file cannot be read.
    """
    other = {*_FILES, *_IN_LOGIN, "https.ca.location", "sasl.oauthbearer.method", "ssl.key.password"}
    java = {name: value for name, value in options.items() if name not in other}
    if java.get(_NAME_CHECK) == "none":
        java[_NAME_CHECK] = ""  # Java takes any other word for the name of an algorithm.
    if "ssl.ca.location" in options:
        java |= {"ssl.truststore.type": "PEM", _FILES["ssl.ca.location"]: read_certificates("ssl.ca.location", options)}
    if "ssl.key.location" in options:
        java |= {
            "ssl.keystore.type": "PEM",
            _FILES["ssl.certificate.location"]: read_certificates("ssl.certificate.location", options),
            _FILES["ssl.key.location"]: key_as_pkcs8(options["ssl.key.location"], options.get("ssl.key.password")),
        }
    if (mechanism := options.get("sasl.mechanism")) is not None:
        java["sasl.jaas.config"] = _login(mechanism, options)
    if mechanism == "OAUTHBEARER":
        java["sasl.login.callback.handler.class"] = f"{_SECURITY}.oauthbearer.OAuthBearerLoginCallbackHandler"
    return java


def _login(mechanism: str, options: Mapping[str, str]) -> str:
    """The text for Java's login (JAAS)."""
    told = {_IN_LOGIN[name]: options[name] for name in _IN_LOGIN if name in options}
    if "https.ca.location" in options:  # for the server of the tokens
        told |= {
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": read_certificates("https.ca.location", options),
        }
    words = "".join(f' {name}="{_escape(value)}"' for name, value in told.items())
    return f"{_LOGIN[mechanism]} required{words};"


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
