"""What a session makes of the settings, and what it says of executors that are not like the driver."""

from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

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


@pytest.mark.parametrize(
    ("declared", "memory"),
    [
        ({}, None),
        ({"worker_memory": "2g"}, "2g"),
        ({"worker_memory": "2g", "config": {"spark.executorEnv.HOURLINE_WORKER_MEMORY": "3g"}}, "3g"),
    ],
)
@pytest.mark.parametrize("master", ["local[2]", "spark://spark.example.org:7077"])
def test_the_memory_of_workers_is_in_the_environment_of_executors(
    master: str, declared: dict[str, Any], memory: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", lambda builder: dict(builder._options))
    monkeypatch.setattr("hourline_core.runtime.spark.look_up_classes_once", lambda spark: None)
    monkeypatch.setattr("hourline_core.runtime.spark.register_attempt", lambda spark: None)
    settings = Settings.model_validate({"spark": {"master": master, **declared}})
    session = spark_session(Project(tmp_path, settings, {}, {}), "test", runs_tasks=False)
    config = cast("dict[str, str]", session)
    assert config.get("spark.executorEnv.HOURLINE_WORKER_MEMORY") == memory
