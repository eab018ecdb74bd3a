"""Certificates for this machine: of an authority of its own, or one that nobody but its own file vouches for."""

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

_DAY = datetime.timedelta(days=1)
_ADDRESSES = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("localhost")])


@dataclass(frozen=True)
class PemFiles:
    """A certificate and its key."""

    certificate: Path
    key: Path


class Authority:
    """A certificate authority. Its own certificate is ``<name>.pem`` in ``folder``."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder, self._key = folder, ec.generate_private_key(ec.SECP256R1())
        self._name = _named(name)
        own = _builder(self._name, self._name, self._key, _DAY)
        own = own.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        self.file = folder / f"{name}.pem"
        self.file.write_bytes(_pem(own.sign(self._key, hashes.SHA256())))

    def issue(self, name: str, *, valid: datetime.timedelta = _DAY, password: str | None = None) -> PemFiles:
        """Write ``<name>.pem`` and ``<name>.key.pem``: a certificate of ``name`` that is ``valid`` from now on, less than
        nothing if it has expired, and its key.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_named(name), self._name, key, valid).add_extension(_ADDRESSES, critical=False)
        files = PemFiles(self._folder / f"{name}.pem", self._folder / f"{name}.key.pem")
        files.certificate.write_bytes(_pem(builder.sign(self._key, hashes.SHA256())))
        files.key.write_bytes(_key_pem(key, password))
        return files


def write_certificate(folder: Path) -> tuple[Path, Path]:
    """Write a certificate for 127.0.0.1 that nobody but its own file vouches for, and its key, as PEM."""
    key, name = ec.generate_private_key(ec.SECP256R1()), _named("registry")
    builder = _builder(name, name, key, _DAY).add_extension(_ADDRESSES, critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    files = folder / "certificate.pem", folder / "key.pem"
    files[0].write_bytes(_pem(builder.sign(key, hashes.SHA256())))
    files[1].write_bytes(_key_pem(key, None))
    return files


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, valid: datetime.timedelta
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - 30 * _DAY)
        .not_valid_after(now + valid)
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey, password: str | None) -> bytes:
    protection = (
        serialization.NoEncryption()
        if password is None
        else serialization.BestAvailableEncryption(password.encode("utf-8"))
    )
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, protection)
