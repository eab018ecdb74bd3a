"""What a session makes of the master of the settings, and what it says of executors that are not like the driver."""

from pathlib import Path

import pytest

from hourline_core.errors import SetupError
from hourline_core.model import Project, Settings
from hourline_core.runtime.executor_python import describe_differences
from hourline_core.runtime.spark import allow_retries, spark_session


@pytest.mark.parametrize(
    ("master", "used"),
    [
        ("local[*]", "local[*,4]"),
        ("local[2]", "local[2,4]"),
        ("local[ 2 ]", "local[2,4]"),
        ("local", "local[1,4]"),
        ("local[2,1]", "local[2,1]"),
        ("local[*, 8]", "local[*, 8]"),
        ("local-cluster[2,1,1024]", "local-cluster[2,1,1024]"),
        ("spark://spark.example.org:7077", "spark://spark.example.org:7077"),
    ],
)
def test_a_local_spark_runs_a_failed_task_again_unless_its_master_says_how_often(master: str, used: str) -> None:
    assert allow_retries(master) == used


def test_the_first_host_that_is_not_like_the_driver_is_described() -> None:
    here = {"hourline": "0.2.0", "duckdb": "1.5.5"}
    same = {"host": "one", **here}
    assert describe_differences([same, same], here) == ""
    others = [same, {"host": "two", "duckdb": "1.4.0"}, {"host": "three"}]
    assert describe_differences(others, here) == "two lacks hourline 0.2.0, has duckdb 1.4.0 instead of 1.5.5"


def test_a_workspace_that_spark_takes_for_two_folders_is_refused(tmp_path: Path) -> None:
    project = Project(tmp_path / "a,b", Settings(), {}, {})
    with pytest.raises(
        SetupError, match=r"Spark takes .*a,b/\.hourline for several folders, because of ','; choose anoth"
    ):
        spark_session(project, "test")
