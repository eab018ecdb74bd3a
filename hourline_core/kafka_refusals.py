"""What to do when Kafka or its client refuses: the option to change, or the right to give.

librdkafka and Kafka's Java client have few codes for many causes, so a cause is known by their words.
"""

import re

_OPTIONS = "kafka.options in hourline.yaml"
_USER = "sasl.username, sasl.password and sasl.mechanism"
_NAME = "ssl.endpoint.identification.algorithm"
_TOKENS = "sasl.oauthbearer.token.endpoint.url"
_OWN_CERTIFICATE = "ssl.certificate.location and ssl.key.location"

_CHECK: tuple[tuple[str, str], ...] = (
    (r"OAUTHBEARER token.*(verify result|CA cert)|token.*PKIX", "https.ca.location"),
    (
        r"OAUTHBEARER token.*(invalid_client|unauthorized|40[01])|token endpoint.*40[01]|invalid_client",
        "sasl.oauthbearer.client.id and sasl.oauthbearer.client.secret",
    ),
    (r"OAUTHBEARER token|token endpoint", _TOKENS),
    # Java tells no more than this, after half a minute.
    (r"retrieving token from callback handler", f"{_TOKENS} and https.ca.location"),
    (r"(?i)unsupported SASL mechanism|mechanism '?\S+'? not enabled", "sasl.mechanism"),
    (r"(?i)invalid credentials|SASL authentication|Authentication failed|Invalid username", _USER),
    (r"(?i)alert:? (bad[ _]certificate|certificate|unknown)", _OWN_CERTIFICATE),
    (r"(?i)No subject alternative|No name matching", _NAME),
    (r"(?i)certificate verify failed|PKIX path|certification path", "ssl.ca.location"),
    (r"(?i)ssl\.key\.|private key", "ssl.key.location and ssl.key.password"),
    (r"(?i)ssl\.certificate\.|certificate chain", _OWN_CERTIFICATE),
    (r"(?i)ssl\.ca\.", "ssl.ca.location"),
)
"""Words of an error, and the options to check."""

_WHY = {
    "ssl.ca.location": "Kafka's certificate has expired, is for another name, or is of a CA that is not trusted here",
    _OWN_CERTIFICATE: "Kafka does not take the certificate of this client, or wants one",
    _NAME: "Kafka's certificate is for another name than kafka.bootstrap has",
}
"""What the words say, where they do not say it themselves."""

_NOISE = re.compile(
    r"^Failed to create \w+(?: \w+)*: |^(?:[a-z_]+://)?\S+/(?:bootstrap|\d+): |(?<=: )error:[0-9A-F]+:"
    r"|\s*\(after \d+ms in state .*\)$"
    r'|, "error_description": ?"(?:[^"\\]|\\.)*"'
)

_OF_LOST = re.compile(
    r"Local: (Broker transport failure|Timed out|Broker handle destroyed)|verify that security\.protocol"
)
"""A connection that was lost while the client logged in is no refusal."""
_OF_CLOSED = re.compile(r"connection closed by peer|handshake failed: Disconnected|wrong version number")
_OF_ANOTHER = re.compile(r"Invalid response size")
_OF_TOKENS_AWAY = re.compile(r"(?i)OAUTHBEARER token.*(failed to connect|could not|timeout|timed out|\b50\d\b)")


def find_options_to_check(words: str) -> str | None:
    """The options that an error with these words is about. None: it is not about an option."""
    if _OF_LOST.search(words):
        return None
    said = without_noise(words)
    return next((options for pattern, options in _CHECK if re.search(pattern, said)), None)


def explain_refusal_of_options(words: str) -> str | None:
    """The reason and what to do, for an error with these words. None: it is not about an option."""
    options = find_options_to_check(words)
    if options is None:
        return None
    return f"{_WHY.get(options) or without_noise(words)}; check {options} of {_OPTIONS}"


def explain_absence(words: str | None) -> str:
    """What to do about a Kafka that does not answer. ``words`` are of the last error. None: the client says no more."""
    protocol = f"security.protocol of {_OPTIONS}"
    if words is None:
        return f"it does not answer, or closes each connection; start it, or check kafka.bootstrap and {protocol}"
    if _OF_CLOSED.search(words):
        return f"it closes the connection; {protocol} may not be that of this address"
    if _OF_ANOTHER.search(words):
        return f"what answers is no Kafka, or speaks another protocol; check kafka.bootstrap and {protocol}"
    if _OF_TOKENS_AWAY.search(words):
        return f"{without_noise(words)}; start the server of the tokens, or check {_TOKENS} of {_OPTIONS}"
    return f"{without_noise(words)}; start it, or change kafka.bootstrap in hourline.yaml"


def is_refusal(words: str) -> bool:
    """Whether an error with these words comes again until a person changes something."""
    return not (_OF_LOST.search(words) or _OF_TOKENS_AWAY.search(words))


def without_noise(words: str) -> str:
    """The words of librdkafka without addresses, times and states of the client."""
    return _NOISE.sub("", words)
