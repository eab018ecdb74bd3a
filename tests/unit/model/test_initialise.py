"""The project that `hourline init` writes."""

import json
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from hourline.initialise import initialise
from hourline_core.errors import UsageError
from hourline_core.model import load_project
from hourline_core.model.loaded_tests import load_tests


def test_init_writes_a_project_that_loads(tmp_path: Path) -> None:
    written = initialise(tmp_path / "new")
    assert [path.relative_to(tmp_path / "new").as_posix() for path in written] == [
        "events.jsonl",
        "hourline.yaml",
        "metrics/load_by_country.yaml",
        "metrics/views_by_page.yaml",
        "sources/pageviews.yaml",
        "tests/late_view.yaml",
    ]
    project = load_project(tmp_path / "new", {})
    assert [test.name for test in load_tests(project, {})] == ["late_view"]
    (source,) = project.sources.values()
    assert [metric.name for metric in project.metrics_of(source.name)] == ["load_by_country", "views_by_page"]
    events = [json.loads(line) for line in (tmp_path / "new" / "events.jsonl").read_text(encoding="utf-8").splitlines()]
    assert len(events) == 200
    assert {tuple(event) for event in events} == {tuple(source.fields)}
    assert all(datetime.fromisoformat(event["viewed_at"]).utcoffset() == timedelta(0) for event in events)
    # A duplicate and a late event are there to be seen.
    assert len({event["view_id"] for event in events}) < len(events)
    hours = [event["viewed_at"][:13] for event in events]
    assert hours != sorted(hours)


def test_init_empty_writes_settings_and_folders_alone(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    assert initialise(folder, empty=True) == [folder / "hourline.yaml"]
    assert sorted(path.name for path in folder.iterdir()) == ["hourline.yaml", "metrics", "sources", "tests"]
    (folder / "sources" / "s.yaml").write_text("topic: t\nfields: {a: string}\nevent_time: a\n", encoding="utf-8")
    assert list(load_project(folder, {}).sources) == ["s"]


def test_init_overwrites_nothing(tmp_path: Path) -> None:
    (tmp_path / "hourline.yaml").write_text("name: mine\n", encoding="utf-8")
    with pytest.raises(UsageError, match=r"hourline\.yaml is already there and is not overwritten"):
        initialise(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["hourline.yaml"]
    with pytest.raises(UsageError, match="cannot be written into"):
        initialise(tmp_path / "hourline.yaml" / "below")
