"""The schemas of a registry are asked for once, and decoding goes on with those that are known while it is away."""

import json
import pickle
from itertools import pairwise
from pathlib import Path

import pytest

from hourline_core.errors import RegistryAwayError, RegistryError, RegistryForbidsError
from hourline_core.formats.registry.client import NotInRegistryError
from hourline_core.formats.registry.known_schemas import KnownSchemas, known_schemas
from hourline_core.model.registry import RegistryAccess
from tests.support.certificates import write_certificate
from tests.support.registry_records import (
    ORDER,
    decode,
    decoder,
    forget_memory,
    member,
    prefixed,
    record,
    running_registry,
    serialize,
)
from tests.support.schema_registry import Answer, SchemaRegistry, serve_registry

SECRET = "swordfish"  # noqa: S105


def test_a_schema_is_asked_for_once(tmp_path: Path) -> None:
    with running_registry(tmp_path) as (registry, access):
        one = serialize(registry, ORDER, {"id": 1, "note": None})
        registry.asked.clear()
        assert decode(decoder(access, ORDER), one, one) == [{"id": 1, "note": None}] * 2
        assert decode(decoder(access, ORDER), one) == [{"id": 1, "note": None}], "another decoder of this process"
        assert registry.asked == ["GET /schemas/ids/1", "GET /schemas/ids/1/versions"]
        forget_memory()
        assert decode(decoder(access, ORDER), one) == [{"id": 1, "note": None}], "another process"
        assert len(registry.asked) == 2


def test_known_schemas_are_decoded_while_the_registry_is_away(tmp_path: Path) -> None:
    item = record("Item", member("price", "double"), namespace="shop")
    cart = record("Cart", member("items", {"type": "array", "items": "shop.Item"}), namespace="shop")
    with running_registry(tmp_path) as (registry, access):
        registry.register("item", item)
        known = registry.register("cart", cart, [{"name": "shop.Item", "subject": "item", "version": 1}])
        one = prefixed(known, b"\x02" + bytes(6) + b"\xf0\x3f\x00")
        read = {**cart, "fields": [member("items", {"type": "array", "items": item})]}
        assert decode(decoder(access, read), one) == [{"items": [{"price": 1.0}]}]
    forget_memory()
    assert decode(decoder(access, read), one) == [{"items": [{"price": 1.0}]}]
    with pytest.raises(RegistryAwayError, match=f"^the schema registry at {registry.url} does not answer \\(.+\\)$"):
        decode(decoder(access, read), one, prefixed(known + 1, b""))


@pytest.mark.parametrize("damaged", ["", "{}", '{"kind": "AVRO"', "[1]"])
def test_a_damaged_file_is_asked_for_again(tmp_path: Path, damaged: str) -> None:
    with running_registry(tmp_path) as (registry, access):
        one = serialize(registry, ORDER, {"id": 1, "note": None})
        decode(decoder(access, ORDER), one)
        file = Path(access.folder) / "1.json"
        whole = file.read_text()
        file.write_text(damaged)
        forget_memory()
        assert decode(decoder(access, ORDER), one) == [{"id": 1, "note": None}]
        assert file.read_text() == whole
        assert [other.name for other in Path(access.folder).iterdir()] == ["1.json"]


def test_a_folder_that_cannot_be_written_is_no_fault(tmp_path: Path) -> None:
    with running_registry(tmp_path) as (registry, access):
        Path(access.folder).write_text("a file")
        one = serialize(registry, ORDER, {"id": 1, "note": None})
        assert decode(decoder(access, ORDER), one) == [{"id": 1, "note": None}]


@pytest.mark.parametrize(
    ("answer", "kind", "said"),
    [
        (
            (401, {"error_code": 40101, "message": "Who?"}),
            RegistryForbidsError,
            "does not let this user in (401: Who?)",
        ),
        ((403, {"error_code": 40301, "message": "No"}), RegistryForbidsError, "does not let this user in (403: No)"),
        (
            (404, {"error_code": 404, "message": "HTTP 404 Not Found"}),
            RegistryForbidsError,
            "does not answer as a schema registry (404: HTTP 404 Not Found); check registry.url",
        ),
        ((404, b"<html>nothing here"), RegistryForbidsError, "does not answer as a schema registry (404: "),
        ((429, {"error_code": 42901, "message": "Slowly"}), RegistryAwayError, "does not answer (429: Slowly)"),
        ((500, {"error_code": 50001, "message": "Store"}), RegistryAwayError, "does not answer (500: Store)"),
        ((503, b""), RegistryAwayError, "does not answer (503: "),
        ((302, b""), RegistryAwayError, "does not answer (302: "),
        ((200, b"<html>log in"), RegistryAwayError, "does not answer (JSONDecodeError: "),
        ((200, [1]), RegistryAwayError, "does not answer (TypeError: "),
    ],
)
def test_no_record_is_refused_because_of_another_answer(
    tmp_path: Path, answer: Answer, kind: type[RegistryError], said: str
) -> None:
    with running_registry(tmp_path, user="reader", password=SECRET) as (registry, access):
        known = registry.register("orders-value", ORDER)
        registry.fault = answer
        with pytest.raises(kind) as failed:
            decode(decoder(access, ORDER), prefixed(known, b"\x02\x00"))
        assert said in str(failed.value)
        assert registry.url in str(failed.value)
        assert "\n" not in str(failed.value)
        assert str(pickle.loads(pickle.dumps(failed.value))) == str(failed.value), "a task tells it to the driver"  # noqa: S301
        registry.fault = None
        assert decode(decoder(access, ORDER), prefixed(known, b"\x02\x00")) == [{"id": 1, "note": None}], (
            "once it is back"
        )


def test_a_registry_that_says_nothing_is_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hourline_core.formats.registry.client._SECONDS_FOR_ANSWER", 0.1)
    away = pytest.raises(RegistryAwayError, match=r"does not answer \(ReadTimeout: timed out\)$")
    with running_registry(tmp_path) as (registry, access), registry.silent(), away:
        decode(decoder(access, ORDER), prefixed(1, b""))


def test_basic_authentication_lets_in_who_knows_the_password(tmp_path: Path) -> None:
    with running_registry(tmp_path, user="reader", password=SECRET) as (registry, access):
        known = registry.register("orders-value", ORDER)
        others = [
            RegistryAccess(registry.url, access.folder),
            RegistryAccess(registry.url, access.folder, "reader", f"{SECRET}?"),
        ]
        for other in others:
            with pytest.raises(RegistryForbidsError, match="does not let this user in") as failed:
                decode(decoder(other, ORDER), prefixed(known, b"\x02\x00"))
            assert SECRET not in f"{failed.value!r} {failed.value.__context__!r} {other!r}"
        assert decode(decoder(access, ORDER), prefixed(known, b"\x02\x00")) == [{"id": 1, "note": None}]
        assert SECRET not in "".join(file.read_text() for file in Path(access.folder).iterdir())


def test_a_certificate_is_verified_by_the_declared_authority(tmp_path: Path) -> None:
    certificate, key = write_certificate(tmp_path)
    folder = str(tmp_path / "schemas")
    with serve_registry(SchemaRegistry(), certificate=(certificate, key)) as registry:
        known = prefixed(registry.register("orders-value", ORDER), b"\x02\x00")
        with pytest.raises(
            RegistryForbidsError, match=r"is not trusted \(.*certificate.*\); check registry.ca in hour"
        ):
            decode(decoder(RegistryAccess(registry.url, folder), ORDER), known)
        missing = RegistryAccess(registry.url, folder, ca=str(tmp_path / "missing.pem"))
        with pytest.raises(
            RegistryForbidsError, match=r"^the certificates in .*missing.pem cannot be read \(.*No such"
        ):
            decode(decoder(missing, ORDER), known)
        trusting = RegistryAccess(registry.url, folder, ca=str(certificate))
        assert decode(decoder(trusting, ORDER), known) == [{"id": 1, "note": None}]


class Clock:
    """Seconds, which a test lets go by."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, access: RegistryAccess) -> None:
        self.now = 100.0
        schemas = KnownSchemas(access, lambda: self.now)
        monkeypatch.setattr("hourline_core.formats.registry.decoder.known_schemas", lambda _: schemas)


def test_a_schema_that_the_registry_does_not_know_is_asked_for_again_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_registry(tmp_path) as (registry, access):
        clock = Clock(monkeypatch, access)
        one, reading = prefixed(1, b"\x02\x00"), decoder(access, ORDER)
        said = "schema id 1 is not in the registry, which answers: Schema 1 not found (40403)"
        times = []
        for _ in range(1300):  # A micro-batch in each tenth of a second.
            assert decode(reading, one, one) == [said] * 2
            if registry.asked:
                assert registry.asked == ["GET /schemas/ids/1"]
                times.append(round(clock.now - 100, 1))
                registry.asked.clear()
            clock.now += 0.1
        assert [round(later - earlier) for earlier, later in pairwise(times)] == [1, 2, 4, 8, 16, 30, 30, 30]


def test_what_is_known_of_an_unknown_schema_is_forgotten_once_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_registry(tmp_path) as (registry, access):
        clock = Clock(monkeypatch, access)
        one, reading = prefixed(1, b"\x02\x00"), decoder(access, ORDER)
        (refused,) = decode(reading, one)
        assert registry.register("orders-value", ORDER) == 1
        clock.now += 0.9
        assert decode(reading, one) == [refused], "it was not asked for"
        clock.now += 0.2
        assert decode(reading, one) == [{"id": 1, "note": None}]
        with pytest.raises(RegistryAwayError):
            registry.fault = 500, {}
            decode(reading, prefixed(2, b""))
        registry.fault = None
        assert "Schema 2 not found" in decode(reading, prefixed(2, b""))[0], "no answer is no answer"


def test_not_all_unknown_ids_are_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hourline_core.formats.registry.known_schemas._MOST_UNKNOWN", 3)
    with running_registry(tmp_path) as (registry, access):
        schemas = KnownSchemas(access, lambda: 0.0)
        for number in (7, 7, 8, 9, 9, 10, 10, 7):
            with pytest.raises(NotInRegistryError):
                schemas.find(number)
            assert len(schemas._unknown) <= 3
        assert registry.asked == [f"GET /schemas/ids/{number}" for number in (7, 8, 9, 10, 7)]


def test_a_schema_is_kept_with_all_that_a_reason_tells(tmp_path: Path) -> None:
    with running_registry(tmp_path) as (registry, access):
        for subject in ("returns-value", "orders-value"):
            registry.register(subject, ORDER)
        found = known_schemas(access).find(1)
        forget_memory()
        registry.fault = 500, {}
        assert known_schemas(access).find(1) == found
        assert str(found) == "schema id 1 (subjects 'orders-value', 'returns-value')"
        assert json.loads(found.text) == ORDER
