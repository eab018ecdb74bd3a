"""What readers find while the first start of a speed layer makes its tables, or after it was killed there."""

from collections.abc import Callable
from pathlib import Path

import pytest

import serving_layer
from hourline import load_project
from hourline_core.errors import TableError
from hourline_core.ledger.layout import EVENT_SCHEMA, REJECTED_SCHEMA, Layout
from hourline_core.ledger.progress import SPEED_WRITER
from hourline_core.ledger.progress_columns import PROGRESS_SCHEMA
from hourline_core.ledger.snapshot import take_snapshot
from hourline_core.model import Project
from hourline_core.storage import commits
from hourline_core.storage.creation import open_or_create
from hourline_core.storage.version_retention import STREAMED
from tests.support.project_files import write_project

FILES = {
    "hourline.yaml": "name: shop",
    "sources/visits.yaml": "{topic: visits, format: json, event_time: at, fields: {at: timestamp}}",
    "metrics/views.yaml": "{source: visits, measures: {n: count}}",
}
SCHEMAS = {"progress": PROGRESS_SCHEMA, "events": EVENT_SCHEMA, "rejected": REJECTED_SCHEMA}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return load_project(write_project(tmp_path, FILES), {})


@pytest.fixture
def make(project: Project) -> Callable[..., None]:
    """Makes a table of the source, whose last finished sequence is a number."""

    def make_table(kind: str, sequence: int = 0) -> None:
        uri = getattr(Layout.of(project), kind)(project.sources["visits"])
        table = open_or_create(uri, {}, kind, SCHEMAS[kind], STREAMED, kind)
        if sequence:
            commits.append(table, SCHEMAS[kind].empty_table(), {}, [SPEED_WRITER], sequence)

    return make_table


def test_a_source_has_begun_once_all_of_its_tables_are_there(project: Project, make: Callable[..., None]) -> None:
    for kind in ("progress", "events"):
        make(kind)
        assert not take_snapshot(project).progress
        with serving_layer.connect(project) as connection:
            assert connection.sql("SELECT count(*) FROM hours").fetchall() == [(0,)]
    make("rejected")
    assert set(take_snapshot(project).progress) == {"visits"}


def test_tables_that_are_gone_are_told_once_something_was_finished(project: Project, make: Callable[..., None]) -> None:
    make("progress", 1)
    with pytest.raises(TableError, match=r"there is no table at .*/events/visits"):
        take_snapshot(project)
