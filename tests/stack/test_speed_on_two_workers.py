"""The speed layer on a standalone Spark of two workers: the same answers, also when Python workers and executors are
killed in mid-micro-batch.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import visits_and_orders
from tests.support.speed_process import SpeedProcess
from tests.support.standalone_spark import StandaloneSpark, standalone_spark
from tests.support.task_losses import count_finished, count_lost_tasks, kill_until_a_task_is_lost
from tests.support.tasks_with_failpoint import PLACE, SUM, run_tasks

pytestmark = pytest.mark.long
"""In CI, test_struck_folds.py kills a worker of a recompute, and test_failpoints_in_tasks.py a task of the speed layer."""


@pytest.fixture(scope="module")
def two_workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneSpark]:
    """A Spark of two workers with a core each."""
    with standalone_spark(tmp_path_factory.mktemp("spark")) as spark:
        yield spark


@pytest.fixture(autouse=True)
def on_two_workers(two_workers: StandaloneSpark, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the settings of the project alone."""
    monkeypatch.setenv("SPARK_MASTER", two_workers.master)


def test_two_workers_give_the_same_answers(kafka: str, tmp_path: Path, two_workers: StandaloneSpark) -> None:
    project = visits_and_orders.make(tmp_path, kafka, "two_workers", records_per_batch=10_000)
    visits_and_orders.send(project, visits=20_000, orders=8_000)
    with SpeedProcess(project, "--drain") as speed:
        assert speed.wait() == 0, speed.lines
    assert two_workers.used() == 2, "both have worked"
    assert project.check() > 50


# Of a local Spark, test_killed_python_worker.py kills Python workers.
@pytest.mark.parametrize("killed", ["python_workers", "busy_executors"])
def test_a_process_of_a_worker_killed_in_mid_micro_batch_changes_nothing(
    killed: str, kafka: str, tmp_path: Path, two_workers: StandaloneSpark
) -> None:
    project = visits_and_orders.make(tmp_path, kafka, f"killed_{killed}", records_per_batch=100)
    visits_and_orders.send(project, visits=1_500, orders=400)
    with SpeedProcess(project, "--drain") as speed:
        finished = kill_until_a_task_is_lost(speed, project, "visits", lambda: getattr(two_workers, killed)()[:1])
        assert speed.wait() == 0, speed.lines
    assert count_finished(project, "visits") > finished, "it has gone on"
    assert project.check() > 50


def test_a_failpoint_fires_in_one_task_of_all_executors(kafka: str, tmp_path: Path) -> None:
    visits_and_orders.make(tmp_path, kafka, "failpoint_of_executors", records_per_batch=100)
    fired = tmp_path / "fired"
    environment = {"WORKER_FAILPOINT": f"kill {PLACE}", "WORKER_FAILPOINT_FIRED": str(fired), "KAFKA": kafka}
    done = run_tasks(tmp_path, environment)
    assert (done.returncode, done.stdout) == (0, SUM), done.stderr
    assert fired.exists()
    assert count_lost_tasks(tmp_path / ".hourline" / "logs" / "spark-tasks.log") > 0


def test_executors_without_hourlines_packages_are_refused_in_one_sentence(
    kafka: str, tmp_path: Path, two_workers: StandaloneSpark
) -> None:
    project = visits_and_orders.make(tmp_path, kafka, "other_python", records_per_batch=100)
    bare, gone = tmp_path / "bare", tmp_path / "gone" / "python"
    bare.write_text(f'#!/bin/sh\nexec {Path(sys.executable).resolve()} -S "$@"\n')
    bare.chmod(0o755)
    settings = (tmp_path / "hourline.yaml").read_text()
    for python, sentence in (
        (gone, f"hourline: Spark's executors at {two_workers.master} cannot run {gone}: "),
        (bare, f"hourline: {bare} on Spark's executors at {two_workers.master} is not like the driver's: "),
    ):
        added = f"config:\n    spark.pyspark.python: {python}\n"
        (tmp_path / "hourline.yaml").write_text(settings.replace("config:\n", added))
        with SpeedProcess(project, "--drain") as speed:
            assert speed.wait() == 1, speed.lines
        (line,) = [line for line in speed.lines if "executors" in line]
        assert line.startswith(sentence), speed.lines
        assert line.endswith("name a Python that has them as spark.pyspark.python in spark.config\n"), speed.lines
        assert "Traceback" not in "".join(speed.lines), speed.lines
