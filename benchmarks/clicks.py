"""A running project with its own Kafka, for benchmarks of the whole stack: clicks with ids, all in one hour."""

import os
import signal
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka import Producer

import serving_layer
from benchmarks.processes import hourline, megabytes
from benchmarks.project_files import write_files
from hourline import Project, load_project
from hourline_core.errors import HourlineError
from hourline_core.ledger.layout import Layout
from hourline_core.runtime.background import SPEED, stop
from hourline_core.runtime.file_lock import is_alive
from hourline_core.runtime.lease import lease_holder
from hourline_core.runtime.ports import free_ports

SOURCE = """\
topic: clicks
fields: {click: string, page: string, at: long}
event_time: {expression: at, encoding: epoch_seconds}
id: click
"""
METRIC = "source: clicks\ndimensions: [page]\nmeasures: {clicks: count, pages: distinct(page)}\n"
AT = 1_700_000_000 // 3600 * 3600


class Clicks:
    """A project with its own Kafka, which may be up within the block. The first ``clicks`` wait for Kafka."""

    def __init__(self, folder: Path, clicks: int) -> None:
        (port,) = free_ports(1)
        settings = f"name: clicks\nkafka: {{port: {port}}}\n"
        files = {"hourline.yaml": settings, "sources/clicks.yaml": SOURCE, "metrics/visits.yaml": METRIC}
        self.project: Project = load_project(write_files(folder, files))
        waiting = {
            "queue.buffering.max.messages": 1_000_000,
            "topic.metadata.propagation.max.ms": 300_000,  # the producer waits this long for a missing topic
            "topic.metadata.refresh.fast.interval.ms": 50,
            "reconnect.backoff.max.ms": 100,
        }
        self._producer = Producer({"bootstrap.servers": f"127.0.0.1:{port}", "log_level": 0, **waiting})
        self._sent = 0
        self.send(clicks)

    def send(self, clicks: int) -> None:
        """Send more clicks, all in one hour. They wait until Kafka is up."""
        self._produce(range(self._sent, self._sent + clicks))
        self._sent += clicks

    def repeat(self, clicks: int) -> None:
        """Send the first ``clicks`` again. They must not count twice."""
        self._produce(range(clicks))

    def _produce(self, numbers: range) -> None:
        for number in numbers:
            value = f'{{"click": "click {number}", "page": "page {number % 50}", "at": {AT + number % 3600}}}'
            self._producer.produce("clicks", value.encode())

    def up(self) -> float:
        """Start Hourline, and return the seconds until a query shows all sent clicks."""
        began = time.monotonic()
        with (self.project.root / "up.log").open("ab") as log:
            process = subprocess.Popen(hourline(self.project.root, "up"), stdout=log, stderr=log)
        try:
            self.wait(process)
            taken = time.monotonic() - began
            assert process.wait() == 0
        except BaseException:
            process.send_signal(signal.SIGINT)  # it then stops its children
            process.wait()
            raise
        return taken

    def wait(self, process: subprocess.Popen[bytes] | None = None) -> None:
        """Wait until a query shows all sent clicks. ``process`` may still be starting Hourline."""
        began = time.monotonic()
        commits, seen = Path(Layout.of(self.project).progress(self.project.sources["clicks"])) / "_delta_log", 0
        while (counted := self._counted()) < self._sent:
            assert process is None or process.poll() in (None, 0), (self.project.root / "up.log").read_text()[-2000:]
            assert time.monotonic() < began + 300, f"{counted} of {self._sent} records are visible"
            while (there := len(list(commits.glob("*.json")))) == seen and time.monotonic() < began + 300:
                self._producer.poll(0.02)
                if process is not None and process.poll():
                    break
            seen = there
        assert counted == self._sent, f"{counted} records count, {self._sent} were sent"

    @property
    def pid(self) -> int:
        """The id of the speed layer's process, which has started all others."""
        pid = lease_holder(self.project.workspace, SPEED.name)
        assert pid is not None, "it does not run"
        return pid

    def kill(self) -> None:
        """Kill the speed layer with -9, and wait until its Kafka and its Java have ended, too."""
        family = megabytes(self.pid)
        os.kill(self.pid, signal.SIGKILL)
        deadline = time.monotonic() + 60
        while any(is_alive(one) for one in family):
            assert time.monotonic() < deadline, f"of {sorted(family)} some live on"
            time.sleep(0.05)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._producer.purge()
        stop(self.project, SPEED)

    def _counted(self) -> int:
        try:
            with serving_layer.connect(self.project) as connection:
                ((counted,),) = connection.sql("SELECT coalesce(sum(clicks), 0)::BIGINT FROM visits").fetchall()
        except HourlineError:  # the tables do not exist yet
            return 0
        return int(counted)
