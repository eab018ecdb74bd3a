"""The declaration of a source that reads files: what it has, and what is refused beside it."""

from datetime import timedelta
from pathlib import Path

import pytest

from hourline_core.errors import DeclarationError
from hourline_core.model import Project, load_project
from hourline_core.model.topology_text import topology_mermaid, topology_text
from tests.support.project_files import write_project

REST = "\nfields: {at: timestamp}\nevent_time: at\n"


def declared(folder: Path, *lines: str) -> Project:
    return load_project(write_project(folder, {"hourline.yaml": "", "sources/orders.yaml": "\n".join(lines) + REST}))


def test_a_folder_and_a_table_are_places_of_a_source_without_topics(tmp_path: Path) -> None:
    of_folder = declared(tmp_path / "folder", "files: {folder: in}").sources["orders"]
    of_table = declared(tmp_path / "table", "delta: {table: lake}").sources["orders"]
    assert of_folder.files
    assert (of_folder.files.settle, of_folder.files.pattern) == (timedelta(seconds=5), "*")
    assert [(one.topic, one.place, one.reads_files, one.is_derived) for one in (of_folder, of_table)] == [
        (None, "in", True, False),
        (None, "lake", True, False),
    ]
    assert of_table.origin_text == "read from the Delta table lake"


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (
            ["files: {folder: in}", "topic: orders"],
            "topic: got it beside `files`, which reads no topic: leave topic out",
        ),
        (["delta: {table: in}", "branch: true"], "branch: got it beside `delta`, which reads no topic"),
        (["delta: {table: in}", "format: json"], "format: got it beside `delta`, which reads no topic"),
        (["files: {folder: in}", "delta: {table: in}"], "delta: got it beside `files`, allowed is one of them"),
        (["files: {folder: in}", "snapshot: {of: a, columns: b}"], "files: got it beside `snapshot`, allowed is one"),
        (
            ["files: {folder: 's3://bucket/in'}"],
            "files.folder: got 's3://bucket/in', allowed is a path on this machine",
        ),
        (["files: {folder: ''}"], "files.folder: "),
        (["files: {folder: in, settle: soon}"], "files.settle: got 'soon'"),
        (["files: {folder: in, format: xml}"], "files.format: got 'xml', allowed are csv, jsonl, parquet, avro"),
        (["files: in"], "files: "),
        ([], "topic: is missing: allowed is the name of a Kafka topic, `files` or a `delta` table, a `join` of two"),
    ],
    ids=str,
)
def test_what_a_source_of_files_has_not_is_refused(tmp_path: Path, lines: list[str], said: str) -> None:
    with pytest.raises(DeclarationError) as refused:
        declared(tmp_path, *lines)
    assert said in str(refused.value)


def test_the_graph_has_folders_and_tables(tmp_path: Path) -> None:
    write_project(tmp_path, {"sources/returns.yaml": f"delta: {{table: lake}}{REST}"})
    project = declared(tmp_path, "files: {folder: in}")
    assert topology_text(project).splitlines() == [
        "folder in",
        "  source orders: event time at",
        "Delta table lake",
        "  source returns: event time at",
    ]
    assert '    files0[("folder in")]' in topology_mermaid(project).splitlines()
    assert "    files1 --> source_returns" in topology_mermaid(project).splitlines()
