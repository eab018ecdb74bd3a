"""A field has a type and a name that can be."""

from pathlib import Path

import pytest

from tests.support.declaration_mistakes import UNCLOSED, mistakes

TYPES = "allowed are string, int, long, float, double, boolean, timestamp, date, json, decimal(p,s), struct<a: string, …>, array<…> and map<string, …>"


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ("strng", f"got 'strng', {TYPES} — did you mean 'string'?"),
        ("bigint", f"got 'bigint', {TYPES} — did you mean 'long'?"),
        ("binary", f"got 'binary', {TYPES}"),
        ("decimal", "got 'decimal', allowed is decimal(p,s), such as decimal(18,2)"),
        ("decimal(39,2)", "got 'decimal(39,2)', allowed is decimal(p,s) with p from 1 to 38 and s from 0 to p"),
        ("array<int", f"got 'array<int', {UNCLOSED}"),
        ("array<int, int>", "got 'array<int, int>', allowed is array<type>"),
        ("map<string>", "got 'map<string>', allowed is map<string, type>"),
        ("struct<>", "got 'struct<>', allowed is struct<name: type, …>"),
    ],
)
def test_field_types(tmp_path: Path, declared: str, said: str) -> None:
    source = f'topic: t\nfields:\n  a: string\n  x: "{declared}"\nevent_time: a\n'
    assert mistakes(tmp_path, {"sources/s.yaml": source}) == [f"sources/s.yaml:4: fields.x.type: {said}"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("größe", "allowed are letters from a to z and A to Z, digits and _, not starting with a digit"),
        ("kWh used", "allowed are letters from a to z and A to Z, digits and _, not starting with a digit"),
        ("record", "which means the Kafka record itself (record.key, record.timestamp, …)"),
        ("_hourline_x", "allowed are names that do not begin with _hourline_, as Hourline's own columns do"),
    ],
)
def test_a_field_that_cannot_have_its_name_is_told_of_the_key(tmp_path: Path, name: str, said: str) -> None:
    source = f"topic: t\nfields:\n  a: string\n  {name}: int\nevent_time: a\n"
    assert mistakes(tmp_path, {"sources/s.yaml": source}) == [
        f"sources/s.yaml:4: fields.{name}: got the name '{name}', {said}: "
        f"give the field another name, as in `a_name: {{type: …, key: {name}}}`"
    ]
