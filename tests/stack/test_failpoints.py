"""kill -9 at the durable steps of a recompute and of a micro-batch, with Spark: whoever starts next goes on, and no
answer is wrong at any moment."""

import signal
from pathlib import Path

import pytest

from tests.support import parcels
from tests.support.speed_process import SpeedProcess
from tests.support.stack_project import StackProject

pytestmark = pytest.mark.heavy


# In CI, tests/protocol/test_failpoints.py kills it there without Spark, and test_airflow_backfill.py kills a backfill.
@pytest.mark.long
@pytest.mark.parametrize("native", [True, False])
def test_a_recompute_killed_where_it_publishes(
    native: bool, kafka: str, finished_project: StackProject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if native:
        project = parcels.make_finished(tmp_path, kafka, topic="finished_native", native=True)
    else:
        project = finished_project.copy(tmp_path)
    for place in ("after overwrite final", "after restore final"):
        monkeypatch.setenv("HOURLINE_FAILPOINT", f"kill {place}")
        with SpeedProcess(project, command="recompute") as process:
            assert process.wait() == -signal.SIGKILL, process.lines
        monkeypatch.delenv("HOURLINE_FAILPOINT")
        assert project.check_answers() > 100
    project.recompute()
    assert project.check() > 100


# In CI, test_merge.py kills it before progress, and tests/protocol/test_failpoints.py after each commit, without Spark.
@pytest.mark.long
def test_a_speed_layer_killed_at_the_commits_of_a_micro_batch(
    kafka: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = parcels.make(tmp_path, kafka, topic="killed_at_commits", few=True)
    # Before each of the others nothing is there, or what another one of them has left.
    for place in (
        "after append events",
        "after append rejected",
        "after append provisional",
        "before append progress",
        "after append progress",
    ):
        project.send("scans", parcels.scans(project.random, 30, first_hour=0, hours=3))
        project.send_refused("scans", [b"{", None])
        monkeypatch.setenv("HOURLINE_FAILPOINT", f"kill {place}")
        with SpeedProcess(project, "--drain") as process:
            assert process.wait() == -signal.SIGKILL, process.lines
        project.check_answers()
    monkeypatch.delenv("HOURLINE_FAILPOINT")
    project.drain()
    assert project.check() > 40
    project.recompute()
    assert project.check() > 40
