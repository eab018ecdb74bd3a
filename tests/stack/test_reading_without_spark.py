"""Reading a project works without Spark, Kafka, Airflow and Java."""

import json
import textwrap

from tests.support.blocked_imports import READING, command_line, without
from tests.support.stack_project import StackProject


def test_reading_needs_neither_spark_nor_java(finished_project: StackProject) -> None:
    script = """\
        import serving_layer
        with serving_layer.connect({root!r}) as connection:
            print(connection.sql("SELECT sum(scans) FROM flow").fetchone()[0])
        """
    done = without(READING, textwrap.dedent(script).format(root=str(finished_project.root)), finished_project)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 100


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
