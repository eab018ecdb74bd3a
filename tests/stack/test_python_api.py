"""Running things from Python: each method does what its command does, and raises its sentence."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from hourline import load_project
from hourline.initialise import initialise
from hourline.project import CommandError
from hourline_core.errors import DeclarationError, UsageError
from hourline_core.runtime.background import SPEED, address_of
from hourline_core.runtime.lease import lease

pytestmark = pytest.mark.heavy


def test_a_project_is_run_from_python(tmp_path: Path) -> None:
    folder = tmp_path / "shop"
    initialise(folder)
    (folder / "random.py").write_text("raise SystemExit('this is no module of Hourline')")
    project = load_project(folder)
    lines: list[str] = []
    project.up(say=lines.append)
    try:
        assert address_of(project, SPEED), "what it has started outlives the command"
        project.replay(folder / "events.jsonl", "pageviews", say=lines.append)
        with pytest.raises(UsageError, match="there is no source 'pageview'"):
            project.replay(folder / "events.jsonl", "pageview", say=lines.append)
        counted = "SELECT sum(views)::INT AS views FROM views_by_page"
        from serving_layer import connect

        with connect(project, at_least="now", wait=120):
            pass
        assert project.query(counted).to_pylist() == [{"views": 196}]
        done = project.recompute(metrics=["views_by_page"], say=lines.append)
        hours = [datetime(2026, 3, 2, hour, tzinfo=UTC) for hour in range(8, 12)]
        assert (done.hours, done.published, done.blocked) == (4, {"views_by_page": hours}, {})
        with pytest.raises(UsageError, match="got 2026-03-02T08:00:30"):
            project.recompute(hours[0].replace(second=30), hours[1])
        with pytest.raises(UsageError, match="allowed is an hour with its offset from UTC"):
            project.recompute(hours[0].replace(tzinfo=None), hours[1])
        again = project.recompute(hours[0], hours[1], say=lines.append)
        assert (again.hours, set(again.published)) == (1, {"views_by_page", "load_by_country"})
        states = "SELECT state FROM views_by_page GROUP BY state ORDER BY state"
        assert [row["state"] for row in project.query(states).to_pylist()] == ["final", "provisional"]
    finally:
        project.down(say=lines.append)
    assert lines[-1] == "down"
    with lease(project.workspace, "speed"), pytest.raises(CommandError, match="runs the speed layer of") as taken:
        project.up(say=lines.append)
    assert (taken.value.status, taken.value.retryable) == (75, True)


def test_mistakes_are_told_by_check(tmp_path: Path) -> None:
    initialise(tmp_path / "shop")
    project = load_project(tmp_path / "shop")
    (tmp_path / "shop" / "metrics" / "views_by_page.yaml").write_text("{source: pageview, measures: {n: count}}")
    with pytest.raises(DeclarationError, match=r"views_by_page.yaml:1: source: got 'pageview', which is no source"):
        project.check(say=lambda _: None)
