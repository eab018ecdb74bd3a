"""kill -9 in a task, before and after it has written a file: a local Spark runs the task again, every answer is exact, and a
file that is left over is in no commit.
"""

import os
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.support import visits_and_orders
from tests.support.speed_process import SpeedProcess
from tests.support.stack_project import StackProject
from tests.support.task_losses import count_lost_tasks

pytestmark = pytest.mark.heavy


@pytest.mark.parametrize(
    ("place", "left"), [pytest.param("before write events", 0, marks=pytest.mark.long), ("after write events", 1)]
)
def test_a_task_killed_where_it_writes_a_file_runs_again(
    place: str, left: int, kafka: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = visits_and_orders.make(tmp_path, kafka, f"killed_{place.replace(' ', '_')}", records_per_batch=1000)
    item = {"sku": "a", "at": "2024-05-06T20:15:00+00:00", "amount": 3}
    project.send("orders", ({"shop": f"s{n % 3}", "items": [item] * (n % 4)} for n in range(200)))
    fired = tmp_path / "fired"
    monkeypatch.setenv("WORKER_FAILPOINT", f"kill {place}")
    monkeypatch.setenv("WORKER_FAILPOINT_FIRED", str(fired))
    with SpeedProcess(project, "--drain") as speed:
        assert speed.wait() == 0, speed.lines
    assert fired.exists()
    assert count_lost_tasks(project.project.workspace / "logs" / "spark-speed.log") == 1
    assert project.check() > 5
    assert len(uncommitted(project, "orders")) == left


def uncommitted(project: StackProject, source: str) -> set[str]:
    """The files of the archive that no commit names."""
    folder = Path(project.project.tables) / "events" / source
    named = {os.path.relpath(file, folder) for file in DeltaTable(folder).file_uris()}
    return {file.name for file in folder.glob("*.parquet")} - named
