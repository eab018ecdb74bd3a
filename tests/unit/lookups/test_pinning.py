"""Which versions of lookups a micro-batch and a job use."""

from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from hourline_core.errors import TableError, UsageError
from hourline_core.ledger.layout import Layout
from hourline_core.ledger.progress import Progress
from hourline_core.ledger.progress_columns import PROGRESS_SCHEMA
from hourline_core.ledger.progress_rows import HourEvents, ProgressRow, RecordCounts
from hourline_core.lookups.as_of import pin_as_of
from hourline_core.lookups.join import PinnedLookup
from hourline_core.lookups.pinning import (
    RefreshedLookups,
    find_pinned,
    pin_newest,
    pin_recorded,
    pin_used,
    versions_of,
    versions_text,
)
from hourline_core.lookups.versions import read_version
from hourline_core.model import Project, Source
from hourline_core.model.hours import wall_clock
from hourline_core.storage.creation import open_or_create
from hourline_core.storage.opening import open_table
from hourline_core.storage.vacuum import vacuum
from hourline_core.storage.version_retention import KEPT_HOURS, STREAMED
from tests.unit.lookups.test_refresh import CSV, NOON, declare, refresh_plane, write_csv

SOURCE = Source.model_validate(
    {
        "name": "flights",
        "topic": "flights",
        "fields": {"tail": "string", "at": "timestamp"},
        "event_time": "at",
        "lookups": {"mine": {"lookup": "plane", "key": "tail"}},
    }
)


def test_a_micro_batch_reads_a_table_again_when_its_interval_has_passed(tmp_path: Path) -> None:
    project, now = declare(tmp_path, **write_csv(tmp_path), refresh="5m"), [NOON]
    lookups = RefreshedLookups(project, SOURCE, lambda: now[0])

    def version() -> int:
        return lookups.pinned()["plane"].version

    assert version() == 1
    (tmp_path / "planes.csv").write_text(CSV.replace("55", "56"))
    now[0] += timedelta(minutes=5) - timedelta(microseconds=1)
    assert version() == 1
    now[0] += timedelta(microseconds=1)
    assert version() == 2
    (tmp_path / "planes.csv").unlink()
    now[0] += timedelta(hours=1)
    assert version() == 2, "the last good one"


def test_a_job_uses_the_newest_version_and_reads_a_table_that_was_never_read(tmp_path: Path) -> None:
    project = declare(tmp_path, **write_csv(tmp_path))
    assert find_pinned(project, ["plane"]) is None, "a warm-up reads no table of somebody else"
    first = pin_newest(project, ["plane"], lambda: NOON)
    assert first["plane"].version == 1
    (tmp_path / "planes.csv").unlink()
    assert pin_newest(project, ["plane"], lambda: NOON) == first
    assert find_pinned(project, ["plane"]) == first
    text = versions_text(first)
    assert text == '{"plane": 1}'
    source = SOURCE.bind_lookups(project.lookups)
    assert versions_of(text) == {"plane": 1}
    assert pin_recorded(source, Layout.of(project), versions_of(text)) == first
    assert pin_recorded(source, Layout.of(project), versions_of(None)) == first, "no value mattered"
    assert versions_text({}) is None


def test_a_job_can_use_the_versions_of_an_earlier_time(tmp_path: Path) -> None:
    project, known = declare(tmp_path, **write_csv(tmp_path)), []
    for seats in ("55", "56", "57"):
        (tmp_path / "planes.csv").write_text(CSV.replace("55", seats))
        version = refresh_plane(project).version
        assert version
        known.append(version)
    vacuum(open_table(Layout.of(project).lookup(project.lookups["plane"]), {}), KEPT_HOURS)  # which is no version
    now = wall_clock()

    def pin(text: str) -> int:
        return pin_as_of(project, ["plane"], text, now).pinned["plane"].version

    for version in known:
        assert pin(version.committed.isoformat()) == version.number
        assert pin((version.committed + timedelta(microseconds=1)).isoformat()) == version.number
    assert pin(now.isoformat()) == known[-1].number
    before = (known[0].committed - timedelta(microseconds=1)).isoformat()
    with pytest.raises(UsageError, match=r"lookup 'plane' has no version of .*: it was not read before"):
        pin(before)
    with pytest.raises(UsageError, match="lies in the future"):
        pin((now + timedelta(seconds=1)).isoformat())
    with pytest.raises(UsageError, match="neither a token nor a time"):
        pin("yesterday")
    with pytest.raises(UsageError, match="nothing had been processed at p0"):
        pin("p0")
    with pytest.raises(UsageError, match="there is no source 'flights'"):
        pin("p0-flights.3")
    for file in open_table(Layout.of(project).lookup(project.lookups["plane"]), {}, known[0].number).file_uris():
        Path(file).unlink()
    with pytest.raises(UsageError, match="or that version is no longer kept"):
        pin(known[0].committed.isoformat())


def test_events_of_versions_that_are_no_longer_kept_are_told_with_their_sequences(tmp_path: Path) -> None:
    project = declare(tmp_path, **write_csv(tmp_path), on_change="keep")
    layout, plane = Layout.of(project), project.lookups["plane"]
    # One micro-batch uses each version. Only the last one has events that count in the hour after NOON.
    later = NOON + timedelta(hours=1)
    for sequence in range(1, 5):
        (tmp_path / "planes.csv").write_text(CSV.replace("55", f"{sequence}"))
        version = refresh_plane(project).version
        assert version
        use(project, sequence, version.number, later if sequence == 4 else NOON)
    newest = PinnedLookup(plane, layout, 4)
    assert pin_used(newest, SOURCE, None).used == ((1, 1), (2, 2), (3, 3), (4, 4))
    assert versions_text({"plane": pin_used(newest, SOURCE, None), "other": newest}) == '{"other": 4}'

    for number in (1, 2):
        for file in open_table(layout.lookup(plane), {}, number).file_uris():
            Path(file).unlink()
    expected = replace(newest, used=((1, 4), (2, 4), (3, 3), (4, 4)))
    assert pin_used(newest, SOURCE, [NOON]) == replace(expected, forgotten=((0, 2),))
    assert pin_used(newest, SOURCE, [later]) == expected, "repeated events of the hour can be read"


def test_versions_of_another_key_are_not_taken_for_kept_ones(tmp_path: Path) -> None:
    """The key changes to and fro. Only repeated events are of the versions before the last one."""
    keys = ["tail", "seats", "tail", "seats", "tail"]
    last, used = NOON + timedelta(hours=len(keys)), []
    for place, key in enumerate(keys, start=1):
        project = declare(tmp_path, **write_csv(tmp_path), key=key, on_change="keep")
        (tmp_path / "planes.csv").write_text(CSV.replace("55", f"{place}"))
        version = refresh_plane(project).version
        assert version
        use(project, place, version.number, last if place == len(keys) else NOON)
        used.append(version.number)
    layout, plane = Layout.of(project), project.lookups["plane"]
    pinned = pin_used(PinnedLookup(plane, layout, used[-1]), SOURCE, [last])
    readable = [number if key == "tail" else used[-1] for number, key in zip(used, keys, strict=True)]
    assert [number for _, number in pinned.used] == readable
    for _, number in pinned.used:
        assert read_version(layout, plane, number).num_rows == 2


def use(project: Project, sequence: int, version: int, hour: datetime) -> None:
    """Finish a micro-batch that used a version of the lookup, with an event of ``hour``."""
    uri = Layout.of(project).progress(SOURCE)
    table = open_or_create(uri, {}, "progress", PROGRESS_SCHEMA, STREAMED, "progress of flights")
    hours, used = (HourEvents(hour, 1, 0),), {"plane": version}
    row = ProgressRow(sequence, "id", "t", (), RecordCounts(), hours, (), None, NOON, NOON, lookups=used)
    Progress(table).finish([row], {})


def test_without_any_version_the_sentence_says_why(tmp_path: Path) -> None:
    project = declare(tmp_path, table="planes.csv")
    with pytest.raises(TableError, match=r"lookup 'plane' was never read: there is no file .*planes\.csv"):
        pin_newest(project, ["plane"], lambda: NOON)
