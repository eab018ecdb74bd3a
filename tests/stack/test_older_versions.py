"""A workspace that an older version has left is opened, read exactly, and written on."""

from pathlib import Path

import pytest

from tests.support import parcels
from tests.support.kept_workspace import FOLDER, restore


@pytest.mark.parametrize("kept", sorted(FOLDER.glob("*.tar.gz")), ids=lambda path: path.name.removesuffix(".tar.gz"))
def test_a_workspace_of_an_older_version_is_read_and_written_on(kept: Path, kafka: str, tmp_path: Path) -> None:
    project = restore(kept, tmp_path, kafka, topic=f"older_{kept.name}")
    assert project.check() > 300
    project.send("scans", parcels.scans(project.random, 200, first_hour=2, hours=6))
    project.drain()
    assert project.check() > 300
    assert {row["record"] is None for row in project.table("events", "scans")} == {True, False}
    project.recompute()
    assert project.check() > 300
