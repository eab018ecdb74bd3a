"""The same recompute on a Spark of its own, a master and a worker, by settings alone."""

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pyspark
import pytest

from batch_layer.plan import plan_range
from hourline_core.model.hours import parse_range
from hourline_core.runtime.ports import LOOPBACK, free_ports
from hourline_core.runtime.supervised import Supervised
from tests.support.speed_process import wait_until
from tests.support.stack_project import StackProject


@pytest.fixture
def spark_master(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """The address of a master that a worker has joined, and that of its web page."""
    port, page, of_worker = free_ports(3)
    master, address = f"spark://{LOOPBACK}:{port}", f"http://{LOOPBACK}:{page}/json/"
    with ExitStack() as stack:
        stack.enter_context(
            _spark("Master", tmp_path, "--host", LOOPBACK, "--port", str(port), "--webui-port", str(page))
        )
        folder = tmp_path / "worker"
        folder.mkdir()
        limits = ["--cores", "2", "--memory", "1g", "--work-dir", str(folder)]
        stack.enter_context(
            _spark("Worker", folder, "--host", LOOPBACK, "--webui-port", str(of_worker), *limits, master)
        )
        wait_until(lambda: _workers(address) == 1, "the worker has not joined the master")
        yield master, address


def test_a_recompute_on_a_standalone_spark_gives_the_same_answers(
    finished_project: StackProject, spark_master: tuple[str, str], tmp_path: Path
) -> None:
    project = finished_project.copy(tmp_path)
    master, page = spark_master
    hours = ("2024-05-06T19", "2024-05-07T02")
    wanted = plan_range(project.project, parse_range(*hours))
    options = ["--from", hours[0], "--to", hours[1], "--include-open", "--project", str(project.root)]
    environment = {**os.environ, "KAFKA": project.kafka, "SPARK_MASTER": master}
    done = subprocess.run(
        [sys.executable, "-m", "hourline", "recompute", *options],
        env=environment,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    wait_until(lambda: _completed(page) == ["hourline-batch"], "the master has not seen the application end")
    assert len(list(tmp_path.glob("worker/app-*"))) == 1, "the worker has worked"
    project.recomputed(wanted, {"scans": project.last_sequence("scans")})
    assert project.check() > 500


def _spark(role: str, folder: Path, *arguments: str) -> Supervised:
    """One of Spark's own processes."""
    home = Path(pyspark.__file__).parent
    command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{role.lower()}.{role}", *arguments]
    env = {**os.environ, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": LOOPBACK, "SPARK_DAEMON_MEMORY": "256m"}
    return Supervised(command, log=folder / f"{role.lower()}.log", cwd=folder, env=env)


def _workers(page: str) -> int:
    try:
        return sum(worker["state"] == "ALIVE" for worker in json.loads(_read(page))["workers"])
    except (OSError, json.JSONDecodeError):  # its page is up before what it shows: an empty answer
        return 0


def _completed(page: str) -> list[str]:
    return [application["name"] for application in json.loads(_read(page))["completedapps"]]


def _read(page: str) -> bytes:
    with urllib.request.urlopen(page, timeout=5) as answer:  # noqa: S310 (an address of our own)
        return bytes(answer.read())
