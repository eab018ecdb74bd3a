"""What to do when Kafka or its client refuses: the option to change, or the right to give.

librdkafka and Kafka's Java client have few codes for many causes, so a cause is known by their words.
"""

import re
from collections.abc import Iterable

_OPTIONS = "kafka.options in hourline.yaml"
_USER = "sasl.username, sasl.password and sasl.mechanism"
_NAME = "ssl.endpoint.identification.algorithm"
_OWN_CERTIFICATE = "ssl.certificate.location and ssl.key.location"

_CHECK: tuple[tuple[str, str], ...] = (
    (r"OAUTHBEARER token.*(SSL|certificate)|token.*PKIX", "https.ca.location"),
    (
        r"OAUTHBEARER token.*(invalid_client|unauthorized|40[01])|token endpoint.*40[01]|invalid_client",
        "sasl.oauthbearer.client.id and sasl.oauthbearer.client.secret",
    ),
    (r"OAUTHBEARER token|token endpoint", "sasl.oauthbearer.token.endpoint.url"),
    # Java tells no more than this, after half a minute.
    (r"retrieving token from callback handler", "sasl.oauthbearer.token.endpoint.url and https.ca.location"),
    (r"(?i)unsupported SASL mechanism|mechanism '?\S+'? not enabled", "sasl.mechanism"),
    (r"(?i)invalid credentials|SASL authentication|Authentication failed|Invalid username", _USER),
    (r"(?i)alert:? (bad|certificate|unknown)|fatal alert: (bad|certificate|handshake)", _OWN_CERTIFICATE),
    (r"(?i)hostname mismatch|ip address mismatch|No subject alternative|No name matching", _NAME),
    (r"(?i)certificate verify failed|PKIX path|certification path", "ssl.ca.location"),
    (r"(?i)ssl\.key\.|private key", "ssl.key.location and ssl.key.password"),
    (r"(?i)ssl\.certificate\.|certificate chain", _OWN_CERTIFICATE),
    (r"(?i)ssl\.ca\.", "ssl.ca.location"),
)
"""Words of an error, and the options to check."""

_WHY = {
    "ssl.ca.location": "its certificate has expired, or is not signed by a CA that is trusted here",
    _OWN_CERTIFICATE: "it does not take this client's certificate",
    _NAME: "its certificate is for another name than kafka.bootstrap has",
}
"""What the words say, where they do not say it themselves."""

_NOISE = re.compile(
    r"^Failed to create \w+(?: \w+)*: |^[a-z_]+://\S+: |(?<=: )error:[0-9A-F]+:|\s*\(after \d+ms in state [^)]*\)"
)

_OF_CLOSED = re.compile(r"connection closed by peer|handshake failed: Disconnected|wrong version number")


def find_options_to_check(words: str) -> str | None:
    """The options that an error with these words is about. None: it is not about an option."""
    said = without_noise(words)
    return next((options for pattern, options in _CHECK if re.search(pattern, said)), None)


def explain_refusal_of_options(words: str) -> str | None:
    """The reason and what to do, for an error with these words. None: it is not about an option."""
    options = find_options_to_check(words)
    if options is None:
        return None
    return f"{_WHY.get(options) or without_noise(words)}; check {options} of {_OPTIONS}"


def explain_closed_connections(reported: Iterable[str]) -> str | None:
    """The reason and what to do, if these words are of a Kafka that closes each connection. None: they are not."""
    if all(_OF_CLOSED.search(words) for words in reported):
        return f"it closes the connection; security.protocol of {_OPTIONS} may not be that of this address"
    return None


def without_noise(words: str) -> str:
    """The words of librdkafka without addresses, times and states of the client."""
    return _NOISE.sub("", words)
