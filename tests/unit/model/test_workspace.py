"""Where a project's workspace and tables lie."""

import os
import sys
from pathlib import Path

import pytest

from hourline_core.errors import UsageError
from hourline_core.model import load_project
from tests.support.flights import SOURCE
from tests.support.project_files import write_project


def test_workspace_and_tables_lie_where_the_settings_say(tmp_path: Path) -> None:
    folder = write_project(tmp_path / "shop", {"hourline.yaml": "", "sources/flights.yaml": SOURCE})
    assert load_project(folder, {}).name == "shop"
    assert load_project(folder, {}).workspace == folder / ".hourline"
    assert load_project(folder, {}).tables == str(folder / ".hourline" / "tables")
    elsewhere = load_project(folder, {}, workspace=tmp_path / "elsewhere")
    assert (elsewhere.workspace, elsewhere.tables) == (tmp_path / "elsewhere", str(tmp_path / "elsewhere" / "tables"))
    write_project(folder, {"hourline.yaml": "workspace: work\ntables: s3://bucket/prefix/\n"})
    assert load_project(folder, {}).workspace == folder / "work"
    assert load_project(folder, {}).tables == "s3://bucket/prefix"
    write_project(folder, {"hourline.yaml": "tables: data\n"})
    assert load_project(folder, {}).tables == str(folder / "data")


def test_a_home_folder_that_is_unknown_is_a_name_as_any_other(tmp_path: Path) -> None:
    settings = "workspace: ~nobody-here/work\ntables: ~nobody-here/tables\n"
    folder = write_project(tmp_path / "shop", {"hourline.yaml": settings, "sources/flights.yaml": SOURCE})
    project = load_project(folder, {})
    assert (project.workspace, project.tables) == (folder / "~nobody-here/work", str(folder / "~nobody-here/tables"))
    assert load_project(folder, {}, workspace=Path("~nobody-here")).workspace == Path.cwd() / "~nobody-here"


@pytest.mark.parametrize("odd", ["%", "a%20b", "back\\slash", "new\nline", "tab\tbed"])
def test_tables_lie_where_all_that_reads_them_finds_them(odd: str, tmp_path: Path) -> None:
    folder = write_project(tmp_path / "shop", {"hourline.yaml": "", "sources/flights.yaml": SOURCE})
    with pytest.raises(
        UsageError,
        match=r"^tables cannot be in '.*': the Delta libraries misread '.{1,4}' in a path; choose another",
    ):
        load_project(folder, {}, workspace=tmp_path / odd)


def test_a_name_that_is_not_utf8_is_told_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_project(
        tmp_path / os.fsdecode(b"gr\xf6\xdfe"), {"hourline.yaml": "", "sources/flights.yaml": SOURCE}
    )
    with pytest.raises(
        UsageError, match=r"a name in that path is not UTF-8; rename that folder, or choose another work"
    ):
        load_project(folder, {})
    monkeypatch.setattr(sys, "getfilesystemencoding", lambda: "ascii")
    with pytest.raises(
        UsageError, match=r"Python takes names of files for ascii here: set PYTHONUTF8=1, or run `python"
    ):
        load_project(folder, {})
