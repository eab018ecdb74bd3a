"""A local Spark runs the task of a killed Python worker again, and the speed layer goes on."""

from pathlib import Path

import pytest

from tests.support import visits_and_orders
from tests.support.project_files import write_project
from tests.support.speed_process import SpeedProcess
from tests.support.standalone_spark import python_workers_of
from tests.support.task_losses import count_finished, count_lost_tasks, kill_until_a_task_is_lost
from tests.support.tasks_with_failpoint import PLACE, SUM, run_tasks

# In CI, test_failpoints_in_tasks.py and test_struck_folds.py kill workers.
pytestmark = [pytest.mark.heavy, pytest.mark.long]


def test_a_python_worker_killed_in_mid_micro_batch_changes_nothing(kafka: str, tmp_path: Path) -> None:
    project = visits_and_orders.make(tmp_path, kafka, "killed_python_worker", records_per_batch=100)
    visits_and_orders.send(project, visits=4_000, orders=1_000)
    with SpeedProcess(project, "--drain") as speed:
        finished = kill_until_a_task_is_lost(speed, project, "visits", lambda: python_workers_of(speed.process.pid))
        assert speed.wait() == 0, speed.lines
    assert count_finished(project, "visits") > finished, "it has gone on"
    assert project.check() > 50


@pytest.mark.parametrize(("master", "status"), [("local[2]", 0), ("local[2,1]", 1)])
def test_a_failpoint_fires_in_one_task_of_a_local_spark(master: str, status: int, tmp_path: Path) -> None:
    """Its Python workers have the environment of the driver."""
    source = "topic: t\nfields: {at: timestamp}\nevent_time: at\n"
    write_project(tmp_path, {"hourline.yaml": f'spark: {{master: "{master}"}}\n', "sources/t.yaml": source})
    fired = tmp_path / "fired"
    done = run_tasks(tmp_path, {"HOURLINE_FAILPOINT": f"kill {PLACE}", "HOURLINE_FAILPOINT_FIRED": str(fired)})
    assert (done.returncode, done.stdout) == (status, "" if status else SUM), done.stderr
    assert fired.exists()
    assert count_lost_tasks(tmp_path / ".hourline" / "logs" / "spark-tasks.log") > 0
