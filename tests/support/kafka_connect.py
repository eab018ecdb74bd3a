"""A worker of Kafka Connect as a child of the test, and what its REST interface says."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import pytest
from confluent_kafka import Consumer, TopicPartition

from benchmarks.peers.streams import fetch
from hourline_core.errors import SetupError
from hourline_core.java_options import SAME_EVERYWHERE
from hourline_core.runtime import broker_commands
from hourline_core.runtime.java import find_java
from hourline_core.runtime.ports import LOOPBACK, free_ports
from hourline_core.runtime.supervised import Supervised
from tests.support.speed_process import wait_until

_LOG_CONFIGURATION = Path(broker_commands.__file__).with_name("broker_log4j2.properties")
_PLUGINS = ("connect_postgresql", "connect_jdbc")
_CLASSES_OF_FILES = "connect-file"
_JSON = "org.apache.kafka.connect.json.JsonConverter"


def skip_without_connect() -> None:
    """Skip the test if the jars cannot be fetched."""
    try:
        for jar_set in ("connect", *_PLUGINS):
            fetch(jar_set)
    except SetupError as error:
        pytest.skip(f"Kafka Connect cannot be fetched: {error}")


class ConnectWorker:
    """A context manager. The worker is distributed, as in production, and alone in its group. It ends with the block, and
    with this process at the latest.
    """

    def __init__(self, folder: Path, kafka: str) -> None:
        self._folder, self._kafka = folder, kafka
        self._log = folder / "connect.log"

    def __enter__(self) -> Self:
        (port,) = free_ports(1)
        self._url = f"http://{LOOPBACK}:{port}"
        self._folder.mkdir(parents=True)
        jars = fetch("connect")
        of_files = [jar for jar in jars if jar.name.startswith(_CLASSES_OF_FILES)]
        self._link_plugin("files", of_files)
        for name in _PLUGINS:
            self._link_plugin(name, fetch(name))
        properties = self._folder / "worker.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in self._settings().items()))
        classes = os.pathsep.join(str(jar) for jar in jars if jar not in of_files)
        options = ["-XX:+UseSerialGC", "-Xmx512m", f"-Dlog4j2.configurationFile={_LOG_CONFIGURATION.as_uri()}"]
        java: list[str | Path] = [find_java(), *options, *SAME_EVERYWHERE, "-cp", classes]
        with ExitStack() as stack:
            worker = [*java, "org.apache.kafka.connect.cli.ConnectDistributed", properties]
            self._process = stack.enter_context(Supervised(worker, log=self._log))
            wait_until(self._answers, "Kafka Connect does not answer")
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def wait_until(self, condition: Callable[[], bool], otherwise: str) -> None:
        """Until it holds. A connector that fails meanwhile is an AssertionError with its reason."""

        def holds() -> bool:
            for name in self._ask("GET", "/connectors"):
                self._states(name)
            return condition()

        wait_until(holds, otherwise, every_seconds=0.3)

    def start(self, config: Mapping[str, str]) -> None:
        """Start a connector, and wait until its task runs."""
        name = config["name"]
        self._change("PUT", f"/connectors/{name}/config", config)
        self.wait_until(lambda: self._states(name) == ["RUNNING", "RUNNING"], f"connector {name} does not run")

    def delete(self, name: str) -> None:
        """Delete a connector, with its task."""
        self._change("DELETE", f"/connectors/{name}")
        self.wait_until(lambda: name not in self._ask("GET", "/connectors"), f"connector {name} is still there")

    def read_again(self, name: str, topic: str) -> None:
        """Let a sink connector read its topic from the beginning."""
        self._change("PUT", f"/connectors/{name}/stop")
        self.wait_until(lambda: self._states(name) == ["STOPPED"], f"connector {name} does not stop")
        self._change("DELETE", f"/connectors/{name}/offsets")
        assert self.offset(name, topic) < 0
        self._change("PUT", f"/connectors/{name}/resume")
        self.wait_until(lambda: self._states(name) == ["RUNNING", "RUNNING"], f"connector {name} does not run again")

    def offset(self, name: str, topic: str) -> int:
        """Up to which offset (exclusive) a sink connector has taken the only partition of its topic."""
        client = Consumer({"bootstrap.servers": self._kafka, "group.id": f"connect-{name}", "log_level": 0})
        (found,) = client.committed([TopicPartition(topic, 0)], timeout=60)
        client.close()
        return found.offset

    def _link_plugin(self, name: str, jars: Sequence[Path]) -> None:
        folder = self._folder / "plugins" / name
        folder.mkdir(parents=True)
        for jar in jars:
            (folder / jar.name).symlink_to(jar)

    def _settings(self) -> dict[str, object]:
        storage = {
            f"{of}.storage.{name}": value
            for of in ("config", "offset", "status")
            for name, value in (("topic", f"connect-{of}"), ("replication.factor", 1))
        }
        return {
            "bootstrap.servers": self._kafka,
            "group.id": "connect-workers",
            **storage,
            "offset.storage.partitions": 1,
            "status.storage.partitions": 1,
            "offset.flush.interval.ms": 500,
            "key.converter": _JSON,
            "value.converter": _JSON,
            "listeners": self._url,
            "plugin.path": self._folder / "plugins",
            "plugin.discovery": "service_load",
        }

    def _answers(self) -> bool:
        assert self._process.alive(), self._log.read_text()[-4000:]
        try:
            self._ask("GET", "/connectors")
        except (URLError, FileNotFoundError):  # Its routes come later than its port.
            return False
        return True

    def _states(self, name: str) -> list[str]:
        """The states of a connector and its tasks."""
        try:
            status = self._ask("GET", f"/connectors/{name}/status")
        except FileNotFoundError:
            return []
        failed = [task["trace"] for task in (status["connector"], *status["tasks"]) if task["state"] == "FAILED"]
        assert not failed, failed[0]
        return [task["state"] for task in (status["connector"], *status["tasks"])]

    def _change(self, method: str, path: str, body: object = None) -> None:
        def taken() -> bool:
            try:
                self._ask(method, path, body)
            except BlockingIOError:
                return False
            return True

        wait_until(taken, f"{method} {path} was not taken", every_seconds=0.3)

    def _ask(self, method: str, path: str, body: object = None) -> Any:
        """The answer as JSON is read. Raises FileNotFoundError for what is not there (yet), and BlockingIOError while the
        worker starts or stops tasks.
        """
        request = Request(f"{self._url}{path}", method=method, headers={"Content-Type": "application/json"})  # noqa: S310 (http)
        data = None if body is None else json.dumps(body).encode()
        try:
            with urlopen(request, data, timeout=90) as answer:  # noqa: S310 (http)
                text = answer.read()
        except HTTPError as error:
            if error.code == 404:
                raise FileNotFoundError(path) from None
            if error.code == 409:
                raise BlockingIOError(path) from None
            raise AssertionError(f"{method} {path}: {error.code} {error.read().decode()}") from None
        return json.loads(text) if text else None
