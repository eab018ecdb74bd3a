"""A file of certificates or keys that cannot work is told before a client of Kafka reads it."""

import datetime
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from hourline_core.errors import KafkaForbidsError
from hourline_core.runtime.pem_files import check_pem_files, key_as_pkcs8, read_certificates
from tests.support.certificates import Authority, PemFiles


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


WORD = "a word"


def options_of(authority: Authority, files: PemFiles, password: str | None = None) -> dict[str, str]:
    own = {"ssl.certificate.location": str(files.certificate), "ssl.key.location": str(files.key)}
    own |= {} if password is None else {"ssl.key.password": password}
    return {"ssl.ca.location": str(authority.file), **own}


def test_files_that_fit_are_taken(authority: Authority) -> None:
    check_pem_files({})
    check_pem_files(options_of(authority, authority.issue("shop")))
    check_pem_files(options_of(authority, authority.issue("protected", password=WORD), WORD))


@pytest.mark.parametrize(
    ("password", "given", "said"),
    [
        (None, "a word", "is without password, and ssl.key.password is given"),
        ("a word", None, "has a password: set ssl.key.password"),
        ("a word", "another", "is no PEM file with a key that ssl.key.password opens"),
        ("a word", "", "has a password: set ssl.key.password"),
    ],
)
def test_a_wrong_password_of_a_key_is_told(
    authority: Authority, password: str | None, given: str | None, said: str
) -> None:
    files = authority.issue("shop", password=password)
    with pytest.raises(KafkaForbidsError) as refused:
        check_pem_files(options_of(authority, files, given))
    assert str(refused.value) == f"hourline.yaml: kafka.options: ssl.key.location: {files.key} {said}"


@pytest.mark.parametrize("option", ["ssl.ca.location", "ssl.certificate.location", "ssl.key.location"])
@pytest.mark.parametrize(
    "content", [None, b"", b"no PEM", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"]
)
def test_a_file_that_cannot_be_used_is_named(
    authority: Authority, tmp_path: Path, option: str, content: bytes | None
) -> None:
    file = tmp_path / "file.pem"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(KafkaForbidsError) as refused:
        check_pem_files({**options_of(authority, authority.issue("shop")), option: str(file)})
    why = "cannot be read (no such file or directory)" if content is None else "is no PEM file with "
    assert str(refused.value).startswith(f"hourline.yaml: kafka.options: {option}: {file} {why}")


def test_a_folder_is_no_file(authority: Authority, tmp_path: Path) -> None:
    with pytest.raises(KafkaForbidsError, match=r"ssl.ca.location: .* cannot be read \(is a directory\)"):
        check_pem_files({"ssl.ca.location": str(tmp_path)})


def test_the_key_of_another_certificate_is_told(authority: Authority) -> None:
    mixed = PemFiles(authority.issue("shop").certificate, authority.issue("bank").key)
    with pytest.raises(KafkaForbidsError, match=r"is not the key of the certificate in ssl\.certificate\.location"):
        check_pem_files(options_of(authority, mixed))


def test_a_certificate_that_has_expired_is_told_with_its_time(authority: Authority) -> None:
    options = options_of(authority, authority.issue("shop", valid=datetime.timedelta(hours=1)))
    now = datetime.datetime.now(datetime.UTC)
    check_pem_files(options, lambda: now)
    with pytest.raises(KafkaForbidsError, match=r"has expired on \d{4}-\d\d-\d\d \d\d:\d\d UTC; it is "):
        check_pem_files(options, lambda: now + datetime.timedelta(hours=2))


def test_java_gets_keys_in_its_form_and_certificates_without_other_text(tmp_path: Path) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    file = tmp_path / "key.pem"
    old, plain = serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    file.write_bytes(key.private_bytes(serialization.Encoding.PEM, old, plain))
    assert file.read_text().startswith("-----BEGIN RSA PRIVATE KEY-----")
    written = key_as_pkcs8(str(file), None)
    assert written.startswith("-----BEGIN PRIVATE KEY-----")
    assert serialization.load_pem_private_key(written.encode(), None).private_numbers() == key.private_numbers()  # type: ignore[union-attr]
    authority = Authority(tmp_path)
    content = authority.file.read_text()
    authority.file.write_text(f"Subject: größe\n{content}# the end\n{content}")
    assert read_certificates("ssl.ca.location", {"ssl.ca.location": str(authority.file)}) == content * 2
