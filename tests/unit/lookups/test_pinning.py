"""Which versions of lookups a micro-batch and a job use."""

from datetime import timedelta
from pathlib import Path

import pytest

from hourline_core.errors import TableError
from hourline_core.ledger.layout import Layout
from hourline_core.lookups.pinning import (
    RefreshedLookups,
    find_pinned,
    pin_newest,
    pin_recorded,
    versions_of,
    versions_text,
)
from hourline_core.model import Source
from tests.unit.lookups.test_refresh import CSV, NOON, declare, write_csv

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


def test_without_any_version_the_sentence_says_why(tmp_path: Path) -> None:
    project = declare(tmp_path, table="planes.csv")
    with pytest.raises(TableError, match=r"lookup 'plane' was never read: there is no file .*planes\.csv"):
        pin_newest(project, ["plane"], lambda: NOON)
