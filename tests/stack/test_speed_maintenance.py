"""Maintenance between the micro-batches of a stream changes no answer."""

from pathlib import Path

import pytest
from deltalake import DeltaTable

from hourline_core.ledger.layout import Layout
from speed_layer.commit import maintenance
from tests.support import parcels


@pytest.mark.long
def test_upkeep_between_micro_batches_changes_no_answer(
    kafka: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "MICRO_BATCHES", 4)
    monkeypatch.setattr(maintenance, "MERGED", 2)
    project = parcels.make(tmp_path, kafka, topic="maintenance", records_per_batch=30)
    project.send("scans", parcels.scans(project.random, 150, first_hour=0, hours=4))
    project.drain()
    project.recompute()
    project.send("scans", parcels.scans(project.random, 150, first_hour=2, hours=4))
    project.drain()
    assert project.last_sequence("scans") > 8
    project.check()

    layout, scans = Layout.of(project.project), project.project.sources["scans"]
    events = DeltaTable(layout.events(scans))
    assert len(events.file_uris()) <= 5, "some large file, and at most four micro-batches since the last maintenance"
    covered = {hour for metric, hour in project.cutoffs if metric == "flow"}
    provisional = DeltaTable(layout.provisional(scans, project.project.metrics["flow"])).to_pyarrow_table().to_pylist()
    assert covered
    assert not [row for row in provisional if row["sequence"] <= project.cutoffs.get(("flow", row["hour"]), 0)], (
        "final has taken these over"
    )
