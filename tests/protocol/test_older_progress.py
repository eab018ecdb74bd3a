"""What writes to progress without a start of the speed layer adds the columns that an older version has not written."""

import tarfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import serving_layer
from hourline import Project, load_project
from hourline_core.ledger.layout import Layout
from hourline_core.ledger.progress import Progress
from hourline_core.storage.opening import open_table
from speed_layer.commit.maintenance import maintain_stopped
from speed_layer.reset import MetricReset
from tests.support.kept_workspace import FOLDER

NOW = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A workspace as an earlier Hourline 0.2 has left it."""
    with tarfile.open(FOLDER / "0.2.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    return load_project(tmp_path, {"KAFKA": "localhost:1"})


def scans(project: Project) -> int:
    with serving_layer.connect(project) as connection:
        return int(connection.sql("SELECT sum(scans) FROM flow").fetchall()[0][0])


def test_maintenance_compacts_it(project: Project) -> None:
    before = scans(project)
    source, layout = project.sources["scans"], Layout.of(project)
    maintain_stopped(project, source, kept_hours=0, clock=lambda: NOW)
    progress = Progress(open_table(layout.progress(source), layout.storage_options))
    assert progress.compacted_to == progress.sequence > 0
    assert scans(project) == before


def test_a_metric_is_reset(project: Project) -> None:
    before = scans(project)
    MetricReset(project, project.metrics["fragile"]).apply(NOW + timedelta(hours=1))
    assert scans(project) == before
    with serving_layer.connect(project) as connection:
        assert connection.sql("FROM fragile").fetchall() == []
