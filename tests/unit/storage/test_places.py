"""The place of a table below the root of the tables, whatever names the root, a source or a metric has."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hourline import load_project
from hourline_core.ledger.layout import EVENT_SCHEMA, REJECTED_SCHEMA, Layout
from hourline_core.ledger.progress_columns import PROGRESS_SCHEMA
from hourline_core.ledger.snapshot import take_snapshot
from hourline_core.model import Lookup
from hourline_core.storage.creation import open_or_create
from hourline_core.storage.data_files import path_of, place_of
from hourline_core.storage.version_retention import STREAMED
from tests.support.project_files import write_project

KINDS = ["events", "rejected", "progress", "lookups", "provisional", "staged", "final", "coverage", "drift", "quality"]

names = st.sampled_from([*KINDS, "clicks"])
roots = st.lists(names, min_size=1, max_size=3).map(lambda folders: f"/{'/'.join(folders)}")


@given(roots, names)
def test_a_table_of_a_source(root: str, source: str) -> None:
    for kind in ("events", "rejected", "progress"):
        assert place_of(f"{root}/{kind}/{source}/", kind) == f"{kind}/{source}"


@given(roots, names)
def test_a_table_of_a_lookup(root: str, name: str) -> None:
    columns = {"table": "planes.csv", "key": "tail", "columns": {"tail": "string"}}
    lookup = Lookup.model_validate({"name": name, **columns})
    assert place_of(Layout(root).lookup(lookup), "lookups") == f"lookups/{name}"


@given(roots, names)
def test_a_table_of_a_metric(root: str, metric: str) -> None:
    layout = Layout(root)
    for kind, uri in (
        ("provisional", layout.provisional_of(metric, "0123456789ab")),
        ("staged", layout.staged_of(metric, "0123456789ab")),
        ("final", layout.final_of(metric, "0123456789ab")),
    ):
        assert place_of(uri, kind) == f"{kind}/{metric}/0123456789ab"


@pytest.mark.parametrize("root", ["/data/tables", "/coverage", "s3://bucket/drift"])
def test_a_table_of_the_project(root: str) -> None:
    layout = Layout(root)
    for kind in ("coverage", "drift", "quality", "confirmations", "checksums"):
        assert place_of(getattr(layout, kind), kind) == kind


def test_a_snapshot_has_the_tables_of_a_source_that_is_named_as_they_are(tmp_path: Path) -> None:
    files = {
        "hourline.yaml": "name: shop",
        "sources/events.yaml": "{topic: t, event_time: at, fields: {at: timestamp}}",
    }
    project = load_project(write_project(tmp_path, files), {})
    layout, source = Layout.of(project), project.sources["events"]
    for kind, schema in (("progress", PROGRESS_SCHEMA), ("events", EVENT_SCHEMA), ("rejected", REJECTED_SCHEMA)):
        open_or_create(getattr(layout, kind)(source), {}, kind, schema, STREAMED, kind)
    assert take_snapshot(project).other_tables == {"events/events": 0, "rejected/events": 0}


@pytest.mark.parametrize("name", ["shop", "my shop", "a#b&c", "a+b:c", "größe", "what?"])
def test_the_folder_of_a_table_is_named_as_it_is(name: str, tmp_path: Path) -> None:
    uri = str(tmp_path / name / "events")
    assert path_of(open_or_create(uri, {}, "events", EVENT_SCHEMA, STREAMED, "events")) == uri
