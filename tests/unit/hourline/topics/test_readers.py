"""Which sources read a topic, and how far they are."""

import json
import tarfile
from pathlib import Path

import pytest

from hourline import load_project
from hourline.cli.topics.readers import next_offsets, readers_of
from tests.support.command_line import NO_KAFKA
from tests.support.kept_workspace import FOLDER
from tests.support.project_files import write_project


def test_a_source_is_as_far_as_what_it_was_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with tarfile.open(FOLDER / "0.2.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    monkeypatch.setenv("KAFKA", NO_KAFKA)
    facts = json.loads((tmp_path / "sent.json").read_text())
    project = load_project(tmp_path)
    end = max(offset for offset, *_ in facts["sent"]) + 1
    assert next_offsets(project, project.sources["scans"], facts["topic_id"]) == {0: end}
    assert next_offsets(project, project.sources["scans"], "another topic of that name") == {}


def test_a_source_that_was_never_started_has_read_nothing(tmp_path: Path) -> None:
    fields = "event_time: at\nfields: {at: timestamp}\n"
    files = {
        "hourline.yaml": "name: shop\n",
        "sources/one.yaml": f"topic: clicks_eu\n{fields}",
        "sources/some.yaml": f"topic: {{pattern: orders_.*}}\n{fields}",
    }
    project = load_project(write_project(tmp_path, files))
    names = {
        topic: [source.name for source in readers_of(project, topic)]
        for topic in ("clicks_eu", "clicks_eux", "orders_eu", "orders")
    }
    assert names == {"clicks_eu": ["one"], "clicks_eux": [], "orders_eu": ["some"], "orders": []}
    assert next_offsets(project, project.sources["one"], "a topic") == {}
