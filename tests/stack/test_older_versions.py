"""A workspace that an older version has left is opened, read exactly, and written on."""

from pathlib import Path

import pytest

from hourline_core.ledger.metrics_without_record import metrics_without_record
from hourline_core.model import load_project
from tests.support import parcels
from tests.support.kept_workspace import FOLDER, restore
from tests.support.oracle import OLD_TOPIC

pytestmark = pytest.mark.heavy


@pytest.mark.parametrize("kept", sorted(FOLDER.glob("*.tar.gz")), ids=lambda path: path.name.removesuffix(".tar.gz"))
def test_a_workspace_of_an_older_version_is_read_and_written_on(kept: Path, kafka: str, tmp_path: Path) -> None:
    project = restore(kept, tmp_path, kafka, topic=f"older_{kept.name}")
    assert project.check() > 300
    project.recompute()  # before this version has written anything
    assert project.check() > 300
    project.send("scans", parcels.scans(project.random, 200, first_hour=2, hours=6))
    project.drain()
    assert project.check() > 300
    assert {row["record"] is None for row in project.table("events", "scans")} == {True, False}
    # A metric that names the record over old events is told.
    assert metrics_without_record(project.project) == []
    metric = tmp_path / "metrics" / "traced.yaml"
    metric.write_text("source: scans\ndimensions: {trace: \"record.headers['trace']\"}\nmeasures: {n: count}\n")
    old = [event.hour for event in project.events("scans") if event.partition == OLD_TOPIC]
    # It is told by file, and old rows may have been merged with new ones.
    ((told, hour),) = metrics_without_record(load_project(tmp_path, {"KAFKA": kafka}))
    assert told.name == "traced"
    assert hour >= max(old)
