"""The files that belong to a schema of Protobuf, and what its editions and options mean for the types."""

from pathlib import Path

import pytest

from hourline_core.model.fields import Field
from hourline_core.model.protobuf_format import schema_files
from hourline_core.model.protobuf_schema import imports_of
from tests.support.protobuf import decode, format_of, write


@pytest.mark.parametrize(
    ("text", "imports"),
    [
        ('import "a.proto";', ["a.proto"]),
        ("import public 'a/b.proto'; import weak \"c.proto\";", ["a/b.proto", "c.proto"]),
        ('import /* why */ "a.proto" // here\n;', ["a.proto"]),
        ('// import "a.proto";\n/*\nimport "b.proto";\n*/', []),
        ('message M { string s = 1 [default = "/* "]; }\nimport "a.proto"; // */', ["a.proto"]),
        ('import "google/protobuf/any.proto"; import "google/type/date.proto";', ["google/type/date.proto"]),
    ],
)
def test_imports_are_found_as_the_compiler_finds_them(text: str, imports: list[str]) -> None:
    assert list(imports_of(text)) == imports


def test_only_files_of_the_folder_belong_to_a_schema(tmp_path: Path) -> None:
    outside = tmp_path / "outside.proto"
    folder = tmp_path / "schemas"
    folder.mkdir()
    outside.write_text("message O {}")
    (folder / "a.proto").write_text('import "b.proto"; import "a.proto"; import "unknown.proto";')
    (folder / "b.proto").write_text('import "a.proto";')
    text = f'import "../outside.proto"; import "{outside}"; import "a.proto"; import "./b.proto";'
    assert [name for name, _ in schema_files("", text, folder)] == ["", "a.proto", "./b.proto", "b.proto"]


def test_editions_declare_presence_and_closed_enums() -> None:
    schema = """
        edition = "2023";
        import "google/protobuf/descriptor.proto";
        extend google.protobuf.FieldOptions { int32 weight = 50001; }
        enum Kind { option features.enum_type = CLOSED; ONE = 3; TWO = 4; }
        message Part { int32 n = 1; }
        message M {
          int32 a = 1 [default = 5, (weight) = 3];
          int32 b = 2 [features.field_presence = IMPLICIT];
          int32 c = 3;
          repeated Kind kinds = 4;
          Kind kind = 5 [default = TWO];
          Part part = 6 [features.message_encoding = DELIMITED];
        }
    """
    fields = {name: Field(type=kind or "") for name, kind in format_of(schema, "M").fields.items()}
    value = write(schema, "kinds: TWO kinds: ONE part { n: 7 }", "M")
    assert decode(schema, fields, value, b"\x20\x09", message="M") == (
        [
            {"a": 5, "b": 0, "c": None, "kinds": ["TWO", "ONE"], "kind": "TWO", "part": {"n": 7}},
            dict.fromkeys(fields),
        ],
        [None, "field 'kinds[0]': got 9, want the number of one of 2 names of enum Kind"],
    )
