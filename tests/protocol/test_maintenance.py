"""`hourline maintain`: the tables are compacted and vacuumed, and nobody who reads notices; killed anywhere, it is done
by the next run.
"""

import json
import os
import shutil
import signal
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import serving_layer
from batch_layer.backfill import plan_backfill
from batch_layer.decoding.to_decode import DECODE_WRITER, decoded_up_to
from batch_layer.maintenance import Maintenance
from batch_layer.plan import plan_range
from batch_layer.publication import Publication
from hourline.cli import app
from hourline_core.errors import ConflictError
from hourline_core.ledger.coverage import read_coverage
from hourline_core.ledger.layout import DECODED_SCHEMA, QUALITY_SCHEMA
from hourline_core.model.decoding import Decoding, decoding_of
from hourline_core.model.hours import HourRange
from hourline_core.runtime import failpoints
from hourline_core.runtime.lease import lease, turn
from hourline_core.storage import commits
from hourline_core.storage.creation import open_or_create
from hourline_core.storage.opening import open_table
from hourline_core.storage.version_retention import PUBLISHED
from speed_layer.commit.maintenance import maintain_stopped
from tests.support.bare_tables import BASE, SOURCE, TILINGS, BareTables, hour
from tests.support.forked import start
from tests.support.frozen_process import PATIENCE

HOURS = [*range(14), 3, 7, 11]
Rows = list[tuple[Any, ...]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fourteen hours, each published by itself, as the hourly recompute of an older version did: it merged nothing."""
    folder = tmp_path_factory.mktemp("made")
    tables = BareTables(folder, HOURS)
    tables.start()
    with patch("batch_layer.publication.SAVED_FILES", 14):
        for number in range(14):
            tables.micro_batch(1)
            tables.publish(number)
    return folder


@pytest.fixture
def tables(made: Path, tmp_path: Path) -> BareTables:
    return copied(made, tmp_path / "copy")


def copied(made: Path, folder: Path) -> BareTables:
    shutil.copytree(made, folder)
    return BareTables(folder, HOURS)


def test_compaction_changes_no_answer_and_the_second_run_does_nothing(tables: BareTables) -> None:
    tables.start()
    tables.micro_batch(2)  # hours that are revised
    with serving_layer.connect(tables.project) as early:
        before = answers(early)
        told = list(Maintenance(tables.project).run())
        assert {line.partition("/")[0].partition(":")[0] for line in told} == {"final", "drift", "quality"}
        assert answers(early) == before
        early.refresh()
        assert answers(early) == before
    tables.check()
    of = ("totals", TILINGS[0].declaration)
    final = open_table(tables.layout.final_of(*of), {}, read_coverage(tables.project).of(*of).pinned())
    assert len(final.file_uris()) == 1
    hours = final.to_pyarrow_table()["hour"].to_pylist()
    assert hours == sorted(hours)
    assert len(open_table(tables.layout.coverage, {}).file_uris()) == 1, "compacted with the commit that publishes"
    there = state(tables)
    assert list(Maintenance(tables.project).run()) == []
    assert state(tables) == there
    tables.publish(3)  # on top of what was compacted
    tables.check()
    there = state(tables)
    assert list(Maintenance(tables.project).run()) == [], "a publication each hour does not rewrite final each day"
    assert state(tables) == there


def test_a_dry_run_tells_and_changes_nothing(tables: BareTables) -> None:
    there = state(tables)
    told = list(Maintenance(tables.project, dry_run=True, kept_hours=0).run())
    told += maintain_stopped(tables.project, SOURCE, dry_run=True, kept_hours=0)
    assert any(line.startswith("final/totals") and "would have 14 files compacted into 1" in line for line in told), (
        told
    )
    assert any(line.startswith("events/clicks") for line in told), told
    assert state(tables) == there


def test_what_no_query_needs_is_deleted(tables: BareTables) -> None:
    grow_older(tables, hours=3)
    list(Maintenance(tables.project).run())  # what it compacts itself, a query may need
    grow_older(tables, hours=3)
    told = list(Maintenance(tables.project).run())
    assert all("old files deleted" in line for line in told), told
    left = {
        kind: [*(Path(tables.layout.root) / kind).rglob("part-*.parquet")]
        for kind in ("final", "staged", "coverage", "drift", "quality")
    }
    assert {kind: len(found) for kind, found in left.items()} == {
        "final": 2,  # one of each metric
        "staged": 2,
        "coverage": 1,
        "drift": 1,
        "quality": 1,
    }
    tables.check()
    assert list(Maintenance(tables.project).run()) == []


def test_a_reader_goes_on_for_as_long_as_a_query_may_take(tables: BareTables) -> None:
    """Files that were replaced long ago are still those of a version that coverage has named until just now."""
    tables.start()
    tables.publish(5, blocked=[5])
    tables.publish(6)  # stages other rows over those of the blocked hour
    with patch.object(Publication, "_commit_coverage", side_effect=KeyboardInterrupt), suppress(KeyboardInterrupt):
        tables.publish(8)  # replaces files of final that count, and dies
    grow_older(tables, hours=30)
    for _ in range(2):
        list(Maintenance(tables.project).run())
        assert staged(tables) == [(hour(5), 1)], "the rows of an hour that is blocked stay, however old"
        tables.check()
    with serving_layer.connect(tables.project) as early:
        before, blocked = answers(early), early.sql("SELECT hour, n FROM totals_staged ORDER BY hour").fetchall()
        tables.publish(*range(14))  # the hour is mended, and all files of final are others
        list(Maintenance(tables.project).run())
        grow_older(tables, hours=1)
        list(Maintenance(tables.project).run())
        assert answers(early) == before
        assert early.sql("SELECT hour, n FROM totals_staged ORDER BY hour").fetchall() == blocked
    assert staged(tables) == []
    tables.check()
    of = (TILINGS[0].metric.name, TILINGS[0].declaration)
    files = len(list(Path(tables.layout.staged_of(*of)).glob("*.parquet")))
    grow_older(tables, hours=2)
    list(Maintenance(tables.project).run())
    assert len(list(Path(tables.layout.staged_of(*of)).glob("*.parquet"))) < files
    tables.check()


def test_killed_at_every_step_it_is_done_by_the_next_run(made: Path, tmp_path: Path) -> None:
    with patch.object(Publication, "_commit_coverage", side_effect=KeyboardInterrupt), suppress(KeyboardInterrupt):
        copied(made, tmp_path / "made").publish(2)  # what it leaves has to be restored away, or deleted, too
    made = tmp_path / "made"
    places: list[str] = []
    with patch.object(failpoints, "visit", places.append):
        list(Maintenance(copied(made, tmp_path / "whole").project, kept_hours=0).run())
    places = [
        place for place in dict.fromkeys(places) if place.startswith("after")
    ]  # before the next one, it is the same
    steps = {
        "restore final",
        "compact final",
        "delete drift",
        "fence quality",
        "overwrite coverage",
        "vacuum final",
        "vacuum staged",
        "vacuum coverage",
    }
    assert steps < {place.removeprefix("after ") for place in places}, places
    tables = BareTables(made, HOURS)
    for place in places:  # one after the other on the same tables
        process = start(work, made, place)
        process.join(PATIENCE)
        assert process.exitcode == -signal.SIGKILL, f"'{place}' was not reached"
        tables.check()
        assert drift_rows(tables) == 14 * 2, "what was never published stays so"
    list(Maintenance(tables.project, kept_hours=0).run())
    tables.check()
    assert list(Maintenance(tables.project, kept_hours=0).run()) == []


def work(folder: Path, place: str) -> None:
    os.environ["HOURLINE_FAILPOINT"] = f"kill {place}"
    list(Maintenance(BareTables(folder, HOURS).project, kept_hours=0).run())


def test_a_recompute_that_slept_meanwhile_changes_nothing(tables: BareTables) -> None:
    publication = Publication(tables.project)
    list(Maintenance(tables.project).run())
    with patch("tests.support.bare_tables.Publication", return_value=publication), pytest.raises(ConflictError):
        tables.publish(4)
    assert drift_rows(tables) == 14 * 2
    tables.check()


def test_no_hour_counts_as_recomputed_because_it_was_compacted(tables: BareTables) -> None:
    hours = HourRange(hour(0), hour(14))
    planned = plan_range(tables.project, hours)
    plan_backfill(tables.project, hours)._remember(tables.project.workspace / "backfills" / "one.json")
    backfill = plan_backfill(tables.project, hours)
    assert backfill.file
    backfill._remember(backfill.file)
    list(Maintenance(tables.project).run())
    assert tables.left_out(planned) == []
    resumed = plan_backfill(tables.project, hours)
    assert resumed.resumed
    assert resumed.left == backfill.left


def test_the_speed_layer_s_tables_are_kept_small_while_it_is_stopped(tables: BareTables) -> None:
    told = maintain_stopped(tables.project, SOURCE)
    assert any("pruned" in line for line in told), told
    assert len(open_table(tables.layout.events(SOURCE), {}).file_uris()) == 1
    tables.check()
    there = state(tables)
    assert maintain_stopped(tables.project, SOURCE) == []
    assert state(tables) == there
    tables.start()
    tables.micro_batch(3)
    tables.check()


def test_old_findings_go_but_for_hours_that_are_blocked_accepted_or_shown(tables: BareTables) -> None:
    now = datetime(2024, 9, 1, tzinfo=UTC)
    found = {
        "passed": (0, 200, "declaration"),
        "blocked": (5, 200, "user"),
        "accepted": (1, 200, "person"),
        "superseded": (2, 200, "person"),
        "mended": (2, 199, "user"),
        "audited again": (3, 10, "user"),
        "newest": (24 * 40, 150, "user"),
    }
    tables.publish(5, blocked=[5])
    quality = open_table(tables.layout.quality, {})
    rows = [
        {
            "publication": number,
            "audited": now - timedelta(days=days),
            "source": "clicks",
            "metric": "totals",
            "declaration": TILINGS[0].declaration,
            "hour": BASE + timedelta(hours=of),
            "expectation": words,
            "origin": origin,
            "severity": "warn",
            "success": True,
            "cutoff": 1,
        }
        for number, (words, (of, days, origin)) in enumerate(found.items(), 1)
    ]
    commits.append(quality, pa.Table.from_pylist(rows, QUALITY_SCHEMA), {})
    list(Maintenance(tables.project, clock=lambda: now).run())
    with serving_layer.connect(tables.project) as connection:
        left = {
            words
            for (words,) in connection.sql("SELECT expectation FROM quality WHERE expectation IS NOT NULL").fetchall()
        }
    assert left == {"rows_match", "blocked", "accepted", "audited again", "newest"}, (
        "the first is that of the blocked hour's own audit"
    )
    assert not [line for line in Maintenance(tables.project, clock=lambda: now).run() if "findings" in line]


def test_notes_of_old_backfills_go(tables: BareTables) -> None:
    folder = tables.project.workspace / "backfills"
    folder.mkdir(parents=True)
    for name, days in (("old", 91), ("new", 1)):
        (folder / f"{name}.json").write_text("{}")
        began = (datetime.now(UTC) - timedelta(days=days)).timestamp()
        os.utime(folder / f"{name}.json", (began, began))
    list(Maintenance(tables.project).run())
    assert [file.name for file in folder.iterdir()] == ["new.json"]


def test_it_waits_for_its_turn_and_leaves_a_running_speed_layer_alone(tmp_path: Path) -> None:
    run = CliRunner()
    assert run.invoke(app, ["init", str(tmp_path / "shop")]).exit_code == 0
    result = run.invoke(app, ["maintain", "--project", str(tmp_path / "shop")])
    assert (result.exit_code, result.stdout) == (0, "nothing to do\n")
    with lease(tmp_path / "shop" / ".hourline", "speed"):
        result = run.invoke(app, ["maintain", "--project", str(tmp_path / "shop")])
    assert result.exit_code == 0
    assert f"process {os.getpid()} writes the speed layer's tables" in result.stderr


def test_the_lease_is_given_up_between_two_tables(tables: BareTables) -> None:
    for _ in Maintenance(tables.project).run():
        with turn(tables.project.workspace, "batch", lambda process: pytest.fail("it holds the lease")):
            pass


def answers(connection: serving_layer.Connection) -> Rows:
    return connection.sql("SELECT hour, n, state FROM totals ORDER BY hour").fetchall()


def staged(tables: BareTables) -> Rows:
    with serving_layer.connect(tables.project) as connection:
        return connection.sql("SELECT hour, n FROM totals_staged ORDER BY hour").fetchall()


def drift_rows(tables: BareTables) -> int:
    with serving_layer.connect(tables.project) as connection:
        return len(connection.sql("FROM drift").fetchall())


def state(tables: BareTables) -> set[str]:
    """All files of all tables, hence all commits, too."""
    root = Path(tables.layout.root)
    return {str(file.relative_to(root)) for file in root.rglob("*") if file.is_file()}


def grow_older(tables: BareTables, hours: float) -> None:
    """Everything happened ``hours`` earlier, by the log and by the files."""
    for file in Path(tables.layout.root).rglob("*"):
        if "checkpoint" in file.name:  # the log tells the same
            file.unlink()
            continue
        if file.suffix == ".json":
            actions = [json.loads(line) for line in file.read_text().splitlines()]
            for action in actions:
                for kind, time in (
                    ("commitInfo", "timestamp"),
                    ("remove", "deletionTimestamp"),
                    ("add", "modificationTime"),
                ):
                    if kind in action:
                        action[kind][time] -= int(hours * 3_600_000)
            file.write_text("".join(f"{json.dumps(action)}\n" for action in actions))
        changed = file.stat().st_mtime - hours * 3600
        os.utime(file, (changed, changed))


def test_the_records_of_a_former_decoding_are_deleted(tables: BareTables) -> None:
    now, served = decoding_of(SOURCE).hash, Decoding("served", {"fields": {}})
    tables.start()
    with patch("batch_layer.publication.decoding_of", lambda source: served):
        tables.publish(5)
    for hash in (now, "served", "former"):
        decode(tables, hash)
    left = Path(tables.layout.decoded(SOURCE, now)) / "part-of-a-task-that-ran-twice.parquet"
    left.write_bytes(b"")
    assert not [line for line in Maintenance(tables.project).run() if line.startswith("decoded/")], "it may be in use"
    told = [line for line in Maintenance(tables.project, dry_run=True, kept_hours=0).run() if "decoded/" in line]
    assert sorted(told) == [
        f"decoded/clicks/{now}: would have 1 old files deleted (0 bytes)",
        "decoded/clicks/former: would have 2 rows of a former declaration deleted",
    ]
    for place in ("before overwrite decoded", "after overwrite decoded"):
        with patch.object(failpoints, "visit", killed_at(place)), suppress(KeyboardInterrupt):
            list(Maintenance(tables.project, kept_hours=0).run())
    list(Maintenance(tables.project, kept_hours=0).run())
    assert not left.exists()
    found = {hash: open_table(tables.layout.decoded(SOURCE, hash), {}) for hash in (now, "served", "former")}
    assert {hash: table.to_pyarrow_table().num_rows for hash, table in found.items()} == {
        now: 2,
        "served": 2,
        "former": 0,
    }
    assert not list(Path(tables.layout.decoded(SOURCE, "former")).glob("*.parquet"))
    assert [decoded_up_to(tables.layout, SOURCE, Decoding(hash, {})) for hash in found] == [7, 7, 0]
    tables.check()
    assert not [line for line in Maintenance(tables.project, kept_hours=0).run() if line.startswith("decoded/")]


def decode(tables: BareTables, hash: str) -> None:
    """Two records that the decoding ``hash`` has decoded anew, up to sequence 7."""
    table = open_or_create(tables.layout.decoded(SOURCE, hash), {}, "decoded", DECODED_SCHEMA, PUBLISHED, "")
    rows = pa.Table.from_pylist([{"sequence": 1, "hour": hour(0)}, {"sequence": 2, "hour": hour(1)}], DECODED_SCHEMA)
    commits.append(table, rows, {"sequence": 7}, [DECODE_WRITER], 7)


def killed_at(place: str) -> Any:
    def visit(visited: str) -> None:
        if visited == place:
            raise KeyboardInterrupt

    return visit
