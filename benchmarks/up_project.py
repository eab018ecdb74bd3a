"""A project with its own Kafka that `hourline up` runs, for benchmarks of the whole stack."""

import os
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka import Producer

from benchmarks.processes import hourline, megabytes
from hourline import Project
from hourline_core.errors import HourlineError
from hourline_core.ledger.layout import Layout
from hourline_core.runtime.background import SPEED, stop
from hourline_core.runtime.file_lock import is_alive
from hourline_core.runtime.lease import lease_holder


class UpProject(ABC):
    """A project whose Kafka has the ``port``. It may be up within the block. What is sent before waits for Kafka."""

    def __init__(self, project: Project, port: int, counted: str) -> None:
        """``counted`` is the source whose commits bring what is waited for."""
        self.project = project
        self._counted = counted
        waiting = {
            "queue.buffering.max.messages": 2_000_000,
            "topic.metadata.propagation.max.ms": 300_000,  # the producer waits this long for a missing topic
            "topic.metadata.refresh.fast.interval.ms": 50,
            "reconnect.backoff.max.ms": 100,
        }
        self.producer = Producer({"bootstrap.servers": f"127.0.0.1:{port}", "log_level": 0, **waiting})
        self.sent = 0
        """The number of what must count by all that was sent."""

    @abstractmethod
    def count(self) -> int:
        """What counts now. Raises HourlineError if the tables do not exist yet."""

    def up(self) -> float:
        """Start Hourline, and return the seconds until a query shows all that was sent."""
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
        """Wait until a query shows all that was sent. ``process`` may still be starting Hourline."""
        began = time.monotonic()
        commits, seen = Path(Layout.of(self.project).progress(self.project.sources[self._counted])) / "_delta_log", 0
        while (counted := self._count_if_there()) < self.sent:
            assert process is None or process.poll() in (None, 0), (self.project.root / "up.log").read_text()[-2000:]
            assert time.monotonic() < began + 300, f"{counted} of {self.sent} records are visible"
            while (there := len(list(commits.glob("*.json")))) == seen and time.monotonic() < began + 300:
                self.producer.poll(0.02)
                if process is not None and process.poll():
                    break
            seen = there
        assert counted == self.sent, f"{counted} records count, {self.sent} were sent"

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
        self.producer.purge()
        stop(self.project, SPEED)

    def _count_if_there(self) -> int:
        try:
            return self.count()
        except HourlineError:
            return 0
