"""What `schemas` lists of the schema registry, and what `schemas pull` writes."""

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro
import pytest

from hourline import load_project
from tests.support.command_line import Failing, answer
from tests.support.registry_records import ORDER, member, record
from tests.support.schema_registry import SchemaRegistry, serve_registry

SIZE = {"type": "enum", "name": "kinds.Size", "symbols": ["S", "L"]}
ITEM = record("Item", member("price", "double"), member("size", "kinds.Size"), namespace="shop")
CART = record(
    "Cart",
    member("at", "string"),
    member("items", {"type": "array", "items": "Item"}),
    member("gift", ["null", "shop.Item"]),
    member("sizes", {"type": "map", "values": "kinds.Size"}),
    namespace="shop",
)


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with serve_registry(SchemaRegistry("reader", "swordfish")) as registry:
        yield registry


@pytest.fixture
def folder(tmp_path: Path, registry: SchemaRegistry, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose source has a schema that is not there yet."""
    monkeypatch.setenv("REGISTRY_PASSWORD", "swordfish")
    settings = f"registry: {{url: '{registry.url}', user: reader, password: '${{REGISTRY_PASSWORD}}'}}\n"
    (tmp_path / "hourline.yaml").write_text(settings)
    (tmp_path / "sources").mkdir()
    source = "topic: carts\nformat: {avro: {schema: carts_v2-value.avsc, registry: true}}\nevent_time: at\n"
    (tmp_path / "sources" / "carts.yaml").write_text(source)
    return tmp_path


def register_cart(registry: SchemaRegistry) -> None:
    registry.register("size", SIZE)
    registry.register("item", ITEM, [{"name": "kinds.Size", "subject": "size", "version": 1}])
    references = [
        {"name": "shop.Item", "subject": "item", "version": 1},
        {"name": "kinds.Size", "subject": "size", "version": 1},
    ]
    registry.register("carts:v2-value", CART, references)


def test_subjects_are_listed_with_their_versions(registry: SchemaRegistry, folder: Path) -> None:
    assert answer("schemas", "list", folder=folder) == "no subjects: the schema registry has no schema yet\n"
    for subject, schema in [("b", ORDER), ("a", ORDER), ("b", ITEM)]:
        registry.register(subject, schema)
    assert [line.split("  ")[0] for line in answer("schemas", "list", folder=folder).splitlines()[-2:]] == ["a", "b"]
    listed = json.loads(answer("schemas", "list", "--format", "json", folder=folder))
    assert listed == [{"subject": "a", "versions": [1]}, {"subject": "b", "versions": [1, 2]}]


def test_a_pulled_schema_has_its_references_and_is_that_of_a_source(registry: SchemaRegistry, folder: Path) -> None:
    register_cart(registry)
    said = answer("schemas", "pull", "carts:v2-value", folder=folder).splitlines()
    assert said == [
        "schemas/carts_v2-value.avsc (new): version 1 of subject 'carts:v2-value', schema id 3, with kinds.Size, shop.Item",
        "a source reads it with `format: {avro: {schema: carts_v2-value.avsc, registry: true}}`",
    ]
    assert answer("schemas", "pull", "carts:v2-value", folder=folder).startswith(
        "schemas/carts_v2-value.avsc (as it was)"
    )
    fields = load_project(folder).sources["carts"].fields
    assert {name: field.type for name, field in fields.items()} == {
        "at": "string",
        "items": "array<struct<price: double, size: string>>",
        "gift": "struct<price: double, size: string>",
        "sizes": "map<string, string>",
    }
    whole = json.loads((folder / "schemas" / "carts_v2-value.avsc").read_text())
    cart = {"at": "noon", "items": [{"price": 1.5, "size": "L"}], "gift": {"price": 2.5, "size": "S"}, "sizes": {}}
    assert bytes_of(whole, cart) == bytes_of([SIZE, ITEM, CART], ("shop.Cart", cart)).removeprefix(b"\x04")


def bytes_of(schema: Any, value: Any) -> bytes:
    """``value`` as fastavro writes it; of a union, with the number of its type in front."""
    written = io.BytesIO()
    fastavro.schemaless_writer(written, fastavro.parse_schema(schema), value)
    return written.getvalue()


def test_a_pulled_schema_of_protobuf_has_its_imports_beside_it_and_is_that_of_a_source(
    registry: SchemaRegistry, folder: Path
) -> None:
    price = 'syntax = "proto3"; package money; message Price { int64 cents = 1; }'
    order = """syntax = "proto3";
        import "money/price.proto"; import "google/protobuf/timestamp.proto";
        message Order { money.Price price = 1; google.protobuf.Timestamp at = 2; }"""
    registry.register("price", price, kind="PROTOBUF")
    named = [{"name": "money/price.proto", "subject": "price", "version": 1}]
    registry.register("orders-value", order, named, kind="PROTOBUF")
    said = answer("schemas", "pull", "orders-value", folder=folder).splitlines()
    assert said == [
        "schemas/orders-value.proto (new): version 1 of subject 'orders-value', schema id 2, with money/price.proto (new)",
        "a source reads it with `format: {protobuf: {schema: orders-value.proto, registry: true}}`",
    ]
    assert {name: (folder / "schemas" / name).read_text() for name in ("orders-value.proto", "money/price.proto")} == {
        "orders-value.proto": order,
        "money/price.proto": price,
    }
    (folder / "sources" / "carts.yaml").write_text(
        "topic: orders\nformat: {protobuf: {schema: orders-value.proto, registry: true}}\nevent_time: at\n"
    )
    fields = load_project(folder).sources["carts"].fields
    assert {name: field.type for name, field in fields.items()} == {"price": "struct<cents: long>", "at": "timestamp"}
    again = answer("schemas", "pull", "orders-value", folder=folder)
    assert again.startswith("schemas/orders-value.proto (as it was): ")
    assert "with money/price.proto (as it was)\n" in again


def test_a_version_is_pulled_by_its_number(registry: SchemaRegistry, folder: Path) -> None:
    for members in ([member("id", "long")], [member("id", "long"), member("note", "string")]):
        registry.register("orders-value", record("Order", *members))
    file = folder / "schemas" / "orders-value.avsc"
    answer("schemas", "pull", "orders-value", folder=folder)
    assert [one["name"] for one in json.loads(file.read_text())["fields"]] == ["id", "note"]
    said = answer("schemas", "pull", "orders-value", "--version", "1", folder=folder)
    assert said.startswith("schemas/orders-value.avsc (replaced): version 1 of subject 'orders-value', schema id 1\n")
    assert json.loads(file.read_text()) == record("Order", member("id", "long"))


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["order-value"], 2, "the schema registry has no such version of 'order-value': Subject 'order-value' not found (40401) — did you mean 'orders-value'?"),
        (["orders-value", "--version", "7"], 2, "the schema registry has no such version of 'orders-value': Version 7 not found (40402)"),
        (["texts-value"], 2, "schema id 2 (subject 'texts-value') is not valid: got a schema of string, allowed is one of a record"),
        (["json-value"], 2, "schema id 3 (subject 'json-value'): got a schema of JSON, of which nothing is read: a source declares its `fields`"),
        (["other-value"], 2, "schema id 4 (subject 'other-value'): got a schema of XML, allowed is one of AVRO or PROTOBUF"),
        (["described-value"], 2, "schema id 5 (subject 'described-value'): got a descriptor, allowed is the text of a .proto; copy that from its producer"),
        (["leading-value"], 2, "schema id 6 (subject 'leading-value'): got a reference '../orders.proto', which is no name of a file"),
        (["itself-value"], 2, "schema id 7 (subject 'itself-value'): got a reference 'itself-value.proto', which is no name of a file"),
        (["referring-value"], 2, "schema id 8 (subject 'referring-value'): got a descriptor as its reference 'a.proto', allowed is the text of a .proto; copy that from its producer"),
    ],
)  # fmt: skip
def test_what_cannot_be_pulled_is_one_sentence(
    registry: SchemaRegistry, folder: Path, failing: Failing, arguments: list[str], status: int, said: str
) -> None:
    registry.register("orders-value", ORDER)
    registry.register("texts-value", '"string"')
    registry.register("json-value", {"type": "object"}, kind="JSON")
    registry.register("other-value", "<schema/>", kind="XML")
    registry.register("described-value", "EgF0", kind="PROTOBUF")
    for subject, name in (("leading", "../orders.proto"), ("itself", "itself-value.proto"), ("referring", "a.proto")):
        named = [{"name": name, "subject": "described-value", "version": 1}]
        registry.register(f"{subject}-value", 'syntax = "proto3";', named, kind="PROTOBUF")
    assert failing.sentence("schemas", "pull", *arguments, folder=folder, status=status) == said
    assert not (folder / "schemas").exists()


def test_a_registry_that_fails_is_one_sentence(
    registry: SchemaRegistry, folder: Path, failing: Failing, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.fault = 500, {"error_code": 50001, "message": "Store"}
    said = failing.sentence("schemas", "list", folder=folder, status=75)
    assert said == f"the schema registry at {registry.url} does not answer (500: Store)"
    registry.fault = None
    monkeypatch.setenv("REGISTRY_PASSWORD", "sailfish")
    said = failing.sentence("schemas", "pull", "orders-value", folder=folder, status=1)
    assert "does not let this user in (401: Unauthorized)" in said
    assert "sailfish" not in said
    (folder / "hourline.yaml").write_text("")
    said = failing.sentence("schemas", "list", folder=folder, status=2)
    assert (
        said == "hourline.yaml has no schema registry: declare its address there, `registry: {url: https://HOST:PORT}`"
    )
