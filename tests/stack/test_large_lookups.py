"""Spark's tasks find the rows of lookups that are larger than memory."""

from pathlib import Path

import pytest

from batch_layer import read_archive
from batch_layer.plan import plan_range
from batch_layer.recompute import recompute
from hourline_core.model.hours import HourRange, iso_text
from tests.support.daemon_of_large_lookups import DAEMON, MARKS
from tests.support.looked_up_flights import BASE, FILES, FLIGHTS, LAST, PLANES, always, expected, read, write_planes
from tests.support.project_files import write_project
from tests.support.stack_project import StackProject

# tests/unit/lookups/test_join.py has both ways to find rows, without Spark.
pytestmark = [pytest.mark.heavy, pytest.mark.long]

SETTINGS = f"""
kafka: {{bootstrap: "${{KAFKA}}"}}
spark:
  master: local[2]
  config: {{spark.python.daemon.module: {DAEMON}}}
"""


def test_tasks_read_the_rows_of_large_lookups(kafka: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    monkeypatch.setenv(MARKS, str(marks))

    def read_in_parts() -> set[str]:
        """The lookups that tasks have read in parts since the last call."""
        names = {file.name for file in marks.iterdir()}
        for name in names:
            (marks / name).unlink()
        return names

    topics = {
        f"sources/{name}.yaml": FILES[f"sources/{name}.yaml"].replace(f"topic: {name}", f"topic: large_{name}")
        for name in ("flights", "hops")
    }
    root = write_project(tmp_path / "air", {**FILES, **topics, "hourline.yaml": SETTINGS})
    write_planes(root, PLANES)
    project = StackProject(root, kafka, {})
    for source in ("flights", "hops"):
        project.send(source, ({**flight, "at": iso_text(flight["at"])} for flight in FLIGHTS))
    project.drain()
    assert read_in_parts() == {"airport", "plane"}
    assert read(project.project, "by_maker") == expected(always(PLANES))
    assert read(project.project, "by_upper") == expected(always(PLANES), upper=True)

    monkeypatch.setattr(read_archive, "ROWS_OF_TASK", -1)
    # Tasks read the flights themselves. Spark evaluates the hops.
    for metric, upper in (("by_maker", False), ("by_upper", True)):
        recompute(project.project, plan_range(project.project, HourRange(BASE, LAST), [metric]))
        assert read_in_parts() == {"airport", "plane"}
        assert read(project.project, metric) == expected(always(PLANES), upper=upper)
