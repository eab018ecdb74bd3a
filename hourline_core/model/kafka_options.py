"""The client options that a project may pass on to Kafka."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator

from hourline_core.errors import did_you_mean
from hourline_core.model.base import describe, refuse, suggest
from hourline_core.model.home_folder import expand_home

_OF_CONNECTIONS = {
    "client.dns.lookup",
    "client.id",
    "client.rack",
    "connections.max.idle.ms",
    "metadata.max.age.ms",
    "reconnect.backoff.max.ms",
    "reconnect.backoff.ms",
    "retry.backoff.ms",
    "socket.connection.setup.timeout.ms",
}
_OF_TLS = {
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.endpoint.identification.algorithm",
    "ssl.key.location",
    "ssl.key.password",
}
_OF_PASSWORDS = {"sasl.password", "sasl.username"}
_OF_TOKENS = {
    "https.ca.location",
    "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.method",
    "sasl.oauthbearer.scope",
    "sasl.oauthbearer.token.endpoint.url",
}
_PROTOCOL, _MECHANISM = "security.protocol", "sasl.mechanism"
_ENDPOINT = "sasl.oauthbearer.token.endpoint.url"

# The names are librdkafka's. Each option also exists in Spark's Java client, which the speed layer reads with.
# Options that change the meaning of a read or a delivery (acks, isolation, offsets) are set by Hourline alone.
ALLOWED_OPTIONS = frozenset({_PROTOCOL, _MECHANISM, *_OF_CONNECTIONS, *_OF_TLS, *_OF_PASSWORDS, *_OF_TOKENS})

FILE_OPTIONS = ("ssl.ca.location", "ssl.certificate.location", "ssl.key.location", "https.ca.location")
"""The options that name files, in PEM."""

_MECHANISMS: dict[str, tuple[str, ...]] = {
    "PLAIN": ("sasl.username", "sasl.password"),
    "SCRAM-SHA-256": ("sasl.username", "sasl.password"),
    "SCRAM-SHA-512": ("sasl.username", "sasl.password"),
    "OAUTHBEARER": (
        "sasl.oauthbearer.method",
        "sasl.oauthbearer.client.id",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.token.endpoint.url",
    ),
}
"""Those that are allowed, each with the options that it needs."""

_VALUES = {
    _PROTOCOL: ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    _MECHANISM: tuple(_MECHANISMS),
    "sasl.oauthbearer.method": ("oidc",),
    "ssl.endpoint.identification.algorithm": ("https", "none"),
}
_AS_PEM = (
    ": write certificates and keys to PEM files, such as with `openssl pkcs12`, and name these as ssl.ca.location, "
    "ssl.certificate.location and ssl.key.location"
)
_OF_OTHERS = {
    "ssl.keystore.": _AS_PEM,
    "ssl.truststore.": _AS_PEM,
    "ssl.key.pem": _AS_PEM,
    "ssl.certificate.pem": _AS_PEM,
    "ssl.ca.pem": _AS_PEM,
    "sasl.jaas.": ": write sasl.username and sasl.password",
    "sasl.kerberos.": ": Kerberos is not supported",
}
"""What to do in place of other options of the two clients, by their beginnings."""


def _option(name: str) -> str:
    if name in ALLOWED_OPTIONS:
        return name
    hint = next((told for front, told in _OF_OTHERS.items() if name.startswith(front)), None)
    if hint is None:
        hint = did_you_mean(name, ALLOWED_OPTIONS)
    raise refuse(f"got the option {describe(name)}, which Hourline does not pass on{hint}")


KafkaOption = Annotated[str, AfterValidator(_option)]


def check_values(options: dict[str, str]) -> dict[str, str]:
    """The options, with names of protocols and mechanisms as Java writes them. Raises the refusal of another value."""
    for name, value in options.items():
        if not value:
            raise refuse("got nothing, allowed is a value", name)
    if (url := options.get(_ENDPOINT)) and not url.startswith(("https://", "http://")):
        raise refuse(f"got {describe(url)}, allowed is an address that begins with https://", _ENDPOINT)
    return {**options, **{name: _value(name, options[name], _VALUES[name]) for name in _VALUES if name in options}}


def check_together(options: Mapping[str, str]) -> None:
    """Raise the refusal of an option that lacks another one, or that has no effect beside the others."""
    for name, mistake in _find_conflicts(options):
        raise refuse(mistake, "options", name)


def _value(name: str, value: str, allowed: tuple[str, ...]) -> str:
    found = next((one for one in allowed if one.casefold() == value.casefold()), None)
    if found is None:
        names = ", ".join(allowed)
        raise refuse(f"got {describe(value)}, allowed is {names}{suggest(value.upper(), allowed)}", name)
    return found


def _find_conflicts(options: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The options that cannot stand beside the others, each with the sentence about it."""
    protocol, mechanism = options.get(_PROTOCOL, "PLAINTEXT"), options.get(_MECHANISM)
    given = protocol if _PROTOCOL in options else f"{protocol} (the default)"
    for name in sorted(options.keys() & {_MECHANISM, *_OF_PASSWORDS, *_OF_TOKENS}):
        if not protocol.startswith("SASL_"):
            yield name, f"got it with {_PROTOCOL} {given}, which has no users: allowed are SASL_SSL, SASL_PLAINTEXT"
    for name in sorted(options.keys() & _OF_TLS):
        if not protocol.endswith("SSL"):
            yield name, f"got it with {_PROTOCOL} {given}, which is without TLS: allowed are SSL and SASL_SSL"
    if protocol.startswith("SASL_"):
        yield from _find_conflicts_of_mechanism(options, protocol, mechanism)
    for name, other in (
        ("ssl.certificate.location", "ssl.key.location"),
        ("ssl.key.location", "ssl.certificate.location"),
        ("ssl.key.password", "ssl.key.location"),
    ):
        if name in options and other not in options:
            yield name, f"got it without {other}: name both"


def _find_conflicts_of_mechanism(
    options: Mapping[str, str], protocol: str, mechanism: str | None
) -> Iterator[tuple[str, str]]:
    if mechanism is None:
        yield _PROTOCOL, f"got {protocol} without {_MECHANISM}: allowed is {', '.join(_MECHANISMS)}"
        return
    for name in _MECHANISMS[mechanism]:
        if name not in options:
            yield _MECHANISM, f"got {mechanism} without {name}: write it, too"
    unused = _OF_PASSWORDS if mechanism == "OAUTHBEARER" else _OF_TOKENS
    for name in sorted(options.keys() & unused):
        yield name, f"got it with {_MECHANISM} {mechanism}, which does not use it: remove one of them"


def resolve_files(options: Mapping[str, str], root: Path) -> dict[str, str]:
    """The options, with absolute names of files. Those in the declaration are relative to the project's folder."""
    files = {name: str(root.absolute() / expand_home(options[name])) for name in FILE_OPTIONS if name in options}
    return {**options, **files}
