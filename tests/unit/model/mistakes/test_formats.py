"""A mistake in a format, in a file of schemas, or between a schema and its fields is one sentence with its line."""

import json
from pathlib import Path

import pytest

from hourline import load_project
from hourline_core.formats.schema_fields import describe_following_fields, find_unreadable
from hourline_core.model import Source
from hourline_core.model.decoding import decoding_of, describe_changes
from tests.support.avro import record_schema
from tests.support.declaration_mistakes import METRIC, mistakes
from tests.support.project_files import write_project

TIMED = """{"type": "record", "name": "R", "fields": [
  {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
  {"name": "wait", "type": {"type": "fixed", "name": "W", "size": 12, "logicalType": "duration"}},
  {"name": "n", "type": "int"}]}"""


def source(format: str) -> str:
    return f"topic: t\nformat: {format}\nfields: {{a: string}}\nevent_time: a\n"


@pytest.mark.parametrize(
    ("format", "said"),
    [
        (
            "avro",
            "format: got 'avro', allowed are json, or a mapping of one of avro, protobuf, csv, text, json, such as avro: {schema: orders.avsc}",
        ),
        (
            "{}",
            "format: got a mapping, allowed are json, or a mapping of one of avro, protobuf, csv, text, json, such as avro: {schema: orders.avsc}",
        ),
        ("{arvo: {}}", "format.arvo: is not a known key — did you mean 'avro'?"),
        ("{avro: {}}", "format.avro.schema: is missing"),
        ("{avro: null}", "format: got a mapping, allowed are json, or a mapping of one of avro,"),
        (
            "{avro: {schema: ../hourline.yaml}}",
            "format.avro.schema: got the schema '../hourline.yaml', which cannot be read: ",
        ),
        (
            "{protobuf: {schema: /etc/hosts}}",
            "format.protobuf.schema: got the schema '/etc/hosts', which cannot be read: it",
        ),
        ("{json: null}", "format: got a mapping, allowed are json, or a mapping of one of avro,"),
        ("{json: {fields: a}}", "format.json.fields: is not a known key"),
        ("{avro: x}", "format.avro: got 'x', allowed is a mapping with the keys schema, registry"),
        (
            "{avro: {schema: none.avsc}}",
            "format.avro.schema: got the schema 'none.avsc', which cannot be read: No such file or directory; allowed is "
            "the name of a file in the folder schemas (there are bad.avsc), or a schema itself",
        ),
        (
            "{avro: {schema: bad.avsc}}",
            "format.avro.schema: got no JSON, allowed is a schema as JSON: Expecting value: line 1 column 1 (char 0)",
        ),
    ],
)
def test_a_format_names_what_is_allowed(tmp_path: Path, format: str, said: str) -> None:
    found = mistakes(tmp_path, {"sources/s.yaml": source(format), "schemas/bad.avsc": "nothing"})
    (line,) = [line for line in found if line.startswith("sources/")]
    assert line.startswith(f"sources/s.yaml:2: {said}")


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ('"int"', "got a schema of int, allowed is one of a record"),
        ('{"type": "record", "name": "R"}', "record R: got nothing as fields, allowed is a list of fields"),
        ('{"type": "record", "name": "a b", "fields": []}', "the schema: got the name 'a b', allowed are letters"),
        ('{"type": "array"}', "the schema: got no items of an array"),
        ('{"type": "record", "name": "R", "fields": [{"name": "x"}]}', "record R: got the field a mapping, allowed is"),
        (
            '{"type": "record", "name": "R", "fields": [{"name": "x", "type": "lnog"}]}',
            "x: got the type 'lnog', which is not declared before; allowed are null, boolean,",
        ),
        (
            '{"type": "record", "name": "R", "fields": [{"name": "x", "type": ["int", "int"]}]}',
            "x: got the type int twice in a union, allowed is each one once",
        ),
        (
            '{"type": "record", "name": "R", "fields": [{"name": "x", "type": [["int"]]}]}',
            "x: got a union of 1 types, allowed is at least one, and no union",
        ),
        (
            '{"type": "record", "name": "R", "fields": [{"name": "x", "type": {"type": "enum", "name": "E"}}]}',
            "enum E: got nothing as symbols, allowed is a list of different names",
        ),
        (
            '{"type": "record", "name": "R", "fields": [{"name": "x", "type": {"type": "fixed", "name": "F"}}]}',
            "fixed F: got the size nothing, allowed is a number of bytes",
        ),
        (
            '{"type": "record", "name": "R", "fields": [{"name": "x", "type": {"type": "bytes", "logicalType": "decimal",'
            ' "precision": 1000000000}}]}',
            "got a decimal with the precision 1000000000, allowed are 1000",
        ),
        (
            '{"type": "record", "name": "R", "fields": [{"name": "x", "type": {"type": "fixed", "name": "R"}}]}',
            "x: got the name R again, allowed is each name once",
        ),
    ],
)
def test_a_schema_that_is_none_names_the_place(tmp_path: Path, schema: str, said: str) -> None:
    found = mistakes(tmp_path, {"sources/s.yaml": source("{avro: {schema: s.avsc}}"), "schemas/s.avsc": schema})
    (line,) = [line for line in found if line.startswith("sources/")]
    assert line.startswith(f"sources/s.yaml:2: format.avro.schema: {said}")


def test_the_fields_follow_from_the_schema_and_those_without_a_type_are_told(tmp_path: Path) -> None:
    files = {"hourline.yaml": "", "schemas/s.avsc": TIMED, "metrics/m.yaml": METRIC}
    declared = "topic: t\nformat: {avro: {schema: s.avsc}}\nevent_time: at\n"
    project = load_project(write_project(tmp_path, {**files, "sources/s.yaml": declared}), {})
    assert {name: field.type for name, field in project.sources["s"].fields.items()} == {"at": "timestamp", "n": "int"}
    assert [*describe_following_fields(project)] == ["s: fields at: timestamp, n: int; no field follows from wait"]
    assert [*find_unreadable(project)] == []


def test_the_schema_may_stand_in_the_declaration(tmp_path: Path) -> None:
    indented = "\n".join(f"    {line}" for line in TIMED.splitlines())
    declared = f"topic: t\nformat:\n  avro:\n   schema: |\n{indented}\nevent_time: at\n"
    files = {"hourline.yaml": "", "sources/s.yaml": declared, "metrics/m.yaml": METRIC}
    project = load_project(write_project(tmp_path, files), {})
    assert [*project.sources["s"].fields] == ["at", "n"]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ("{at: timestamp, m: int}", "field 'm': got a schema without 'm', want one of at, wait, n"),
        ("{at: timestamp, m: {type: int, key: k}}", "field 'm': got a schema without 'k', want one of at, wait, n"),
        ("{at: timestamp, wait: string}", "field 'wait': got the schema's type duration, want string"),
        ("{at: long, n: string}", "field 'at': got the schema's type timestamp-millis, want long"),
    ],
)
def test_fields_that_the_schema_cannot_give_are_told_with_their_line(tmp_path: Path, fields: str, said: str) -> None:
    declared = f"topic: t\nformat: {{avro: {{schema: s.avsc}}}}\nfields: {fields}\nevent_time: at\n"
    files = {"hourline.yaml": "", "schemas/s.avsc": TIMED, "sources/s.yaml": declared, "metrics/m.yaml": METRIC}
    project = load_project(write_project(tmp_path, files), {})
    assert [*find_unreadable(project)] == [f"sources/s.yaml:3: fields: {said}"]


def test_another_schema_is_another_decoding() -> None:
    def declared(**members: str) -> Source:
        format = {"avro": {"schema": json.dumps(record_schema(**members))}}
        return Source.model_validate(
            {"name": "s", "topic": "t", "format": format, "fields": {"a": "long"}, "event_time": "a"}
        )

    before, now = decoding_of(declared(a="long")), decoding_of(declared(a="long", b="int"))
    assert before.hash != now.hash
    assert describe_changes(before, now) == ["schema of the format avro is another one"]
    json_source = Source.model_validate({"name": "s", "topic": "t", "fields": {"a": "long"}, "event_time": "a"})
    assert describe_changes(decoding_of(json_source), now) == ["the format, which was json, is avro"]


def test_a_source_of_json_has_fields(tmp_path: Path) -> None:
    found = mistakes(tmp_path, {"sources/s.yaml": "topic: t\nformat: json\nevent_time: a\n"})
    assert [line for line in found if line.startswith("sources/")] == ["sources/s.yaml:1: fields: is missing"]


def test_sources_of_one_topic_have_one_format(tmp_path: Path) -> None:
    one = "topic: t\nbranch: n = 1\nfields: {n: int, at: string}\nevent_time: at\n"
    csv = one.replace("branch: n = 1\n", "branch: otherwise\nformat: {csv: {columns: [n, at]}}\n")
    found = mistakes(tmp_path, {"sources/s.yaml": one, "sources/u.yaml": csv})
    assert [line for line in found if "format" in line] == [
        "sources/u.yaml:3: format: got another one than source 's' has, allowed is the same for all sources of a topic, "
        "with the same schema: see sources/s.yaml:1"
    ]
