"""Records are decoded by the schema that they name, as producers write them by confluent-kafka's serializers."""

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.error import SchemaRegistryError

from hourline_core.errors import RegistryForbidsError
from hourline_core.formats.registry.client import RegistryClient
from hourline_core.model.registry import RegistryAccess
from tests.support.registry_records import (
    ORDER,
    Wire,
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

VALUE = {"id": 7, "note": "soon"}


@pytest.mark.parametrize(
    ("strategy", "subject"),
    [("TOPIC", "orders-value"), ("RECORD", "shop.Order"), ("TOPIC_RECORD", "orders-shop.Order")],
)
@pytest.mark.parametrize("in_header", [False, True])
def test_each_way_to_name_a_schema_is_read(tmp_path: Path, strategy: str, subject: str, in_header: bool) -> None:
    options: dict[str, Any] = {"subject_name_strategy_type": strategy}
    if in_header:
        options["schema_id_serializer"] = header_schema_id_serializer
    with running_registry(tmp_path) as (registry, access):
        written = serialize(registry, ORDER, VALUE, **options)
        assert (written[1] is not None) == in_header
        assert decode(decoder(access, ORDER), written) == [VALUE]
        with SchemaRegistryClient({"url": registry.url}) as client:
            assert client.get_subjects() == [subject]


def test_the_registry_of_the_tests_answers_as_confluents_client_expects(tmp_path: Path) -> None:
    other = record("Other", member("n", "int"))
    with running_registry(tmp_path) as (registry, _), SchemaRegistryClient({"url": registry.url}) as client:
        first = registry.register("a/b-value", ORDER)
        assert registry.register("other", ORDER) == first, "the same schema"
        second = registry.register("a/b-value", other, [{"name": "shop.Order", "subject": "other", "version": 1}])
        assert client.get_subjects() == ["a/b-value", "other"]
        assert client.get_versions("a/b-value") == [1, 2]
        newest = client.get_version("a/b-value")
        assert (newest.schema_id, newest.version, newest.subject) == (second, 2, "a/b-value")
        assert [one.name for one in newest.schema.references or ()] == ["shop.Order"]
        assert json.loads(client.get_schema(first).schema_str or "") == ORDER
        assert client.get_schema_by_guid(str(registry.guid(second))).schema_str == json.dumps(other)
        pairs = [(one.subject, one.version) for one in client.get_schema_versions(first)]
        assert pairs == [("a/b-value", 1), ("other", 1)]
        assert client.lookup_schema("other", client.get_schema(first)).version == 1
        asked: list[tuple[Callable[[], object], int]] = [
            (lambda: client.get_versions("x"), 40401),
            (lambda: client.get_version("other", 2), 40402),
            (lambda: client.get_schema(3), 40403),
            (lambda: client.get_schema_by_guid(str(UUID(int=0))), 40403),
        ]
        for ask, code in asked:
            with pytest.raises(SchemaRegistryError) as failed:
                ask()
            assert (failed.value.http_status_code, failed.value.error_code) == (404, code)


def test_a_record_without_a_schema_id_is_refused(tmp_path: Path) -> None:
    with running_registry(tmp_path) as (registry, access):
        _, guid = serialize(registry, ORDER, VALUE, schema_id_serializer=header_schema_id_serializer)
        assert guid is not None
        records: list[Wire] = [
            (b'{"id": 7}', None),
            (b"\0\0\0", None),
            (b"\0\xff\xff\xff\xff\x02\x00", None),
            (b"\x02\x00", b""),
            (b"\x02\x00", guid[:-1]),
            (b"\x02\x00", b"\x02" + guid[1:]),
            (b"\x02\x00", guid),
            (b"\x02\x00", b"\0\0\0\0\x01"),
        ]
        front, header = (
            "want 0x00 and 4 bytes of an id, or the header __value_schema_id",
            "in the header __value_schema_id",
        )
        guids = "want 0x01 and 16 bytes of a GUID, or 0x00 and 4 bytes of an id"
        assert decode(decoder(access, ORDER), *records) == [
            f"no schema id: got 0x7b as the first byte, {front}",
            f"no schema id: got 3 bytes, {front}",
            "no schema id: got 4294967295, want at most 2147483647",
            f"no schema id {header}: got no bytes, {guids}",
            f"no schema id {header}: got 16 bytes, the first 0x01, {guids}",
            f"no schema id {header}: got 17 bytes, the first 0x02, {guids}",
            {"id": 1, "note": None},
            {"id": 1, "note": None},
        ]
        assert not [asked for asked in registry.asked if "4294967295" in asked]


def test_values_that_are_null_or_empty_are_left_to_validation(tmp_path: Path) -> None:
    with running_registry(tmp_path) as (registry, access):
        decoded = decoder(access, ORDER).decode(pa.array([None, b""], pa.binary()))
        assert decoded.reasons.to_pylist() == [None, None]
        assert registry.asked == []


@pytest.mark.parametrize(
    ("schema", "kind", "reason"),
    [
        ("{", "", "it is not valid: got no JSON, allowed is a schema as JSON: "),
        ('"string"', "", "it is not valid: got a schema of string, allowed is one of a record"),
        (
            record("Order", member("id", "Nowhere")),
            "",
            "it is not valid: id: got the type 'Nowhere', which is not declared",
        ),
        ('syntax = "proto3";', "PROTOBUF", "got a schema of PROTOBUF, want one of AVRO"),
        (record("shop.Payment", member("id", "long")), "", "got record shop.Payment, want record Order or Purchase"),
        (record("Order", member("id", "string")), "", "field 'id': got the schema's type string, want long"),
        (record("Order", member("number", "long")), "", "field 'id': got a schema without 'id', want one of number"),
    ],
)
def test_a_schema_that_cannot_be_read_refuses_each_of_its_records(
    tmp_path: Path, schema: Any, kind: str, reason: str
) -> None:
    declared = record("Order", member("id", "long"), namespace="shop", aliases=["Purchase"])
    with running_registry(tmp_path) as (registry, access):
        good = registry.register("orders-value", declared)
        bad = registry.register("orders-value", schema, kind=kind)
        first, second, third = decode(
            decoder(access, declared), prefixed(bad, b"\x02"), prefixed(good, b"\x02"), prefixed(bad, b"\x04")
        )
        assert first.startswith(f"schema id {bad} (subject 'orders-value'): {reason}")
        assert (second, third) == ({"id": 1}, first)


def test_malformed_bytes_are_refused_with_the_schema_and_the_place_behind_its_id(tmp_path: Path) -> None:
    with running_registry(tmp_path) as (registry, access):
        known = registry.register("orders-value", ORDER)
        cut, more, good, empty = decode(
            decoder(access, ORDER),
            prefixed(known, b"\x02"),
            prefixed(known, b"\x02\x00\x00"),
            prefixed(known, b"\x02\x00"),
            prefixed(known, b""),
        )
        of = "schema id 1 (subject 'orders-value'): invalid Avro"
        assert cut == f"{of} in 'note': got the end of the bytes within the value at byte 1"
        assert more == f"{of}: got 1 bytes behind the end of the record at byte 2"
        assert good == {"id": 1, "note": None}
        assert empty == "schema id 1 (subject 'orders-value'): no value behind the schema id"


def test_records_of_several_schemas_are_decoded_beside_each_other(tmp_path: Path) -> None:
    """Added with a default, removed, widened, and renamed by an alias."""
    read = record(
        "Order",
        member("id", "long"),
        member("total", "double", aliases=["sum"]),
        member("currency", "string", default="EUR"),
    )
    written = [
        record("Order", member("id", "int"), member("sum", "float")),
        record("Order", member("gone", "string"), member("total", "double"), member("id", "long")),
        record("Order", member("currency", "string"), member("id", "long"), member("total", "int")),
    ]
    values: list[dict[str, Any]] = [
        {"id": 1, "sum": 0.5},
        {"id": 2**40, "total": 2.5, "gone": "x"},
        {"id": 3, "total": 4, "currency": "CHF"},
    ]
    with running_registry(tmp_path) as (registry, access):
        records = [serialize(registry, one, value) for one, value in zip(written, values, strict=True)]
        reading = pickle.loads(pickle.dumps(decoder(access, read)))  # noqa: S301 (of this test)
        assert decode(reading, *records, records[0]) == [
            {"id": 1, "total": 0.5, "currency": "EUR"},
            {"id": 2**40, "total": 2.5, "currency": "EUR"},
            {"id": 3, "total": 4.0, "currency": "CHF"},
            {"id": 1, "total": 0.5, "currency": "EUR"},
        ]


def test_a_value_that_does_not_fit_is_refused_alone(tmp_path: Path) -> None:
    written, read = (record("Order", member("id", kind)) for kind in ("long", "int"))
    with running_registry(tmp_path) as (registry, access):
        records = [serialize(registry, written, {"id": number}) for number in (2**31, 5)]
        assert decode(decoder(access, read), *records) == [
            "schema id 1 (subject 'orders-value'): field 'id': got 2147483648, want int",
            {"id": 5},
        ]


def test_a_guid_is_not_in_a_registry_that_has_none(tmp_path: Path) -> None:
    with running_registry(tmp_path) as (registry, access):
        good = serialize(registry, ORDER, VALUE)
        by_guid = serialize(registry, ORDER, VALUE, schema_id_serializer=header_schema_id_serializer)
        registry.has_guids = False
        assert decode(decoder(access, ORDER), by_guid, good) == [
            f"schema id {registry.guid(1)} is not in the registry, which answers: this registry has no GUIDs (404)",
            VALUE,
        ]


def test_an_address_that_knows_neither_guids_nor_anything_else_is_no_registry(tmp_path: Path) -> None:
    with running_registry(tmp_path) as (registry, access):
        by_guid = serialize(registry, ORDER, VALUE, schema_id_serializer=header_schema_id_serializer)
        for error_code in (404, -1):
            registry.fault = 404, {"error_code": error_code, "message": "Not Found"}
            with pytest.raises(RegistryForbidsError, match="does not answer as a schema registry"):
                decode(decoder(access, ORDER), by_guid)


def test_a_reference_is_read_although_it_was_deleted_and_is_named_once_it_is_gone(tmp_path: Path) -> None:
    item = record("Item", member("price", "double"), namespace="shop")
    cart, box = (record(name, member("item", "shop.Item"), namespace="shop") for name in ("Cart", "Box"))
    read = record("Cart", member("item", item), namespace="shop", aliases=["Box"])
    with running_registry(tmp_path) as (registry, access):
        registry.register("item", item)
        reference = [{"name": "shop.Item", "subject": "item", "version": 1}]
        of_cart, of_box = (
            prefixed(registry.register(one["name"], one, reference), b"\0\0\0\0\0\0\xf0\x3f") for one in (cart, box)
        )
        registry.delete("item", 1)
        with SchemaRegistryClient({"url": registry.url}) as client:
            assert client.get_subjects() == ["Box", "Cart"]
            with pytest.raises(SchemaRegistryError, match="40401"):
                client.get_version("item", 1)
        assert decode(decoder(access, read), of_cart) == [{"item": {"price": 1.0}}]
        registry.forget(1)
        forget_memory()
        said = (
            "schema id 3: its reference 'shop.Item' is not in the registry, which answers: Schema 1 not found (40403)"
        )
        assert decode(decoder(access, read), of_box) == [said]
        assert decode(decoder(access, read), of_box) == [said], "what is remembered says the same"


def test_a_subject_is_left_out_that_is_deleted_while_subjects_are_listed(tmp_path: Path) -> None:
    class Deleting(SchemaRegistry):
        def answer(self, method: str, path: str, *more: Any) -> Answer:
            told = super().answer(method, path, *more)
            if path == "/subjects":
                self.delete("gone", 1)
            return told

    with serve_registry(Deleting()) as registry:
        for subject in ("gone", "orders-value"):
            registry.register(subject, ORDER)
        access = RegistryAccess(registry.url, str(tmp_path))
        assert RegistryClient(access).subjects() == [("orders-value", [1])]
        assert "GET /subjects/gone/versions" in registry.asked
