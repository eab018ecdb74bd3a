"""The same recompute on a Spark of its own, a master and a worker, by settings alone."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from batch_layer.plan import plan_range
from hourline_core.model.hours import parse_range
from tests.support.speed_process import wait_until
from tests.support.stack_project import StackProject
from tests.support.standalone_spark import standalone_spark

pytestmark = pytest.mark.heavy


@pytest.mark.long  # No test of CI has such a Spark. test_struck_folds.py recomputes by tasks of a local one.
def test_a_recompute_on_a_standalone_spark_gives_the_same_answers(
    finished_project: StackProject, tmp_path: Path
) -> None:
    project = finished_project.copy(tmp_path)
    hours = ("2024-05-06T19", "2024-05-07T02")
    wanted = plan_range(project.project, parse_range(*hours))
    options = ["--from", hours[0], "--to", hours[1], "--include-open", "--project", str(project.root)]
    with standalone_spark(tmp_path / "spark", workers=1, cores=2) as spark:
        done = subprocess.run(
            [sys.executable, "-m", "hourline", "recompute", *options],
            env={**os.environ, "KAFKA": project.kafka, "SPARK_MASTER": spark.master},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        wait_until(lambda: spark.completed() == ["hourline-batch"], "the master has not seen the application end")
        assert spark.used() == 1, "the worker has worked"
    project.recomputed(wanted, {"scans": project.last_sequence("scans")})
    assert project.check() > 200
