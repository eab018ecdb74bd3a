"""What `hourline check` says of folders and Delta tables that are not there yet."""

from pathlib import Path

from hourline import load_project
from hourline.cli.check import describe_missing_folders
from tests.support.project_files import write_project

REST = "\nfields: {at: timestamp}\nevent_time: at\n"


def test_each_folder_that_is_not_there_is_named_with_its_line(tmp_path: Path) -> None:
    files = {"hourline.yaml": "", "sources/a.yaml": f"files: {{folder: in}}{REST}"}
    files["sources/b.yaml"] = f"delta: {{table: '{tmp_path}/lake'}}{REST}"
    files["sources/c.yaml"] = f"topic: c{REST}"
    project = load_project(write_project(tmp_path, files), {})
    assert list(describe_missing_folders(project)) == [
        f"sources/a.yaml:1: files.folder: there is no folder {tmp_path}/in; the speed layer waits for it",
        f"sources/b.yaml:1: delta.table: there is no folder {tmp_path}/lake; the speed layer waits for it",
    ]
    (tmp_path / "in").mkdir()
    (tmp_path / "lake").mkdir()
    assert list(describe_missing_folders(project)) == []
