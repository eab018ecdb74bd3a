"""Certificates and keys in PEM files, as kafka.options name them: read before a client does, which says little."""

from collections.abc import Callable, Mapping
from datetime import UTC
from pathlib import Path
from typing import TypeVar

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes, PublicKeyTypes

from hourline_core.errors import KafkaForbidsError
from hourline_core.model.hours import Clock, wall_clock

_T = TypeVar("_T")
_CERTIFICATE, _KEY, _PASSWORD = "ssl.certificate.location", "ssl.key.location", "ssl.key.password"
_AUTHORITIES = ("ssl.ca.location", "https.ca.location")


def check_pem_files(options: Mapping[str, str], clock: Clock = wall_clock) -> None:
    """Read the files that ``options`` name. Raises KafkaForbidsError with one sentence: a file that is not there or not
    PEM, a key of another certificate or with another password, a certificate of this client that has expired.
    ``clock`` is the wall's (UTC).
    """
    for name in _AUTHORITIES:
        if name in options:
            _certificates(name, options[name])
    if _CERTIFICATE not in options:
        return
    own, *_ = _certificates(_CERTIFICATE, options[_CERTIFICATE])
    key = _key(options[_KEY], options.get(_PASSWORD))
    file = options[_CERTIFICATE]
    of_own = _parse(_CERTIFICATE, file, lambda _: _public(own.public_key()), "has a key of a kind that is not known")
    if of_own != _public(key.public_key()):
        raise _mistake(_KEY, options[_KEY], f"is not the key of the certificate in {_CERTIFICATE}")
    if own.not_valid_after_utc <= (now := clock()):
        raise _mistake(
            _CERTIFICATE,
            options[_CERTIFICATE],
            f"has expired on {own.not_valid_after_utc:%Y-%m-%d %H:%M} UTC; it is {now.astimezone(UTC):%Y-%m-%d %H:%M}; "
            "renew it",
        )


def read_certificates(option: str, options: Mapping[str, str]) -> str:
    """The certificates in the file that ``option`` names, as PEM and without other text. Raises KafkaForbidsError."""
    found = _certificates(option, options[option])
    return "".join(one.public_bytes(serialization.Encoding.PEM).decode("ascii") for one in found)


def key_as_pkcs8(file: str, password: str | None) -> str:
    """A private key as PEM in PKCS #8, the only form that Java reads. It has no password any more: Java does not read
    the protection that is usual today. Raises KafkaForbidsError.
    """
    form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return _key(file, password).private_bytes(serialization.Encoding.PEM, form, plain).decode("ascii")


def _certificates(option: str, file: str) -> list[x509.Certificate]:
    return _parse(
        option,
        file,
        x509.load_pem_x509_certificates,
        "is no PEM file with certificates; `openssl x509` or `openssl pkcs12` writes one",
    )


def _key(file: str, password: str | None) -> PrivateKeyTypes:
    given = password.encode("utf-8") if password else None
    wrong = "is no PEM file with a key" + (f" that {_PASSWORD} opens" if given else "")

    def load(content: bytes) -> PrivateKeyTypes:
        try:
            return serialization.load_pem_private_key(content, given)
        except TypeError:  # one of the two has no password
            needs = f"is without password, and {_PASSWORD} is given" if given else f"has a password: set {_PASSWORD}"
            raise _mistake(_KEY, file, needs) from None

    return _parse(_KEY, file, load, wrong)


def _parse(option: str, file: str, load: Callable[[bytes], _T], otherwise: str) -> _T:
    try:
        return load(Path(file).read_bytes())
    except OSError as error:
        raise _mistake(option, file, f"cannot be read ({(error.strerror or str(error)).lower()})") from None
    except (ValueError, UnsupportedAlgorithm):
        raise _mistake(option, file, otherwise) from None


def _public(key: PublicKeyTypes) -> bytes:
    return key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)


def _mistake(option: str, file: str, what: str) -> KafkaForbidsError:
    return KafkaForbidsError(f"hourline.yaml: kafka.options: {option}: {file} {what}")
