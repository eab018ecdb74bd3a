"""The power is cut at any moment: what was acknowledged is there, what was not is read again, and each answer is exact.

The disk forgets what was not synced, each time something else. See ``UnsyncedDisk``.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from deltalake.exceptions import DeltaError

from hourline_core.errors import HourlineError
from hourline_core.ledger.coverage import read_coverage
from hourline_core.ledger.open_progress import find_progress
from hourline_core.ledger.power_cut import mend_after_power_cut
from hourline_core.model.hours import HOUR, wall_clock
from hourline_core.runtime import boot, failpoints
from hourline_core.runtime.notes import note_file
from hourline_core.storage.commit_log import LOG
from hourline_core.storage.durable import syncing
from speed_layer.commit.maintenance import maintain_source
from tests.support.bare_tables import SOURCE, BareTables
from tests.support.unsynced_disk import UnsyncedDisk

HOURS = random.Random(7).choices(range(4), k=60)  # noqa: S311 (the same numbers each time)
_EACH = 3
"""Events in a micro-batch."""


@dataclass
class Acknowledged:
    """What somebody was told."""

    events: int = 0
    publication: int = 0


@pytest.fixture(autouse=True)
def syncs() -> Iterator[None]:
    with syncing(on=True):
        yield


@pytest.fixture
def reboots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file with the id of this start of the machine."""
    file = tmp_path / "boot_id"
    file.write_text("first")
    monkeypatch.setattr(boot, "_LINUX", file)
    boot.this_boot.cache_clear()
    yield file
    boot.this_boot.cache_clear()


def restart(boot_id: Path, name: str) -> None:
    boot_id.write_text(name)
    boot.this_boot.cache_clear()


def tell_story(tables: BareTables, told: Acknowledged) -> None:
    """All that the product does, some times over."""
    synced = partial(syncing, on=tables.project.settings.speed.fsync)
    with synced():
        tables.start()
    for _ in range(3):
        for _ in range(2):
            with synced():
                tables.micro_batch(_EACH)
            if tables.project.settings.speed.fsync:
                told.events = tables.offset
        tables.publish(0, 1)
        told.events = tables.offset
        told.publication = read_coverage(tables.project).publication or 0
        # what is written now is old
        with synced():
            maintain_source(tables.project, tables.source_tables, kept_hours=0, clock=lambda: wall_clock() + HOUR)
        tables.publish(2, 3)
        told.publication = read_coverage(tables.project).publication or 0


def go_on(folder: Path, told: Acknowledged) -> None:
    """Start after a cut: all that was acknowledged is there, and what follows is exact."""
    tables = BareTables(folder, HOURS)
    mend_after_power_cut(tables.project)
    progress = find_progress(tables.project, SOURCE)
    if progress is not None and progress.sequence:
        tables.check()
    tables.start()
    assert tables.offset >= told.events
    assert (read_coverage(tables.project).publication or 0) >= told.publication
    tables.check()
    tables.micro_batch(_EACH)
    tables.publish(0, 1, 2, 3)
    tables.check()
    final = read_coverage(tables.project)
    assert final.recomputed_up_to(SOURCE.name)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 9))])
@pytest.mark.parametrize("fsync", [True, False])
def test_a_power_cut_at_any_moment_loses_nothing_that_was_acknowledged(
    *, fsync: bool, seed: int, tmp_path: Path, reboots: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, (folder, told) in enumerate(cut_often(tmp_path, seed, monkeypatch, fsync=fsync)):
        restart(reboots, f"after cut {number}")
        go_on(folder, told)


FORGOTTEN: dict[str, Callable[[Path], bool]] = {
    "data files": lambda path: path.suffix == ".parquet" and path.parent.name != LOG,
    "entries": lambda path: path.suffix == ".json" and path.parent.name == LOG,
    "folders of data files": lambda path: (path / LOG).is_dir(),
    "folders of logs": lambda path: path.name == LOG,
    "folders of tables": lambda path: path.name in ("tables", "events", "progress", "final"),
}
"""Kinds of paths that are synced."""


@pytest.mark.long
@pytest.mark.parametrize("kind", FORGOTTEN)
def test_without_one_kind_of_sync_something_is_lost(
    kind: str, tmp_path: Path, reboots: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = cut_often(tmp_path, 0, monkeypatch, FORGOTTEN[kind], one_in=20)
    restart(reboots, "after the cut")
    with pytest.raises((AssertionError, HourlineError, DeltaError)):
        for folder, told in reversed(made):
            go_on(folder, told)


class Nothing(random.Random):
    """Of what was not synced, nothing is left."""

    def random(self) -> float:
        return 0.0

    def choice(self, seq: Any) -> Any:
        return seq[0]


@pytest.mark.parametrize("first", ["progress/clicks", "coverage"])
def test_what_another_process_has_committed_and_not_synced_is_on_disk_before_it_is_built_upon(
    first: str, tmp_path: Path, reboots: Path
) -> None:
    root, cut = tmp_path / "disk", tmp_path / "cut"
    root.mkdir()
    disk, tables = UnsyncedDisk(root), BareTables(root, HOURS)
    log = Path(tables.layout.root) / first / LOG
    before: set[Path] | None = None

    def build_upon() -> None:
        """Publish what counts the micro-batch, or delete what the publication covers, once ``first`` is committed."""
        nonlocal before
        if before is None or not {*log.glob("*.json")} - before:
            return
        before = None
        if first == "coverage":
            maintain_source(tables.project, tables.source_tables)
        else:
            BareTables(root, HOURS).publish(0, 1, 2, 3)
        disk.cut(cut, Nothing())

    with disk.watching(build_upon):
        tables.start()
        tables.micro_batch(_EACH)
        tables.publish(0)
        tables.micro_batch(_EACH)
        told = Acknowledged(tables.offset, read_coverage(tables.project).publication or 0)
        before = {*log.glob("*.json")}
        if first == "coverage":
            tables.publish(0, 1, 2, 3)
        else:
            tables.micro_batch(_EACH)
    restart(reboots, "after the cut")
    go_on(cut, told)


def test_a_table_that_is_damaged_without_a_power_cut_stays_as_it_is(tmp_path: Path, reboots: Path) -> None:
    tables = BareTables(tmp_path / "disk", HOURS)
    tables.start()
    tables.micro_batch(_EACH)
    log = Path(tables.layout.progress(SOURCE)) / LOG
    last = max(log.glob("*.json"))
    last.write_bytes(b"")
    assert mend_after_power_cut(tables.project) == []
    assert last.exists()
    note_file(tables.project.workspace, "boot").unlink()
    restart(reboots, "the next one")
    assert mend_after_power_cut(tables.project) == ["progress/clicks (1 commit)"]
    tables.start()
    assert tables.offset == 0


def cut_often(
    tmp_path: Path,
    seed: int,
    monkeypatch: pytest.MonkeyPatch,
    forgets: Callable[[Path], bool] = lambda path: False,
    one_in: int = 60,
    *,
    fsync: bool = True,
) -> list[tuple[Path, Acknowledged]]:
    """The folders that cuts have left at some moments of the story, and what was acknowledged before each."""
    chance = random.Random(seed)  # noqa: S311
    made: list[tuple[Path, Acknowledged]] = []
    root, told = tmp_path / "disk", Acknowledged()
    root.mkdir()
    disk = UnsyncedDisk(root, forgets)

    def maybe_cut() -> None:
        if chance.randrange(one_in) == 0:
            folder = tmp_path / f"cut {len(made)}"
            disk.cut(folder, chance)
            made.append((folder, Acknowledged(told.events, told.publication)))

    visit = failpoints.visit

    def visited(place: str) -> None:
        visit(place)
        maybe_cut()

    with monkeypatch.context() as patched, disk.watching(maybe_cut):
        patched.setattr(failpoints, "visit", visited)
        tables = BareTables(root, HOURS)
        settings = tables.project.settings
        speed = settings.speed.model_copy(update={"fsync": fsync})
        tables.project = replace(tables.project, settings=settings.model_copy(update={"speed": speed}))
        tell_story(tables, told)
    assert made
    return made
