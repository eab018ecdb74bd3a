"""A refresh reads the table that a lookup declares, and keeps each content as a version."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from hourline_core.errors import ConflictError, TableError
from hourline_core.ledger.layout import Layout
from hourline_core.lookups import refresh as refreshing
from hourline_core.lookups.refresh import LookupState, find_unusable, read_rows, read_state, refresh
from hourline_core.lookups.rows import LookupRows
from hourline_core.lookups.versions import find_newest, is_kept, read_version
from hourline_core.model import Lookup, Project, Settings
from hourline_core.storage.opening import open_table
from hourline_core.storage.vacuum import vacuum

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
PLANES: list[dict[str, Any]] = [
    {"tail": "N1", "maker": "AIRBUS", "seats": 182},
    {"tail": "N2", "maker": None, "seats": 55},
]
CSV = "tail,maker,seats\nN2,NA,55\nN1,AIRBUS,182\n"


def declare(root: Path, **settings: Any) -> Project:
    columns = {"tail": "string", "maker": "string", "seats": "int"}
    lookup = Lookup.model_validate({"name": "plane", "key": "tail", "columns": columns, **settings})
    return Project(root, Settings(), {}, {}, lookups={"plane": lookup})


def refresh_plane(project: Project) -> LookupState:
    return refresh(project, project.lookups["plane"], lambda: NOON)


def rows_of(project: Project, number: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = read_version(Layout.of(project), project.lookups["plane"], number).to_pylist()
    return rows


def write_csv(root: Path) -> Mapping[str, Any]:
    (root / "planes.csv").write_text(CSV)
    return {"table": "planes.csv", "nulls": ["NA"]}


def write_parquet(root: Path) -> Mapping[str, Any]:
    table = pa.Table.from_pylist(PLANES[::-1])
    pq.write_table(table.set_column(1, "maker", table["maker"].dictionary_encode()), root / "planes.parquet")
    return {"table": str(root / "planes.parquet")}


def write_delta(root: Path) -> Mapping[str, Any]:
    write_deltalake(str(root / "planes"), pa.Table.from_pylist(PLANES))
    return {"table": "planes"}


def write_duckdb(root: Path) -> Mapping[str, Any]:
    with duckdb.connect(str(root / "fleet.duckdb")) as database:
        database.register("planes", pa.Table.from_pylist(PLANES))
        database.execute("CREATE SCHEMA air; CREATE TABLE air.planes AS FROM planes")
    return {"table": "duckdb:fleet.duckdb?table=air.planes"}


@pytest.mark.parametrize("write", [write_csv, write_parquet, write_delta, write_duckdb])
def test_each_kind_of_table_gives_the_same_version(write: Callable[[Path], Mapping[str, Any]], tmp_path: Path) -> None:
    project = declare(tmp_path, **write(tmp_path))
    state = refresh_plane(project)
    assert state.version
    assert (state.version.number, state.version.rows, state.problem, state.refreshed) == (1, 2, None, NOON)
    assert rows_of(project, 1) == PLANES
    assert read_state(project, project.lookups["plane"]) == state


def test_only_another_content_is_another_version(tmp_path: Path) -> None:
    project = declare(tmp_path, **write_csv(tmp_path))
    refresh_plane(project)
    (tmp_path / "planes.csv").write_text("seats,tail,maker\n182,N1,AIRBUS\n55,N2,NA\n9,,NA\n")  # in another order
    again = refresh_plane(project)
    assert again.version
    assert (again.version.number, again.null_keys) == (1, 1)
    (tmp_path / "planes.csv").write_text(CSV.replace("55", "56"))
    assert (newer := refresh_plane(project).version)
    assert newer.number == 2
    assert rows_of(project, 1) == PLANES
    assert rows_of(project, 2) == [PLANES[0], {**PLANES[1], "seats": 56}]


@pytest.mark.parametrize(
    ("content", "settings", "words"),
    [
        (None, {}, "there is no file"),
        ("tail,maker\nN1,A\n", {}, "has no column 'seats'"),
        ("tail,maker,seats\nN1,A,many\n", {}, "planes.csv, line 2: got 'many' in the column 'seats'"),
        ("tail,maker,seats\nN1,A,1\nN1,B,2\n", {}, "several rows of tail 'N1'"),
        ("tail,maker,seats\nN1,A,1\nN2,B,2\n", {"most_rows": 1}, "has more than 1 rows"),
        (
            "tail,maker,seats\n",
            {},
            "has no row with a key, allowed is one or more: fill it, or declare allow_empty: true",
        ),
        ("tail,maker,seats\n,A,1\n", {}, "has no row with a key"),
    ],
)
def test_a_table_that_cannot_be_used_leaves_the_version_before(
    content: str | None, settings: Mapping[str, Any], words: str, tmp_path: Path
) -> None:
    good = declare(tmp_path, **write_csv(tmp_path))
    before = refresh_plane(good)
    project = declare(tmp_path, **write_csv(tmp_path), **settings)
    (tmp_path / "planes.csv").unlink() if content is None else (tmp_path / "planes.csv").write_text(content)
    state = refresh_plane(project)
    assert words in (state.problem or "")
    assert (state.version, state.refreshed) == (before.version, NOON)
    assert read_state(project, project.lookups["plane"]) == state
    assert words in "".join(find_unusable(project))


@pytest.mark.parametrize("write", [write_parquet, write_delta, write_duckdb])
def test_a_value_that_does_not_fit_is_told_with_its_row(
    write: Callable[[Path], Mapping[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PLANES[1], "seats", 1 << 40)
    problem = refresh_plane(declare(tmp_path, **write(tmp_path))).problem or ""
    assert "column 'seats' of " in problem
    assert ", in the row of tail 'N2', has a value that is no int: " in problem


def test_a_workspace_without_space_leaves_the_version_before(tmp_path: Path) -> None:
    project = declare(tmp_path, **write_csv(tmp_path))
    before = refresh_plane(project)
    folder = project.workspace / "run" / "sorted_lookups"
    folder.rmdir()
    folder.touch()  # No file can be written into it.
    (tmp_path / "planes.csv").write_text(CSV.replace("55", "56"))
    state = refresh_plane(project)
    assert "cannot be sorted" in (state.problem or "")
    assert str(project.workspace / "run") in (state.problem or "")
    assert (state.version, state.refreshed) == (before.version, NOON)
    assert read_state(project, project.lookups["plane"]) == state


def test_what_was_read_before_another_process_committed_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = declare(tmp_path, **write_csv(tmp_path))
    overtakes = iter([True])

    def read_slowly(*arguments: Any) -> LookupRows:
        read = read_rows(*arguments)
        if next(overtakes, False):  # The table changes, and the other process reads and commits that.
            (tmp_path / "planes.csv").write_text(CSV.replace("55", "56"))
            refresh_plane(project)
        return read

    monkeypatch.setattr(refreshing, "read_rows", read_slowly)
    state = refresh_plane(project)
    assert state.version
    assert rows_of(project, state.version.number) == [PLANES[0], {**PLANES[1], "seats": 56}]
    assert (state.version.number, state.problem) == (1, None)


def test_a_table_that_may_be_empty_is_taken_without_rows(tmp_path: Path) -> None:
    project = declare(tmp_path, **write_csv(tmp_path), allow_empty=True)
    refresh_plane(project)
    (tmp_path / "planes.csv").write_text("tail,maker,seats\n")
    state = refresh_plane(project)
    assert state.version
    assert (state.problem, state.version.number, state.version.rows) == (None, 2, 0)


def test_no_number_stands_for_two_contents_when_the_declaration_changes(tmp_path: Path) -> None:
    """A column is added and taken away again, and the key is another one, while the table changes."""
    wide = {"tail": "string", "maker": "string", "seats": "int"}
    declared: Sequence[Mapping[str, Any]] = [
        {"columns": {"tail": "string", "seats": "int"}},
        {"columns": wide},
        {"columns": {"tail": "string", "seats": "int"}},
        {"columns": wide, "key": "seats"},
        {"columns": wide},
    ]
    contents: dict[int, list[dict[str, Any]]] = {}
    for place, settings in enumerate(declared):
        project = declare(tmp_path, **{**write_csv(tmp_path), **settings})
        (tmp_path / "planes.csv").write_text(CSV.replace("55", f"{60 + place}"))
        known = find_newest(Layout.of(project), project.lookups["plane"])
        assert (known is None) == (place in (0, 1, 3)), "it was read as it is declared"
        for _ in range(2):
            version = refresh_plane(project).version
            assert version
            rows = rows_of(project, version.number)
            assert contents.setdefault(version.number, rows) == rows
    assert len(contents) == len(declared), "each content has one number"
    assert sorted(contents) == list(contents), "numbers rise"

    last = declare(tmp_path, **write_csv(tmp_path))
    layout, plane = Layout.of(last), last.lookups["plane"]
    numbers = list(contents)
    assert [is_kept(layout, plane, number) for number in numbers] == [True, True, True, False, True]
    assert rows_of(last, numbers[0]) == [{**row, "maker": None} for row in contents[numbers[0]]]
    with pytest.raises(
        TableError, match=f"version {numbers[3]} of lookup 'plane' was read by another declaration: its key"
    ):
        rows_of(last, numbers[3])
    text = declare(tmp_path, **write_csv(tmp_path), columns={**wide, "seats": "string"})
    assert not is_kept(layout, text.lookups["plane"], numbers[0])
    assert find_newest(layout, text.lookups["plane"]) is None


def test_a_version_that_is_used_again_is_kept_as_the_newest_one(tmp_path: Path) -> None:
    """A column is added, and taken away again."""
    narrow = {"columns": {"tail": "string", "seats": "int"}}
    before, used = [declare(tmp_path, **write_csv(tmp_path), **settings) for settings in (narrow, {})], list[int]()
    for project in (*before, before[0], before[0]):
        version = refresh_plane(project).version
        assert version
        used.append(version.number)
    first, _, again, last = used
    assert rows_of(before[0], again) == rows_of(before[0], first)
    assert again == last, "equal content makes no version otherwise"
    layout, plane = Layout.of(before[0]), before[0].lookups["plane"]
    vacuum(open_table(layout.lookup(plane), {}), 0)  # as if `keep` had ended for all that was replaced
    assert [is_kept(layout, plane, number) for number in used] == [False, False, True, True]


def test_the_newest_version_counts_if_others_commit_all_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = declare(tmp_path, **write_csv(tmp_path))
    layout, plane = Layout.of(project), project.lookups["plane"]

    def commit_too_late(*arguments: Any) -> Any:
        raise ConflictError("another process has written")

    refresh_plane(project)
    monkeypatch.setattr(refreshing, "commit_version", commit_too_late)
    (tmp_path / "planes.csv").write_text(CSV.replace("55", "56"))
    state = refresh_plane(project)
    assert (state.version, state.problem) == (find_newest(layout, plane), None)


def test_a_version_that_is_no_longer_kept_is_refused_in_a_sentence(tmp_path: Path) -> None:
    project = declare(tmp_path, **write_csv(tmp_path))
    refresh_plane(project)
    layout, lookup = Layout.of(project), project.lookups["plane"]
    assert is_kept(layout, lookup, 1)
    for file in open_table(layout.lookup(lookup), layout.storage_options, 1).file_uris():
        Path(file).unlink()
    assert not is_kept(layout, lookup, 1)
    with pytest.raises(TableError, match="version 1 of lookup 'plane' is no longer kept"):
        read_version(layout, lookup, 1)
