"""A Spark of its own, a master and its workers as processes, whose executors and Python workers are known by their ids."""

import json
import os
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

from hourline_core.runtime.ports import LOOPBACK, free_ports
from hourline_core.runtime.supervised import Supervised
from tests.support.speed_process import descendants, wait_until


@dataclass(frozen=True)
class StandaloneSpark:
    """A master that ``workers`` have joined."""

    master: str
    """Its address, for `spark.master`."""
    page: str
    """The address of its web page."""
    workers: tuple[Supervised, ...]
    folders: tuple[Path, ...]
    """Where each worker keeps the files of its executors."""

    def executors(self) -> list[int]:
        """The process ids of the executors that run now."""
        return [
            pid
            for worker in self.workers
            for pid in descendants(worker.pid)
            if "CoarseGrainedExecutorBackend" in command_of(pid)
        ]

    def busy_executors(self) -> list[int]:
        """The process ids of those of ``executors`` that run a task, by their logs."""
        return [pid for pid in self.executors() if _is_busy(Path(f"/proc/{pid}/cwd/stderr"))]

    def python_workers(self) -> list[int]:
        """The process ids of the Python workers of all executors."""
        return [pid for executor in self.executors() for pid in python_workers_of(executor)]

    def completed(self) -> list[str]:
        """The names of the applications that have ended."""
        return [application["name"] for application in json.loads(_read(self.page))["completedapps"]]

    def used(self) -> int:
        """The number of workers on which an application has run."""
        return sum(bool(list(folder.glob("app-*"))) for folder in self.folders)


@contextmanager
def standalone_spark(folder: Path, workers: int = 2, cores: int = 1) -> Iterator[StandaloneSpark]:
    """A master and ``workers`` with ``cores`` each, as long as the block. Their logs are in ``folder``. Each worker has
    an address of its own: of a task that runs on one host, Spark starts no copy there.
    """
    port, page, *of_workers = free_ports(2 + workers)
    master, address = f"spark://{LOOPBACK}:{port}", f"http://{LOOPBACK}:{page}/json/"
    folders = tuple(folder / f"worker-{number}" for number in range(workers))
    with ExitStack() as stack:
        stack.enter_context(
            _spark("Master", folder, "--host", LOOPBACK, "--port", str(port), "--webui-port", str(page))
        )
        started = []
        for number, (own, its_page) in enumerate(zip(folders, of_workers, strict=True), 1):
            own.mkdir(parents=True)
            limits = ["--cores", str(cores), "--memory", "1g", "--work-dir", str(own)]
            options = ["--host", f"127.0.0.{number}", "--webui-port", str(its_page), *limits]
            started.append(stack.enter_context(_spark("Worker", own, *options, master)))
        wait_until(lambda: _alive(address) == workers, "the workers have not joined the master")
        yield StandaloneSpark(master, address, tuple(started), folders)


def python_workers_of(java: int) -> list[int]:
    """The process ids of the Python workers of a driver or an executor: what its daemon has started."""
    return [
        worker
        for daemon in descendants(java)
        if "pyspark.worker" in command_of(daemon)
        for worker in descendants(daemon)
    ]


def command_of(pid: int) -> str:
    """The command line of a process. Empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def _spark(role: str, folder: Path, *arguments: str) -> Supervised:
    """One of Spark's own processes."""
    home = Path(pyspark.__file__).parent
    command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{role.lower()}.{role}", *arguments]
    env = {**os.environ, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": LOOPBACK, "SPARK_DAEMON_MEMORY": "256m"}
    return Supervised(command, log=folder / f"{role.lower()}.log", cwd=folder, env=env)


def _is_busy(log: Path) -> bool:
    try:
        text = log.read_text(errors="replace")
    except OSError:  # it has not begun, or has ended
        return False
    return text.count(": Running task ") > text.count(": Finished task ") + text.count(": Exception in task ")


def _alive(page: str) -> int:
    try:
        return sum(worker["state"] == "ALIVE" for worker in json.loads(_read(page))["workers"])
    except (OSError, json.JSONDecodeError):  # its page is up before what it shows: an empty answer
        return 0


def _read(page: str) -> bytes:
    with urllib.request.urlopen(page, timeout=5) as answer:  # noqa: S310 (an address of our own)
        return bytes(answer.read())
