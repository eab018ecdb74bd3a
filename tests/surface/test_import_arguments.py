"""Files that cannot be imported get one sentence, and a file is known by its content."""

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hourline import load_project
from hourline_core.runtime.lease import lease
from speed_layer.import_files import find_history
from tests.support.command_line import Failing


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["history.jsonl", "--source", "scnas"], "there is no source 'scnas' — did you mean 'scans'?"),
        (["histroy.jsonl", "--source", "scans"], "did you mean 'history.jsonl'?"),
        (["history.jsonl", "histroy.jsonl", "--source", "scans"], "did you mean 'history.jsonl'?"),
        (["metrics", "--source", "scans"], "metrics is a folder"),
        (["empty.csv", "--source", "scans"], "empty.csv is empty"),
        (["header.csv", "--source", "scans"], "header.csv holds no records"),
        (["table.parquet", "--source", "scans", "--format", "jsonl"], "holds no JSON object in its first lines"),
        (["history.jsonl", "--source", "scans", "--format", "parquet"], "is not a valid Parquet file"),
        (["table.parquet", "--source", "scans"], "has none of the fields of source 'scans'"),
        (["history.jsonl", "--source", "scans", "--null-text", "NA"], "leave --null-text out"),
        (["table.csv", "--source", "scans"], "line 3: got 1 cells"),
    ],
)
def test_a_file_that_cannot_be_imported_gets_one_sentence(
    failing: Failing,
    declared: Path,
    arguments: list[str],
    said: str,
) -> None:
    (declared / "history.jsonl").write_text('{"depot": "north", "at": "2024-05-06T20:00:00Z"}\n')
    (declared / "empty.csv").write_text("")
    (declared / "header.csv").write_text("depot,at\n")
    (declared / "table.csv").write_text("depot,at\nnorth,2024-05-06T20:00:00Z\nsouth\n")
    pq.write_table(pa.table({"colour": ["red"]}), declared / "table.parquet")
    assert said in failing.sentence("import", *arguments, folder=declared)
    assert not (declared / ".hourline" / "tables").exists()


def test_while_the_speed_layer_runs_nothing_is_imported(failing: Failing, declared: Path) -> None:
    (declared / "history.jsonl").write_text('{"depot": "north", "at": "2024-05-06T20:00:00Z"}\n')
    with lease(load_project(declared, {"KAFKA": "localhost:1"}).workspace, "speed"):
        said = failing.sentence("import", "history.jsonl", "--source", "scans", folder=declared, status=75)
    assert "`hourline down`" in said


def test_a_file_is_known_by_its_content_also_packed_or_given_twice(declared: Path) -> None:
    project = load_project(declared, {"KAFKA": "localhost:1"})
    plain, packed = declared / "a.jsonl", declared / "b.jsonl.gz"
    plain.write_text('{"depot": "north", "at": "2024-05-06T20:00:00Z"}\n')
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    (found,) = find_history(project, project.sources["scans"], [str(plain), str(packed), str(plain)])
    assert (found.name, found.imported, found.rows.total) == ("a.jsonl", 0, 1)
