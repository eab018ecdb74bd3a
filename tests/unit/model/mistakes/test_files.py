"""A file that cannot be read has the line; all mistakes of all files are told at once; no project at all is told too."""

from pathlib import Path

import pytest

from hourline import load_project
from hourline_core.errors import DeclarationError, UsageError
from tests.support.declaration_mistakes import METRIC, SOURCE, UNCLOSED, mistakes


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "1: the file is empty: declare a metric in it, or delete it"),
        ("# nothing\n", "1: the file is empty: declare a metric in it, or delete it"),
        ("- a\n", "1: got a list, allowed is a mapping, `key: value`"),
        ("a\n", "1: got text, allowed is a mapping, `key: value`"),
        (
            "source: s\nmeasures:\n\tn: count\n",
            "3: this is not YAML (found character '\\t' that cannot start any token): indent with spaces",
        ),
        (
            "source: s\nwhere: a: b\n",
            "2: this is not YAML (mapping values are not allowed here): put text in quotes that has ': ', ' #', or a special character at its start",
        ),
        (
            "source: s\n---\nsource: s\n",
            "2: this is not YAML (but found another document): write one document per file",
        ),
        (b"source: s\nwhere: \xff\n", "2: got the byte 0xff, allowed is text in UTF-8"),
        (b"a: " + b"[" * 2000, "1: got lists and mappings hundreds deep, allowed are a few levels"),
        (b"source: s\nwhere: \x01\n", "2: got the control character '\\x01', allowed is printable text"),
        (
            "source: s\nmeasures: {n: count, n: count}\n",
            "2: measures.n: got the key a second time, allowed is once: see line 2",
        ),
        ("source: s\nmeasures: {n: count}\n? [a]\n: b\n", "3: got a list or mapping as a key, allowed is text"),
        (
            "source: s\nmeasures: &m {n: *m}\n",
            "2: measures.n: got an alias (*) for a value that contains it, allowed are aliases for others",
        ),
        (
            'source: s\nmeasures: {n: count}\n"new\\nline": x\n',
            "3: new line: is not a known key (there is: description, dimensions, expectations, history, measures, name, source, where, window)",
        ),
        ("source: s\nmeasures: {n: count}\nwhere: |\n  (a\n  > 1\n", f"3: where: got '(a > 1', {UNCLOSED}"),
        ("source: s\n", "1: measures: is missing"),
        ("source: s\nmeasures: {}\n", "2: measures: got nothing, allowed is at least one"),
        ("source: x\nmeasures: {n: count}\n", "1: source: got 'x', which is no source of this project (there is: s)"),
    ],
)
def test_files(tmp_path: Path, text: str | bytes, said: str) -> None:
    assert mistakes(tmp_path, {"metrics/m.yaml": text}) == [f"metrics/m.yaml:{said}"]


def test_all_mistakes_of_all_files_are_told_at_once(tmp_path: Path) -> None:
    found = mistakes(
        tmp_path,
        {
            "hourline.yaml": "spark: {mastr: x}\n",
            "sources/s.yaml": "topic: {regex: t}\nfields: {a: strng}\n",
            "sources/two.yaml": "name: s2\n" + SOURCE.replace("t\n", "u\n", 1),
            "sources/three.yaml": SOURCE.replace("t\n", "u\n", 1),
            "metrics/again.yaml": "name: m\n" + METRIC,
            "metrics/x.yaml": "source: s3\nmeasures: {n: count}\n",
        },
    )
    assert [mistake.split(": got")[0] for mistake in found] == [
        "hourline.yaml:1: spark.mastr: is not a known key — did you mean 'master'?",
        "sources/s.yaml:1: topic",
        "sources/s.yaml:1: event_time: is missing",
        "sources/s.yaml:2: fields.a.type",
        "metrics/m.yaml:1",
        "sources/two.yaml:2: topic",
        "metrics/x.yaml:1: source",
    ]
    assert found[4] == "metrics/m.yaml:1: got the metric 'm' again, allowed is each name once: see metrics/again.yaml:1"
    assert found[5].startswith("sources/two.yaml:2: topic: got 'u', which source 'three' reads, too; allowed is one")


def test_no_source(tmp_path: Path) -> None:
    (tmp_path / "hourline.yaml").touch()
    with pytest.raises(
        DeclarationError,
        match=r"^sources: there is no source: write sources/NAME\.yaml, or see what `hourline init` writes",
    ):
        load_project(tmp_path, {})


def test_no_project(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"is no Hourline project, it has no hourline\.yaml: .* `hourline init`$"):
        load_project(tmp_path, {})
    with pytest.raises(UsageError, match=r"^there is no folder .*missing: name the project's folder with --project$"):
        load_project(tmp_path / "missing", {})
