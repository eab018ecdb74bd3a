"""Which files of a folder are read, in which order, and what becomes of the others."""

import gzip
import json
import os
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hourline import load_project
from hourline_core.ledger.files_read import FileRead, identity_of
from speed_layer.files import folder as folder_module
from speed_layer.files.arrivals import ArrivedFile
from speed_layer.files.folder import Folder
from tests.support.project_files import write_project

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)


class World:
    """A folder, and a speed layer that reads its files whole. ``read`` is what progress would have."""

    def __init__(self, root: Path, settle: str = "0s", more: str = "") -> None:
        write_project(
            root,
            {
                "hourline.yaml": "name: folder",
                "sources/orders.yaml": f"""
                    files: {{folder: in, settle: {settle}{more}}}
                    fields: {{order: string, at: timestamp}}
                    event_time: at
                """,
            },
        )
        self.folder = root / "in"
        self.folder.mkdir(exist_ok=True)
        self.project = load_project(root, {})
        self.read: dict[str, FileRead] = {}
        self.rows: list[str] = []
        self.start()

    def start(self) -> None:
        """Start it anew."""
        self.arrivals = Folder(self.project, self.project.sources["orders"], self.read, lambda: NOW)

    def write(self, name: str, *orders: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{json.dumps({'order': order})}\n" for order in orders))
        return path

    def read_all(self, most: int | None = None) -> list[str]:
        """Read what can be read, in one micro-batch; with ``most``, that many rows of the first file alone, as if it
        were killed then. Returns the names of the files.
        """
        batch = []
        while file := self.arrivals.next():
            self.arrivals.begin(file)
            batch.append(file)
            if most is not None:
                break
        for file in batch:
            payloads = [payload for _, payload in file.rows][file.begun :][:most]
            assert file.is_unchanged()
            self.rows += [json.loads(payload)["order"] for payload in payloads]
            self.note_read(file, file.begun + len(payloads))
        return [file.name for file in batch]

    def note_read(self, file: ArrivedFile, end: int) -> None:
        """Commit the rows up to ``end``."""
        self.read[identity_of(file.topic_id)] = FileRead(file.topic_id, file.name, end)
        self.arrivals.note_read(file, end)

    @property
    def held(self) -> dict[str, str]:
        return {one.name: one.reason for one in self.arrivals.unread.held}


@pytest.fixture(autouse=True)
def look_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_module, "_SECONDS_BETWEEN_LOOKS", 0)
    monkeypatch.setattr(folder_module, "_LOOKS_SHARE", 1e9)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    yield World(tmp_path)


def test_files_are_read_in_the_order_in_which_they_were_written(world: World) -> None:
    for name, seconds in (("b.jsonl", 3), ("sub/a.jsonl", 1), ("c.jsonl", 2)):
        os.utime(world.write(name, name), (seconds, seconds))
    assert world.read_all() == ["sub/a.jsonl", "c.jsonl", "b.jsonl"]
    world.start()
    assert world.read_all() == []
    assert world.arrivals.unread.waiting == 0


def test_a_file_is_read_once_it_has_not_changed_for_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr("speed_layer.files.folder.time.monotonic", lambda: now[0])
    world = World(tmp_path, settle="5s")
    world.write("a.jsonl", "1")
    seen = []
    for moment in (0, 4.9, 5.0):
        now[0] = 1000 + moment
        seen.append((world.read_all(), world.arrivals.unread.waiting, world.arrivals.is_drained()))
        if moment == 4.9:
            world.write("a.jsonl", "1", "2")
    for moment in (9.9, 10.0):
        now[0] = 1000 + moment
        seen.append((world.read_all(), world.arrivals.unread.waiting, world.arrivals.is_drained()))
    now[0] = 1011
    seen.append((world.read_all(), world.arrivals.unread.waiting, world.arrivals.is_drained()))
    assert [names for names, _, _ in seen] == [[], [], [], [], ["a.jsonl"], []]
    assert [(waiting, drained) for _, waiting, drained in (seen[0], seen[-1])] == [(1, False), (0, True)]
    assert world.rows == ["1", "2"]


def test_names_of_unfinished_files_are_passed_over_and_the_pattern_chooses(tmp_path: Path) -> None:
    world = World(tmp_path, more=', pattern: "*.jsonl*"')
    for name in (
        ".a.jsonl",
        "_a.jsonl",
        "a.jsonl.tmp",
        "a.jsonl.part",
        "a.jsonl.partial",
        ".x/a.jsonl",
        "_x/a.jsonl",
        "a.csv",
    ):
        world.write(name, name)
    world.write("a.jsonl", "1")
    (world.folder / "b.jsonl.gz").write_bytes(gzip.compress(b'{"order": "2"}\n'))
    world.write("empty.jsonl")
    assert sorted(world.read_all()) == ["a.jsonl", "b.jsonl.gz"]
    assert world.held == {}
    assert world.arrivals.is_drained(), "an empty file is waited for, but nothing of it is missing"
    assert world.arrivals.unread.waiting == 0


def test_the_same_bytes_under_another_name_are_left_out_and_counted(world: World) -> None:
    original = world.write("a.jsonl", "1", "2")
    world.read_all()
    (world.folder / "a.jsonl.gz").write_bytes(gzip.compress(original.read_bytes()))
    shutil.copy(original, world.folder / "b.jsonl")
    assert world.read_all() == []
    assert world.arrivals.unread.left_out == 2
    original.rename(world.folder / "c.jsonl")
    world.start()
    assert world.read_all() == []
    assert (world.rows, world.arrivals.unread.left_out, world.held) == (["1", "2"], 3, {})
    # A copy may be written over: nothing of it was read.
    world.write("b.jsonl", "3")
    assert world.read_all() == ["b.jsonl"]


def test_what_was_read_is_held_when_it_changes_until_it_is_as_it_was(world: World) -> None:
    file = world.write("a.jsonl", "1")
    world.read_all()
    file.touch()
    os.utime(file, (5, 5))
    assert (world.read_all(), world.held) == ([], {})
    world.write("a.jsonl", "1", "2")
    for _ in range(2):
        assert world.read_all() == []
        assert world.held == {"a.jsonl": "it was changed after it was read: put what is new into another file"}
        world.start()
    world.write("a.jsonl", "1")
    assert (world.read_all(), world.held) == ([], {})
    # Another file may take its name when it has gone.
    file.unlink()
    assert world.read_all() == []
    world.write("a.jsonl", "3")
    assert (world.read_all(), world.held) == (["a.jsonl"], {})


def test_a_file_that_goes_before_its_end_is_held_until_it_is_back_under_any_name(world: World, tmp_path: Path) -> None:
    file = world.write("a.jsonl", *map(str, range(5)))
    world.read_all(most=2)
    away = file.rename(tmp_path / "away")
    world.start()
    assert world.read_all() == []
    assert world.held == {"a.jsonl": "it is gone, and only 2 of its rows were read: put it back"}
    away.rename(world.folder / "b.jsonl")
    assert world.read_all() == ["b.jsonl"]
    assert (world.rows, world.held) == ([*map(str, range(5))], {})


def test_a_file_that_cannot_be_read_is_held_until_it_changes(world: World) -> None:
    bad = {
        "header.csv": (b"a;b\n1;2\n", "got ';' between the columns of its header"),
        "foreign.csv": (b"x,y\n1,2\n", "it has none of the fields of source 'orders'"),
        "latin.csv": ("Stück,Größe\n1,2\n".encode("latin-1"), "its columns are St\\udcfcck, Gr\\udcf6\\udcdfe"),
        "bytes.csv": (b"a\x90 ,b\n1,2\n", 'got the column "a\\udc90 "'),
        "cells.csv": (b"order,at\n1\n", "line 2: got 1 cells, but the header names 2 columns"),
        "array.json": (b'[{"order": "1"}]', "got a JSON array"),
        "text.jsonl": (
            b"hello\n",
            "holds no JSON object in its first lines; if it is CSV, Parquet or Avro, say so, as in files.format: csv",
        ),
        "broken.parquet": (b"PAR1 no", "is not a valid Parquet file"),
        "broken.avro": (b"Obj\x01no", "is not a valid Avro file"),
        "cut.csv.gz": (gzip.compress(b"order,at\n" * 900)[:40], "ends in the middle of its packed data"),
        "no.zip": (b"no zip", "is not a valid zip file"),
        "order.txt": (b"order\n", "holds lines of text, which a source with `format: text or csv` reads"),
    }
    for name, (content, _) in bad.items():
        (world.folder / name).write_bytes(content)
    world.write("good.jsonl", "1")
    assert world.read_all() == ["good.jsonl"]
    assert world.held.keys() == bad.keys()
    for name, (_, reason) in bad.items():
        assert reason in world.held[name]
        assert str(world.folder) not in world.held[name]
    world.start()
    assert world.read_all() == []
    assert world.held.keys() == bad.keys()
    (world.folder / "cells.csv").write_text("order,at\n2,\n")
    (world.folder / "order.txt").unlink()
    assert world.read_all() == ["cells.csv"]
    assert world.held.keys() == bad.keys() - {"cells.csv", "order.txt"}


def test_a_file_without_rows_is_read(world: World) -> None:
    (world.folder / "a.csv").write_text("order,at\n")
    assert (world.read_all(), world.held, world.arrivals.unread.waiting) == ([], {}, 0)


def test_a_folder_that_is_not_there_is_held_and_forgets_nothing(world: World, tmp_path: Path) -> None:
    world.write("a.jsonl", "1")
    world.read_all()
    away = world.folder.rename(tmp_path / "away")
    assert world.read_all() == []
    assert world.held == {str(world.folder): "there is no such folder"}
    away.rename(world.folder)
    assert (world.read_all(), world.held, world.arrivals.unread.left_out) == ([], {}, 0)


def test_a_lost_or_broken_memory_of_files_changes_no_row(world: World) -> None:
    world.write("a.jsonl", "1")
    world.write("b.jsonl", "2", "3")
    world.read_all(most=1)
    (memory,) = (world.project.workspace / "files").iterdir()
    for content in (None, b"no database"):
        memory.unlink()
        if content:
            memory.write_bytes(content)
        world.start()
        world.read_all()
        assert sorted(world.rows) == ["1", "2", "3"]
        assert (world.held, world.arrivals.unread.left_out) == ({}, 0)


def test_of_two_copies_that_come_together_one_is_read(world: World) -> None:
    for name in ("a.jsonl", "b.jsonl"):
        os.utime(world.write(name, "1", "2"), (5, 5))
    assert world.read_all() == ["a.jsonl"]
    assert world.read_all() == []
    assert (world.rows, world.arrivals.unread.left_out, world.held) == (["1", "2"], 1, {})


@pytest.mark.parametrize("looks_first", [True, False])
def test_a_file_that_goes_while_it_is_read_is_told_with_what_counts(world: World, looks_first: bool) -> None:
    world.write("a.jsonl", "1", "2", "3")
    file = world.arrivals.next()
    assert file
    world.arrivals.begin(file)
    world.note_read(file, 2)
    (world.folder / "a.jsonl").unlink()
    if looks_first:
        assert world.arrivals.next() is None
    assert not file.is_unchanged()
    world.arrivals.hold(file, "it was taken away")
    for _ in range(2):
        assert world.read_all() == []
        assert world.held == {"a.jsonl": "it was taken away; 2 of its 3 rows were read, and count"}
        world.start()


@pytest.mark.parametrize("looks_first", [True, False])
def test_a_file_that_changes_before_a_row_was_read_is_read_as_it_is_then(world: World, looks_first: bool) -> None:
    world.write("a.jsonl", "1")
    file = world.arrivals.next()
    assert file
    world.arrivals.begin(file)
    world.write("a.jsonl", "1", "2")
    if looks_first:
        assert world.arrivals.next() is None
    world.arrivals.hold(file, "it was changed")
    assert world.held == {}
    assert (world.read_all(), world.rows) == (["a.jsonl"], ["1", "2"])


def test_a_changed_file_stays_held_when_what_it_was_is_read_under_another_name(world: World) -> None:
    world.write("a.jsonl", "1", "2", "3")
    world.read_all(most=2)
    world.write("a.jsonl", "1", "2", "3", "4")
    world.start()
    assert world.read_all() == []
    world.write("old.jsonl", "1", "2", "3")
    assert (world.read_all(), world.rows) == (["old.jsonl"], ["1", "2", "3"])
    for _ in range(2):
        assert world.read_all() == []
        assert world.held.keys() == {"a.jsonl"}
        world.start()


def test_files_are_read_again_if_progress_is_older_than_the_memory_of_them(world: World) -> None:
    world.write("a.jsonl", "1")
    world.read_all()
    world.write("b.jsonl", "2")
    before = dict(world.read)
    world.read_all()
    world.read, world.rows = before, ["1"]
    world.start()
    assert (world.read_all(), world.rows) == (["b.jsonl"], ["1", "2"])


def test_a_name_is_taken_as_it_is(world: World) -> None:
    for name in ("a::b.jsonl", "c [1]*.jsonl", "ü %41.jsonl"):
        world.write(name, name)
    (world.folder / os.fsdecode(b"\xff.jsonl")).write_text('{"order": "bytes"}\n')
    assert set(world.read_all()) == {"a::b.jsonl", "c [1]*.jsonl", "ü %41.jsonl", "\\xff.jsonl"}
    assert world.held == {}


@given(data=st.data())
def test_each_content_counts_once_whatever_happens_to_the_files(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    world = World(tmp_path_factory.mktemp("folder"))
    names, contents = ["a.jsonl", "b.jsonl", "c.jsonl"], [["1"], ["2", "3"], ["4", "5", "6"]]
    for _ in range(data.draw(st.integers(1, 12))):
        name = data.draw(st.sampled_from(names))
        path = world.folder / name
        step = data.draw(
            st.sampled_from(["write", "rename", "copy", "delete", "touch", "read", "read a row", "restart"])
        )
        others = [one for one in names if (world.folder / one).exists()]
        if step == "write":
            number = data.draw(st.integers(0, 2))
            world.write(name, *contents[number])
        elif step in ("rename", "copy") and path.exists():
            to = world.folder / data.draw(st.sampled_from(names))
            shutil.copy(path, world.folder / "_copy")
            if step == "rename":
                path.unlink()
            (world.folder / "_copy").rename(to)
        elif step == "delete":
            path.unlink(missing_ok=True)
        elif step == "touch" and others:
            os.utime(world.folder / others[0])
        elif step in ("read", "read a row"):
            world.read_all(most=1 if step == "read a row" else None)
            if step == "read a row":
                world.start()
        else:
            world.start()
    world.read_all()
    world.start()
    world.read_all()
    # No row counts twice. What is in the folder at the end counts, unless it is held.
    assert sorted(world.rows) == sorted(set(world.rows))
    for name in names:
        if (world.folder / name).exists() and name not in world.held:
            there = [json.loads(line)["order"] for line in (world.folder / name).read_text().splitlines()]
            assert set(there) <= set(world.rows)
    # Of what has begun, either all counts, or it is told.
    for content in contents:
        counted = set(content) & set(world.rows)
        assert counted in (set(), set(content)) or world.held
