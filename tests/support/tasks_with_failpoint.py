"""A Spark job of a process of its own, whose tasks visit a failpoint. ``python -m tests.support.tasks_with_failpoint
PROJECT`` prints the sum of eight numbers, which four tasks add up.
"""

import os
import subprocess
import sys
from pathlib import Path

from hourline import load_project
from hourline_core.runtime.failpoints import visit
from hourline_core.runtime.spark import spark_session, stop_spark

PLACE = "in a task"
SUM = "28\n"


def run_tasks(project: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run them in the Spark of ``project``, which has the variables of ``environment`` beside those of this process."""
    return subprocess.run(
        [sys.executable, "-m", "tests.support.tasks_with_failpoint", str(project)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def main(project: str) -> None:
    spark = spark_session(load_project(Path(project)), "tasks", brief=True)
    try:
        print(spark.sparkContext.parallelize(range(8), 4).map(_visit).sum())  # noqa: T201 (what is read of this process)
    finally:
        stop_spark(spark)


def _visit(number: int) -> int:
    visit(PLACE)
    return number


if __name__ == "__main__":
    main(sys.argv[1])
