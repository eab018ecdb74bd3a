"""A mistake in a schema of Protobuf names its file and line; one about its message says which ones there are."""

from pathlib import Path

import pytest

from hourline import load_project
from hourline_core.model.decoding import decoding_of
from hourline_core.model.project import Project
from tests.support.declaration_mistakes import METRIC, mistakes

SOURCE = "topic: t\nformat:\n  protobuf:\n    schema: {schema}\n{message}event_time: at\n"
SHOP = """syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "money/price.proto";
message Order {
  message Item { string name = 1; }
  google.protobuf.Timestamp at = 1;
  repeated Item items = 2;
  money.Price price = 3;
  map<string, string> labels = 4;
}
message Refund { string id = 1; }
"""
PRICE = """syntax = "proto3";
// import "unknown.proto";
package money; import 'money/currency.proto'; message Price { Currency currency = 1; }
"""
CURRENCY = """syntax = "proto3"; package money; enum Currency { EUR = 0; }"""
FILES: dict[str, str | bytes] = {
    "schemas/shop.proto": SHOP,
    "schemas/money/price.proto": PRICE,
    "schemas/money/currency.proto": CURRENCY,
}


def source_of(schema: str = "shop.proto", message: str = "shop.Order") -> str:
    return SOURCE.format(schema=schema, message=f"    message: {message}\n" if message else "")


def load(folder: Path, files: dict[str, str | bytes]) -> Project:
    for name, text in {"hourline.yaml": "", "metrics/m.yaml": METRIC, **files}.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load_project(folder, {})


@pytest.mark.parametrize(
    ("files", "source", "said"),
    [
        (
            {},
            source_of("shp.proto"),
            "4: format.protobuf.schema: got the schema 'shp.proto', which cannot be read: No such file or directory; "
            "allowed is the name of a file in the folder schemas (there are shop.proto), or a schema itself",
        ),
        (
            {},
            source_of(message="shop.Orders"),
            "5: format.protobuf.message: got 'shop.Orders', allowed is one of shop.Order, shop.Order.Item, shop.Refund",
        ),
        (
            {},
            source_of(message="Order"),
            "5: format.protobuf.message: got 'Order', allowed is one of shop.Order, shop.Order.Item, shop.Refund",
        ),
        (
            {},
            source_of(message=""),
            "3: format.protobuf.message: got no message, allowed is one of shop.Order, shop.Refund",
        ),
        (
            {"schemas/shop.proto": SHOP.replace("string name = 1;", "string name = 1")},
            source_of(),
            '4: format.protobuf.schema: got no schema of Protobuf: schemas/shop.proto:6: Expected ";"',
        ),
        (
            {"schemas/shop.proto": SHOP.replace("money.Price price = 3", "money.Prices price = 3")},
            source_of(),
            '4: format.protobuf.schema: got no schema of Protobuf: schemas/shop.proto:9: "money.Prices" is not defined',
        ),
        (
            {"schemas/shop.proto": SHOP.replace("= 3;", "= 2;")},
            source_of(),
            "4: format.protobuf.schema: got no schema of Protobuf: schemas/shop.proto:9: Field number 2 has already been "
            'used in "shop.Order" by field "items". Next available field number is 3',
        ),
        (
            {"schemas/shop.proto": SHOP.replace("money/price.proto", "money/prices.proto")},
            source_of(),
            '4: format.protobuf.schema: got no schema of Protobuf: schemas/shop.proto:4: Import "money/prices.proto" was '
            "not found or had errors",
        ),
        (
            {"schemas/shop.proto": SHOP.replace("money/price.proto", "../sources/s.yaml")},
            source_of(),
            '4: format.protobuf.schema: got no schema of Protobuf: schemas/shop.proto:4: Import "../sources/s.yaml" was '
            "not found or had errors",
        ),
        (
            {"schemas/money/currency.proto": CURRENCY.replace("= 0", "= 1")},
            source_of(),
            "4: format.protobuf.schema: got no schema of Protobuf: schemas/money/currency.proto:1: The first enum value "
            "must be zero for open enums",
        ),
        (
            {"schemas/shop.proto": 'syntax = "proto3"; enum E { A = 0; }'},
            source_of(message=""),
            "3: format.protobuf.message: got no message, allowed is one of those in the schema, which has none",
        ),
        (
            {},
            source_of('|\n      syntax = "proto3";\n      massage Order {}', ""),
            "4: format.protobuf.schema: got no schema of Protobuf: line 2 of it: Expected top-level statement (e.g. "
            '"message")',
        ),
        (
            {},
            source_of("[shop.proto]"),
            "4: format.protobuf.schema: got a list, allowed is the name of a file in the folder schemas, or a schema itself",
        ),
        (
            {"schemas/shop.proto": b"\xff"},
            source_of(),
            "4: format.protobuf.schema: got the schema 'shop.proto', which cannot be read: it is no text in UTF-8; allowed is "
            "the name of a file in the folder schemas (there are shop.proto), or a schema itself",
        ),
        (
            {"schemas/shop.proto": ""},
            source_of(),
            "4: format.protobuf.schema: got nothing, allowed is the name of a file in the folder schemas, or a schema itself",
        ),
    ],
)
def test_protobuf(tmp_path: Path, files: dict[str, str | bytes], source: str, said: str) -> None:
    (tmp_path / "schemas" / "money").mkdir(parents=True)
    assert mistakes(tmp_path, {**FILES, **files, "sources/s.yaml": source}) == [f"sources/s.yaml:{said}"]


def test_fields_follow_from_a_schema_that_imports_others(tmp_path: Path) -> None:
    source = load(tmp_path, {**FILES, "sources/s.yaml": source_of()}).sources["s"]
    assert {name: str(field.tree) for name, field in source.fields.items()} == {
        "at": "timestamp",
        "items": "array<struct<name: string>>",
        "price": "struct<currency: string>",
        "labels": "map<string, string>",
    }


def test_a_schema_in_the_declaration_may_import_files_and_needs_no_message_if_it_has_one(tmp_path: Path) -> None:
    text = '|\n      syntax = "proto3";\n      import "money/currency.proto";\n      message O { string at = 1; money.Currency c = 2; }'
    source = load(tmp_path, {**FILES, "sources/s.yaml": source_of(text, "")}).sources["s"]
    assert {name: str(field.tree) for name, field in source.fields.items()} == {"at": "string", "c": "string"}


def test_a_schema_may_stand_in_one_line(tmp_path: Path) -> None:
    source = load(tmp_path, {"sources/s.yaml": source_of("'message O { optional string at = 1; }'", "")}).sources["s"]
    assert list(source.fields) == ["at"]


def test_an_installation_without_the_compiler_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find(name: str) -> None:
        assert name == "grpc_tools"

    monkeypatch.setattr("hourline_core.model.protobuf_schema.find_spec", find)
    (tmp_path / "schemas" / "money").mkdir(parents=True)
    files = {**FILES, "schemas/shop.proto": SHOP + "// Not compiled before.", "sources/s.yaml": source_of()}
    assert mistakes(tmp_path, files) == [
        "sources/s.yaml:4: format.protobuf.schema: got a schema of Protobuf, whose compiler is not installed: "
        "`pip install 'hourline[protobuf]'`"
    ]


def test_another_text_of_an_imported_file_is_another_decoding(tmp_path: Path) -> None:
    before = load(tmp_path, {**FILES, "sources/s.yaml": source_of()}).sources["s"]
    changed = {**FILES, "schemas/money/currency.proto": CURRENCY.replace("EUR", "USD"), "sources/s.yaml": source_of()}
    assert decoding_of(load(tmp_path, changed).sources["s"]).hash != decoding_of(before).hash
    assert decoding_of(load(tmp_path, {**FILES, "sources/s.yaml": source_of()}).sources["s"]) == decoding_of(before)
