"""Mistakes in the formats `csv` and `text`, and in the fields beside them. Each is one line."""

from pathlib import Path

import pytest

from hourline import load_project
from tests.support.declaration_mistakes import mistakes

RE2 = r"allowed is a regular expression of RE2 with named groups, such as (?P<status>\d{3})"
DELIMITER = 'allowed is one character of ASCII that is no quote and no line end, such as ";"'
COLUMNS = "format: {csv: {columns: [a, total]}}\n"
PATTERN = "format: {text: {pattern: '(?P<a>.)(?P<total>.)'}}\n"


def source(format: str, fields: str = "") -> str:
    return f"topic: t\nevent_time: a\n{format}{fields}"


@pytest.mark.parametrize(
    ("csv", "said"),
    [
        ("a", "csv: got 'a', allowed is a mapping with the keys columns, delimiter, null_text"),
        ("{}", "csv.columns: is missing"),
        ("{columns: a}", "csv.columns: got 'a', allowed is a list, such as [origin]"),
        ("{columns: []}", "csv.columns: got nothing, allowed is at least one"),
        ("{columns: [a, b, a]}", 'csv.columns.2: got the column "a" again, allowed is each name once'),
        ("{columns: [a, ' b']}", 'csv.columns.1: got " b", allowed is a name without blanks around it'),
        ("{columns: [a, '']}", 'csv.columns.1: got "", allowed is a name without blanks around it'),
        ("{columns: [a], delimiter: ';;'}", f'csv.delimiter: got ";;", {DELIMITER}'),
        ("{columns: [a], delimiter: ''}", f'csv.delimiter: got "", {DELIMITER}'),
        ("{columns: [a], delimiter: '\"'}", f'csv.delimiter: got "\\"", {DELIMITER}'),
        ('{columns: [a], delimiter: "\\n"}', f'csv.delimiter: got "\\n", {DELIMITER}'),
        ("{columns: [a], delimiter: §}", f'csv.delimiter: got "§", {DELIMITER}'),
        ("{columns: [a], delimter: ;}", "csv.delimter: is not a known key — did you mean 'delimiter'?"),
        ("{columns: [a], null_text: [NA]}", "csv.null_text: got a list, allowed is text"),
    ],
)
def test_mistakes_in_csv(tmp_path: Path, csv: str, said: str) -> None:
    found = mistakes(tmp_path, {"sources/s.yaml": source(f"format: {{csv: {csv}}}\n")})
    assert found == [f"sources/s.yaml:3: format.{said}"]


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("x+", f"got an expression without a named group, {RE2}"),
        ("(?P<a>x", f"got an expression that RE2 does not take (missing ): (?P<a>x), {RE2}"),
        ("(?P<a>x)(?=y)", f"got an expression that RE2 does not take (invalid perl operator: (?=), {RE2}"),
        (r"(?P<a>x)\1", rf"got an expression that RE2 does not take (invalid escape sequence: \1), {RE2}"),
        ("(?P<a>x{2000})", f"got an expression that RE2 does not take (invalid repetition size: {{2000}}), {RE2}"),
        (
            "(?P<a>x))|(?:y",
            f"got an expression that RE2 does not take (unexpected ): (?P<a>x))|(?:y), {RE2}",
        ),
        (r"(?P<a>x)\Qy", rf"got an expression that \Q leaves open, {RE2}"),
        ("(?P<a>x)(y)", f"got a group without a name, {RE2}, or (?:…) for what is no field"),
        ("(?P<a>x)|(?P<a>y)", "got the group 'a' again, allowed is each name once"),
        (
            r"\\(?P<a>\C)\C",
            r"got \C, which is one byte of a character, allowed are expressions over whole characters",
        ),
    ],
)
def test_mistakes_in_a_pattern(tmp_path: Path, pattern: str, said: str) -> None:
    found = mistakes(tmp_path, {"sources/s.yaml": source(f"format: {{text: {{pattern: '{pattern}'}}}}\n")})
    assert found == [f"sources/s.yaml:3: format.text.pattern: {said}"]


def test_half_of_a_surrogate_pair_is_no_character_of_a_pattern(tmp_path: Path) -> None:
    found = mistakes(tmp_path, {"sources/s.yaml": source('format: {text: {pattern: "(?P<a>\\ud800)"}}\n')})
    said = f"got half of a surrogate pair, which is no character, {RE2}"
    assert found == [f"sources/s.yaml:3: format.text.pattern: {said}"]


@pytest.mark.parametrize(("format", "what"), [(COLUMNS, "columns"), (PATTERN, "groups of the pattern")])
def test_a_field_that_no_record_can_have_is_refused(tmp_path: Path, format: str, what: str) -> None:
    said = {
        "{a: string, b: int}": f"b: got 'b', allowed are the {what}: a, total",
        "{a: string, totl: int}": f"totl: got 'totl', allowed are the {what}: a, total — did you mean 'total'?",
        "{a: string, b: {type: int, key: A}}": f"b.key: got 'A', allowed are the {what}: a, total — did you mean 'a'?",
    }
    for fields, sentence in said.items():
        found = mistakes(tmp_path, {"sources/s.yaml": source(format, f"fields: {fields}\n")})
        assert found == [f"sources/s.yaml:4: fields.{sentence}"]


def test_a_column_that_is_no_name_of_a_field_has_to_be_declared_as_a_key(tmp_path: Path) -> None:
    found = mistakes(tmp_path, {"sources/s.yaml": source("format: {csv: {columns: [a, N r.]}}\n")})
    assert found == [
        "sources/s.yaml:1: fields.N r.: got the name 'N r.', allowed are letters from a to z and A to Z, digits and _, "
        "not starting with a digit: give the field another name, as in `a_name: {type: …, key: N r.}`"
    ]


@pytest.mark.parametrize(
    "format", [COLUMNS, PATTERN, r"format: {text: {pattern: '(?P<a>\\C)(?<total>\Q(x\E)'}}" + "\n"]
)
def test_without_fields_all_of_them_are_strings(tmp_path: Path, format: str) -> None:
    (tmp_path / "sources").mkdir()
    (tmp_path / "hourline.yaml").touch()
    (tmp_path / "sources" / "s.yaml").write_text(source(format))
    fields = load_project(tmp_path, {}).sources["s"].fields
    assert {name: field.type for name, field in fields.items()} == {"a": "string", "total": "string"}
