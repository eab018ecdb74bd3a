"""A recompute whose tasks read and fold the archive: with processes killed in mid-fold, on two executors, and with tasks
that run twice, each hour is published once, and every answer is exact.
"""

import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import serving_layer
from tests.support import parcels
from tests.support.speed_process import SpeedProcess
from tests.support.stack_project import StackProject
from tests.support.standalone_spark import StandaloneSpark, standalone_spark
from tests.support.struck_fold import COPY
from tests.support.task_losses import count_lost_tasks

pytestmark = pytest.mark.heavy

_SPECULATION = (
    "spark: {master: '${SPARK_MASTER}', config: {spark.speculation: 'true', spark.speculation.quantile: '0.1'}}\n"
)


@pytest.fixture(scope="module")
def unpublished(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> StackProject:
    """A project of which nothing is recomputed."""
    project = parcels.make(tmp_path_factory.mktemp("struck"), kafka, topic="struck", native=True)
    project.send("scans", parcels.scans(project.random, 600, first_hour=0, hours=6))
    project.drain()
    return project


@pytest.fixture
def project(unpublished: StackProject, tmp_path: Path) -> StackProject:
    return unpublished.copy(tmp_path)


@pytest.fixture(scope="module")
def two_workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneSpark]:
    """A Spark of two workers with a core each."""
    with standalone_spark(tmp_path_factory.mktemp("spark")) as spark:
        yield spark


def test_a_worker_killed_in_mid_fold_changes_nothing(project: StackProject) -> None:
    assert recompute(project, "worker").process.returncode == 0
    assert lost_tasks(project) == 1
    check_published_once(project)


@pytest.mark.long
def test_a_task_that_is_lost_for_good_ends_the_recompute_in_one_sentence(
    project: StackProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_MASTER", "local[2,1]")
    done = recompute(project, "worker")
    assert done.process.returncode == 1, done.lines
    assert [line for line in done.lines if line.startswith("hourline: ")], done.lines
    assert "Traceback" not in "".join(done.lines)
    check_recomputed_after(project)


@pytest.mark.long  # tests/protocol/test_failpoints.py kills a publication at each step, without Spark
def test_a_recompute_killed_in_mid_fold_publishes_nothing(project: StackProject) -> None:
    assert recompute(project, "driver").process.returncode == -signal.SIGKILL
    check_recomputed_after(project)


@pytest.mark.long  # In CI, a worker of a local Spark is killed, above.
def test_an_executor_killed_in_mid_fold_changes_nothing(
    project: StackProject, two_workers: StandaloneSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_MASTER", two_workers.master)
    done = recompute(project, "executor")
    assert done.process.returncode == 0, done.lines
    assert two_workers.used() == 2, "both have worked"
    assert lost_tasks(project) > 0
    check_published_once(project)


@pytest.mark.long
def test_a_task_that_runs_twice_counts_once(
    project: StackProject, two_workers: StandaloneSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_MASTER", two_workers.master)
    settings = project.root / "hourline.yaml"
    lines = settings.read_text().splitlines(keepends=True)
    settings.write_text("".join(_SPECULATION if line.startswith("spark:") else line for line in lines))
    done = recompute(project, COPY)
    assert done.process.returncode == 0, done.lines
    check_published_once(project)


def recompute(project: StackProject, strike: str) -> SpeedProcess:
    """A recompute of all closed hours, which has ended, and one of whose tasks has struck."""
    mark = project.root / "mark"
    program = ("-m", "tests.support.struck_fold", strike, str(mark))
    with SpeedProcess(project, command="recompute", program=program) as process:
        process.wait()
    assert mark.exists(), process.lines
    return process


def lost_tasks(project: StackProject) -> int:
    return count_lost_tasks(project.project.workspace / "logs" / "spark-batch.log")


def check_recomputed_after(project: StackProject) -> None:
    """Nothing is published until the next recompute."""
    assert project.check() > 100
    assert project.recompute()
    check_published_once(project)


def check_published_once(project: StackProject) -> None:
    project.note_cutoffs()
    assert project.check() > 100
    with serving_layer.connect(project.project) as connection:
        published = connection.sql("SELECT DISTINCT metric, hour, published FROM drift").fetchall()
    times = Counter((metric, hour) for metric, hour, _ in published)
    assert times.keys() == project.cutoffs.keys()
    assert len(times) > 6
    assert set(times.values()) == {1}
