"""Who may import whom, tried out: reading works without Spark, Kafka, Airflow or Java, and declarations load without
any engine.

The static half of it is in pyproject.toml, for `lint-imports`.
"""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.support.stack_project import StackProject

pytestmark = pytest.mark.beside

BLOCK = """\
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names!r}:
            raise ImportError(name + " is blocked")

sys.meta_path.insert(0, Blocked())
"""
READING = ("pyspark", "py4j", "airflow", "confluent_kafka", "delta")
DECLARING = (*READING, "duckdb", "deltalake", "pyarrow", "pandas", "datasketches")


def test_declarations_load_without_any_engine() -> None:
    done = without(DECLARING, "import hourline_core.model, hourline_core.errors, hourline_core.model.hours")
    assert done.returncode == 0, done.stderr


def test_the_command_line_offers_help_without_any_engine() -> None:
    done = without(DECLARING, command_line("--help"))
    assert done.returncode == 0, done.stderr
    assert "recompute" in done.stdout


def test_what_is_blocked_is_blocked() -> None:
    assert "is blocked" in without(READING, "import speed_layer.run").stderr


@pytest.mark.stack
def test_reading_needs_neither_spark_nor_java(finished_project: StackProject) -> None:
    script = """\
        import serving_layer
        with serving_layer.connect({root!r}) as connection:
            print(connection.sql("SELECT sum(scans) FROM flow").fetchone()[0])
        """
    done = without(READING, textwrap.dedent(script).format(root=str(finished_project.root)), finished_project)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 100


@pytest.mark.stack
def test_query_and_status_need_neither_spark_nor_java(finished_project: StackProject) -> None:
    root = str(finished_project.root)
    done = without(
        READING,
        command_line("query", "SELECT DISTINCT state FROM hours", "--format", "json", "--project", root),
        finished_project,
    )
    assert done.returncode == 0, done.stderr
    assert {row["state"] for row in json.loads(done.stdout)} == {"final", "revised", "provisional"}
    done = without(READING, command_line("status", "--format", "json", "--project", root), finished_project)
    assert done.returncode == 0, done.stderr
    (source,) = json.loads(done.stdout)["sources"]
    assert source["records"] == len(finished_project.sent["scans"])
    assert source["lag"] is None, "there is no Kafka client to ask with"


def command_line(*arguments: str) -> str:
    return f"import sys\nsys.argv = {['hourline', *arguments]!r}\nfrom hourline.cli import main\nmain()"


def without(
    names: tuple[str, ...], script: str, project: StackProject | None = None
) -> "subprocess.CompletedProcess[str]":
    """Run ``script`` where ``names`` cannot be imported and no Java is to be found."""
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"} | {
        "PATH": str(Path(sys.executable).parent)
    }
    environment |= {"KAFKA": project.kafka} if project else {}
    command = [sys.executable, "-c", BLOCK.format(names=names) + script]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=False)
