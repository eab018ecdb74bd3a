"""Which files of a Delta table are read, in which order, and at which commits reading does not go on."""

import json
import shutil
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from hourline import load_project
from hourline_core.ledger.files_read import FileRead, identity_of
from speed_layer.files import delta_commits
from speed_layer.files.delta_commits import DeltaTableCommits
from tests.support.project_files import write_project

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)


class World:
    """A table, and a speed layer that reads its commits whole. ``read`` is what progress would have."""

    def __init__(self, root: Path, more: str = "") -> None:
        write_project(
            root,
            {
                "hourline.yaml": "name: lake",
                "sources/orders.yaml": f"""
                    delta: {{table: lake{more}}}
                    fields: {{order: string, shop: string, day: date, at: timestamp}}
                    event_time: at
                """,
            },
        )
        self.lake = root / "lake"
        self.project = load_project(root, {})
        self.read: dict[str, FileRead] = {}
        self.rows: list[str] = []
        self.start()

    def start(self) -> None:
        """Start it anew."""
        self.arrivals = DeltaTableCommits(self.project, self.project.sources["orders"], self.read, lambda: NOW)

    def append(self, *orders: str, shop: str | None = "north", partition_by: Sequence[str] = ()) -> None:
        size = len(orders)
        table = pa.table(
            {"order": orders, "shop": pa.array([shop] * size, pa.string()), "day": [date(2026, 3, 2)] * size}
        )
        write_deltalake(self.lake, table, mode="append", partition_by=list(partition_by) or None)

    def read_all(self, most: int | None = None) -> list[str]:
        """Read what can be read, in one micro-batch; with ``most``, that many rows of the first file alone, as if it
        were killed then. Returns the names of the files without their own.
        """
        batch = []
        while file := self.arrivals.next():
            self.arrivals.begin(file)
            batch.append(file)
            if most is not None:
                break
        assert len({file.name for file in batch}) == len(batch)
        for file in batch:
            payloads = [payload for _, payload in file.rows][file.begun :][:most]
            self.rows += [json.loads(payload)["order"] for payload in payloads]
            self.payload = payloads[-1]
            end = file.begun + len(payloads)
            self.read[identity_of(file.topic_id)] = FileRead(file.topic_id, file.name, end)
            self.arrivals.note_read(file, end)
        return [file.name.partition("/")[0] for file in batch]

    @property
    def held(self) -> list[str]:
        return [one.reason for one in self.arrivals.unread.held]


@pytest.fixture(autouse=True)
def look_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delta_commits, "_SECONDS_BETWEEN_LOOKS", 0)
    monkeypatch.setattr(delta_commits, "_SECONDS_BETWEEN_TRIES", 0)
    monkeypatch.setattr(delta_commits, "_SECONDS_BETWEEN_OPENINGS", 0)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_the_rows_of_the_table_are_read_and_then_those_of_each_commit(world: World) -> None:
    world.append("1", "2")
    world.append("3")
    assert world.read_all() == ["lake@1", "lake@1"]
    assert world.arrivals.is_drained()
    world.append("4")
    DeltaTable(world.lake).optimize.compact()
    world.append("5")
    assert world.read_all() == ["lake@2", "lake@4"]
    assert world.rows == [*"12345"]
    assert (world.held, world.arrivals.unread.waiting) == ([], 0)


@pytest.mark.parametrize("keeps_note", [True, False])
def test_a_start_goes_on_behind_what_progress_says(world: World, *, keeps_note: bool) -> None:
    def start() -> None:
        if not keeps_note:
            shutil.rmtree(world.project.workspace / "files", ignore_errors=True)
        world.start()

    world.append("1", "2", "3")
    world.read_all(most=2)
    # Commits come before the first version is read, and its file is not in the newest one any more.
    world.append("4")
    DeltaTable(world.lake).optimize.compact()
    start()
    assert world.read_all() == ["lake@0", "lake@1"]
    start()
    assert world.read_all() == []
    world.append("5")
    start()
    assert world.read_all() == ["lake@3"]
    assert world.rows == [*"12345"]


@pytest.mark.parametrize("keeps_note", [True, False])
def test_a_table_that_was_empty_at_first_is_read_once_through_a_kill(world: World, *, keeps_note: bool) -> None:
    DeltaTable.create(world.lake, pa.schema({"order": pa.string(), "shop": pa.string()}), partition_by=["shop"])
    assert world.read_all() == []
    shops = ["c", "a", "b"]
    write_deltalake(world.lake, pa.table({"order": ["1", "2", "3"], "shop": shops}), mode="append")
    while len(world.rows) < 3:
        world.read_all(most=1)
        if not keeps_note:
            shutil.rmtree(world.project.workspace / "files", ignore_errors=True)
        world.start()
    assert world.read_all() == []
    assert sorted(world.rows) == ["1", "2", "3"]


def test_commits_are_read_again_if_progress_is_older_than_the_note(world: World) -> None:
    world.append("1")
    world.read_all()
    before = dict(world.read)
    world.append("2")
    world.read_all()
    world.read, world.rows = before, ["1"]
    world.start()
    assert (world.read_all(), world.rows) == (["lake@1"], ["1", "2"])
    world.read, world.rows = {}, []
    world.start()
    assert (sorted(world.read_all()), sorted(world.rows)) == (["lake@1", "lake@1"], ["1", "2"])


def test_files_without_rows_and_those_that_the_source_read_before_as_another_one_are_passed(world: World) -> None:
    world.append("1")
    write_deltalake(world.lake, DeltaTable(world.lake).to_pyarrow_table().slice(0, 0), mode="append")
    commit = world.lake / "_delta_log/00000000000000000002.json"
    pa.parquet.write_table(pa.table({"order": pa.array([], pa.string())}), world.lake / "none.parquet")
    add = {"path": "none.parquet", "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}
    commit.write_text(json.dumps({"add": add}))
    world.read = {"0123": FileRead("file:arrived:0123:7", "a.csv", 7)}
    world.start()
    assert world.read_all() == ["lake@2"]
    assert (world.rows, world.held, world.arrivals.unread.waiting) == (["1"], [], 0)
    assert world.arrivals.is_drained()


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (pa.timestamp("us", "UTC"), datetime(2026, 3, 2, 10, 0, 0, 5, tzinfo=UTC), "2026-03-02T10:00:00.000005Z"),
        (pa.timestamp("us"), datetime(2026, 3, 2, 10, tzinfo=UTC).replace(tzinfo=None), "2026-03-02T10:00:00.000000"),
        (pa.decimal128(7, 2), Decimal("12.50"), Decimal("12.50")),
        (pa.bool_(), True, True),
        (pa.int8(), -5, -5),
        (pa.float64(), 0.1, Decimal("0.1")),
    ],
    ids=str,
)
def test_a_partition_of_any_type_is_read_alike_from_a_table_and_from_a_commit(
    world: World, kind: pa.DataType, value: object, text: object
) -> None:
    table = pa.table({"order": ["1"], "shop": pa.array([value], kind)})
    for _ in range(2):
        write_deltalake(world.lake, table, mode="append", partition_by=["shop"])
        assert (world.read_all()[0][:5], world.held) == ("lake@", [])
        assert json.loads(world.payload, parse_float=Decimal)["shop"] == text


def test_values_of_partitions_are_columns_of_each_row(world: World) -> None:
    world.append("1", shop='50 %s/"ü"', partition_by=["shop", "day"])
    expected = {"order": "1", "shop": '50 %s/"ü"', "day": "2026-03-02"}
    world.read_all()
    assert json.loads(world.payload) == expected
    world.append("1", shop='50 %s/"ü"')
    world.read_all()
    assert json.loads(world.payload) == expected
    world.append("1", shop=None)
    world.read_all()
    assert json.loads(world.payload) == {**expected, "shop": None}


@pytest.mark.parametrize("change", ["delete", "update", "overwrite"])
def test_reading_stops_before_a_commit_that_changes_rows(tmp_path: Path, change: str) -> None:
    world, passing = World(tmp_path), ", skip_change_commits: true"
    world.append("1", "2")
    world.read_all()
    if change == "delete":
        DeltaTable(world.lake).delete("order = '1'")
    elif change == "update":
        DeltaTable(world.lake).update({"shop": "'south'"}, predicate="order = '1'")
    else:
        write_deltalake(world.lake, DeltaTable(world.lake).to_pyarrow_table(), mode="overwrite")
    world.append("3")
    since = []
    for _ in range(2):
        assert world.read_all() == []
        (held,) = world.arrivals.unread.held
        since.append(held.since)
        assert held.name == "lake"
        assert "version 1 of the table at" in held.reason
        assert "changes or deletes rows, and each row counts once" in held.reason
        assert (world.arrivals.unread.waiting, world.arrivals.is_drained()) == (2, True)
    passed = World(tmp_path, passing)
    passed.read = world.read
    passed.start()
    assert passed.read_all() == ["lake@2"]
    assert (passed.rows, passed.held) == (["3"], [])


def test_reading_waits_for_a_table_a_commit_or_a_file_that_is_not_there(world: World, tmp_path: Path) -> None:
    assert world.read_all() == []
    assert world.held == [f"there is no table at {world.lake}"]
    world.lake.mkdir()
    assert world.read_all() == []
    assert world.held[0].startswith(f"the table at {world.lake} cannot be read: ")
    world.lake.rmdir()
    world.append("1")
    assert (world.read_all(), world.held) == (["lake@0"], [])

    world.append("2")
    (file,) = (path for path in world.lake.glob("*.parquet") if "2" in _orders(path))
    away = file.rename(tmp_path / "away")
    assert world.read_all() == []
    assert world.held == [f"{file} cannot be read: No such file or directory"]
    away.rename(file)
    assert (world.read_all(), world.held) == (["lake@1"], [])

    world.append("3")
    DeltaTable(world.lake).create_checkpoint()
    world.append("4")
    commit = world.lake / "_delta_log/00000000000000000002.json"
    away = commit.rename(tmp_path / "away")
    assert world.read_all() == []
    assert world.held == [
        f"{commit} is gone, and was not read before: put it back, or declare a new source, which begins with "
        "all rows of the table"
    ]
    away.rename(commit)
    assert (world.read_all(), world.held) == (["lake@2", "lake@3"], [])
    assert world.rows == [*"1234"]


def test_another_table_in_the_place_of_the_one_that_was_read_is_not_read(world: World) -> None:
    world.append("1")
    world.read_all()
    shutil.rmtree(world.lake)
    world.append("2")
    for _ in range(2):
        assert world.read_all() == []
        assert world.held == [
            f"the table at {world.lake} is another one than the one that was read: bring that one back, or declare a "
            "new source for this one"
        ]
        world.start()


def test_a_table_with_mapped_columns_is_refused_whatever_its_protocol(world: World) -> None:
    world.append("1")
    log = world.lake / "_delta_log/00000000000000000000.json"
    lines = [json.loads(line) for line in log.read_text().splitlines() if line]
    for one in lines:
        one.get("protocol", {}).update(minReaderVersion=2, minWriterVersion=5)
        if "metaData" in one:
            one["metaData"]["configuration"] = {"delta.columnMapping.mode": "name"}
    log.write_text("\n".join(map(json.dumps, lines)))
    assert world.read_all() == []
    (held,) = world.held
    assert "columnMapping" in held or "column mapping" in held.casefold()


def test_a_table_whose_files_do_not_tell_its_rows_is_refused(world: World) -> None:
    world.append("1")
    log = world.lake / "_delta_log/00000000000000000000.json"
    features = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["deletionVectors"]}
    lines = [json.loads(line) for line in log.read_text().splitlines() if line]
    lines = [
        {"protocol": {**features, "writerFeatures": ["deletionVectors"]}} if "protocol" in one else one for one in lines
    ]
    log.write_text("\n".join(map(json.dumps, lines)))
    assert world.read_all() == []
    assert world.held == [
        f"the table at {world.lake} has the feature deletionVectors, so its data files alone do not tell its rows; "
        "write its rows into a table without it"
    ]


def _orders(path: Path) -> list[str]:
    return [str(one) for one in pa.parquet.read_table(path)["order"].to_pylist()]
