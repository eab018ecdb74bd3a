"""What Spark's Java and its executors are started with, so that a result is the same on every machine."""

import shlex
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import pyspark

from hourline_core.child_environment import PORTABLE, WORKER_MEMORY, child_environment, home_folder, user_name
from hourline_core.java_options import SAME_EVERYWHERE, of_user

_OF_DRIVER, _OF_EXECUTORS = "spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions"


def spark_environment(python: str) -> dict[str, str]:
    """The environment of Spark's Java, whose workers run ``python``. Spark's own variables are left out: its settings
    are those of the project.
    """
    others = ("SPARK_", "PYSPARK_", WORKER_MEMORY)
    kept = {name: value for name, value in child_environment().items() if not name.startswith(others)}
    return {
        **kept,
        # Spark's workers would run the first `python3` on the path, and its scripts would ask it where Spark is.
        "PYSPARK_PYTHON": python,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        # Of the Java that makes the command of Spark's Java. A shell splits them at spaces.
        "SPARK_LAUNCHER_OPTS": " ".join(SAME_EVERYWHERE),
    }


def with_same_everywhere(config: Mapping[str, str]) -> dict[str, str]:
    """Spark's settings ``config``, with what each Java and each Python worker needs behind its own Java options."""
    on_driver = [*SAME_EVERYWHERE, *of_user(user_name(), home_folder())]
    return {
        **{f"spark.executorEnv.{name}": value for name, value in PORTABLE.items()},
        **config,
        _OF_DRIVER: _joined(config.get(_OF_DRIVER, ""), on_driver),
        _OF_EXECUTORS: _joined(config.get(_OF_EXECUTORS, ""), SAME_EVERYWHERE),
    }


def _joined(before: str, options: Iterable[str]) -> str:
    return f"{before} {shlex.join(options)}".strip()
