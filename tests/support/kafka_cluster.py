"""A Kafka of several nodes on this machine, each of which can be killed, paused, moved to its other port, and started
again. The brokers have an authorizer, which allows what no ACL is about.
"""

import os
import shutil
import signal
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from hourline_core.runtime.broker_commands import format_command, new_id, start_command
from hourline_core.runtime.broker_properties import broker_properties
from hourline_core.runtime.ports import LOOPBACK, free_ports
from hourline_core.runtime.supervised import Supervised
from tests.support.speed_process import wait_until

_LARGEST_RECORD = 16 * 1024 * 1024


@dataclass
class Node:
    """One broker. The first node is also the only controller."""

    number: int
    folder: Path
    ports: tuple[int, int]
    """It listens on the first of them."""
    controller: int
    settings: Mapping[str, object]
    java_options: Sequence[str]
    listeners: Mapping[str, int]
    """More of them, with their ports. Their protocols are among the settings."""
    process: Supervised | None = None

    def start(self, largest_file: int | None = None) -> None:
        """Start it, and do not wait until it answers. A write beyond ``largest_file`` bytes of a file fails, as on a full
        disk.
        """
        self.configure()
        limit = [] if largest_file is None else ["prlimit", f"--fsize={largest_file}"]
        self.process = _run([*limit, *start_command("256m", self.java_options)], self.folder)

    def stop(self) -> None:
        """Let it hand its partitions over, and end."""
        assert self.process
        self.process.stop()

    @property
    def rack(self) -> str:
        """Each node is in a rack of its own."""
        return f"rack-{self.number}"

    def configure(self) -> None:
        """Write its configuration."""
        ports = {"PLAINTEXT": self.ports[0], **self.listeners}
        settings = {**self.settings, "node.id": self.number, "broker.rack": self.rack}
        if self.number > 1:
            settings["process.roles"] = "broker"
        else:
            ports["CONTROLLER"] = self.controller
        settings["listeners"] = ",".join(f"{name}://{LOOPBACK}:{port}" for name, port in ports.items())
        # Of two lines with one name, the later one counts.
        text = broker_properties(self.ports[0], self.controller)
        text += "".join(f"{name}={value}\n" for name, value in settings.items())
        (self.folder / "server.properties").write_text(text, encoding="ascii")

    def kill(self) -> None:
        """kill -9."""
        self._signal(signal.SIGKILL)
        assert self.process
        self.process.wait()

    def pause(self) -> None:
        """Let it do nothing at all. Its connections stay open."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        self._signal(signal.SIGCONT)

    def revive(self) -> None:
        """Start it if it does not run, and resume it if it is paused."""
        assert self.process
        if self.process.alive():
            self.resume()
        else:
            self.start()

    def move(self) -> None:
        """Have it listen on its other port from the next start on."""
        self.ports = self.ports[::-1]

    def bytes_written(self) -> int:
        """What it has written to connections and files since its start."""
        assert self.process
        counts = dict(line.split(": ") for line in Path(f"/proc/{self.process.pid}/io").read_text().splitlines())
        return int(counts["wchar"])

    def log_of(self, topic: str, partition: int) -> Path:
        """The file with the first records of a partition."""
        return self.folder / "data" / f"{topic}-{partition}" / f"{0:020}.log"

    def _signal(self, number: int) -> None:
        assert self.process
        os.kill(self.process.pid, number)


class KafkaCluster:
    """A context manager. ``bootstrap`` names both ports of each node. Topics have a copy on each. ``settings`` are more
    of ``server.properties``, and ``listeners`` more of the first node's, with their ports.
    """

    def __init__(
        self,
        folder: Path,
        nodes: int = 3,
        settings: Mapping[str, object] = MappingProxyType({}),
        java_options: Sequence[str] = (),
        listeners: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        *ports, controller = free_ports(2 * nodes + 1)
        copies = ("default", "offsets.topic", "transaction.state.log", "share.coordinator.state.topic")
        # Several controllers would have to vote before their authorizers allow it.
        shared = {
            "controller.quorum.voters": f"1@{LOOPBACK}:{controller}",
            **{f"{of}.replication.factor": nodes for of in copies},
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "allow.everyone.if.no.acl.found": "true",
            "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
            "message.max.bytes": _LARGEST_RECORD,
            "replica.fetch.max.bytes": _LARGEST_RECORD,
            # Nobody waits five minutes to see what retention deletes.
            "log.retention.check.interval.ms": 500,
            **settings,
        }
        self.nodes = [
            Node(
                number,
                folder / f"node-{number}",
                (ports[number - 1], ports[nodes + number - 1]),
                controller,
                shared,
                java_options,
                listeners if number == 1 else {},
            )
            for number in range(1, nodes + 1)
        ]
        self.bootstrap = ",".join(f"{LOOPBACK}:{port}" for port in ports)

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.callback(self._end)
            self._format()
            for node in self.nodes:
                node.start()
            self.wait_until_whole()
            self._started = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._started.close()

    def admin(self) -> AdminClient:
        """A client, which is asked for seconds at most."""
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def leader(self, topic: str) -> Node:
        """A node that leads a partition of ``topic``. If there are several, it is not the controller."""
        partitions = self.admin().list_topics(topic, timeout=600).topics[topic].partitions.values()
        return self.nodes[max(partition.leader for partition in partitions) - 1]

    def wait_until_whole(self) -> None:
        """Until all nodes are there, and have a copy of everything."""
        wait_until(self._is_whole, "the cluster is not whole")

    def _is_whole(self) -> bool:
        try:
            found = self.admin().list_topics(timeout=5)
        except KafkaException:
            return False
        return len(found.brokers) == len(self.nodes) and all(
            sorted(partition.isrs) == sorted(partition.replicas)
            for topic in found.topics.values()
            for partition in topic.partitions.values()
        )

    def _format(self) -> None:
        """Prepare the folders, with one Java for all: they differ in two lines."""
        first = self.nodes[0]
        first.folder.mkdir(parents=True)
        first.configure()
        with _run(format_command(), first.folder) as formatting:
            assert formatting.wait() == 0, (first.folder / "broker.log").read_text()
        for node in self.nodes[1:]:
            shutil.copytree(first.folder, node.folder)
            file = node.folder / "data" / "meta.properties"
            own = {"node.id": str(node.number), "directory.id": new_id()}
            named = dict(line.split("=", 1) for line in file.read_text().splitlines() if "=" in line)
            file.write_text("".join(f"{name}={value}\n" for name, value in {**named, **own}.items()))

    def _end(self) -> None:
        for node in self.nodes:
            if node.process and node.process.alive():
                node.kill()


def _run(command: list[str], folder: Path) -> Supervised:
    return Supervised(command, log=folder / "broker.log", cwd=folder)
