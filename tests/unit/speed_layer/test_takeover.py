"""A restart does not fence a speed layer out that has taken over meanwhile."""

from pathlib import Path

import pytest

from hourline import load_project
from hourline_core.errors import ConflictError
from hourline_core.ledger.layout import Layout
from hourline_core.ledger.progress import Progress
from hourline_core.ledger.progress_columns import PROGRESS_SCHEMA
from hourline_core.model import Project
from hourline_core.storage import commits
from hourline_core.storage.creation import open_or_create
from hourline_core.storage.version_retention import STREAMED
from speed_layer.recovery.takeover import TakeoverCheck
from tests.support.project_files import write_project

FILES = {
    "hourline.yaml": "name: shop",
    "sources/visits.yaml": "{topic: visits, format: json, event_time: at, fields: {at: timestamp}}",
    "metrics/views.yaml": "{source: visits, measures: {n: count}}",
}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return load_project(write_project(tmp_path, FILES), {})


def open_progress(project: Project) -> Progress:
    layout = Layout.of(project)
    uri = layout.progress(project.sources["visits"])
    return Progress(open_or_create(uri, layout.storage_options, "progress", PROGRESS_SCHEMA, STREAMED, "progress"))


def test_what_this_process_has_written_itself_is_no_conflict(project: Project) -> None:
    check, progress = TakeoverCheck(project), open_progress(project)
    check.refuse_takeover()
    check.watch(project.sources["visits"], progress)
    commits.fence(progress.table)
    check.refuse_takeover()


def test_another_writer_ends_the_restart(project: Project) -> None:
    check, progress = TakeoverCheck(project), open_progress(project)
    check.watch(project.sources["visits"], progress)
    commits.fence(open_progress(project).table)
    with pytest.raises(ConflictError, match="another process has written to the progress of source 'visits'"):
        check.refuse_takeover()


def test_what_was_looked_at_may_be_written_by_others(project: Project) -> None:
    check, progress = TakeoverCheck(project), open_progress(project)
    check.watch(project.sources["visits"], progress)
    check.refuse_takeover()
    commits.fence(open_progress(project).table)  # as a gap that is passed does
    check.refuse_takeover()
