"""What the soak does to Kafka under a speed layer."""

import json
import os
import random
import re
import signal
import threading

from hourline_core.runtime.broker import Broker
from tests.support.disturbed_processes import DisturbedProcesses, Ending
from tests.support.speed_process import SpeedProcess, wait_until

_MOST_PARTITIONS = 12


class KafkaDisturbances:
    """Disturbs ``kafka``, from which the ``processes`` read. ``sending`` is held while records are sent."""

    def __init__(self, processes: DisturbedProcesses, kafka: Broker, sending: threading.Lock) -> None:
        self._processes = processes
        self._project = processes.project
        self._kafka = kafka
        self._sending = sending
        self._on_recreate = "stop"
        """As the source declares it."""

    def endings(self) -> list[Ending]:
        """Each may come in its turn. Nothing starts while Kafka is away: a start wants a Kafka that answers."""
        return [
            self._kill,
            self._freeze,
            self._add_a_partition,
            self._recreate_topic_while_it_is_read,
            self._recreate_topic_while_nobody_reads,
        ]

    def _kill(self, speed: SpeedProcess, rand: random.Random) -> SpeedProcess:
        self._signal(signal.SIGKILL)
        self._processes.lives(speed, rand.choice([0, 20]) * rand.random())
        wait_until(self._kafka.restart, "Kafka does not end")
        self._processes.note("kafka was killed, and started again")
        return speed

    def _freeze(self, speed: SpeedProcess, rand: random.Random) -> SpeedProcess:
        self._signal(signal.SIGSTOP)
        self._processes.lives(speed, rand.uniform(1, 20))
        self._signal(signal.SIGCONT)
        self._processes.note("kafka frozen for a while")
        return speed

    def _add_a_partition(self, speed: SpeedProcess, rand: random.Random) -> SpeedProcess:
        partitions = self._project.partitions["scans"] + 1
        if partitions <= _MOST_PARTITIONS:
            self._project.add_partitions("scans", partitions)
            self._processes.note("partition added", f"{partitions} of them")
        return speed

    def _recreate_topic_while_it_is_read(self, speed: SpeedProcess, rand: random.Random) -> SpeedProcess | None:
        self._recreate_topic(rand)
        if self._on_recreate == "continue":
            speed.wait_for("as `on_recreate: continue` says")
        else:
            self._is_refused(speed)
        self._forget_unread()
        self._processes.note("topic recreated while it was read", f"on_recreate: {self._on_recreate}")
        if self._on_recreate == "continue":
            return speed
        self._decide_to_go_on(rand)
        return None

    def _recreate_topic_while_nobody_reads(self, speed: SpeedProcess, rand: random.Random) -> None:
        if rand.random() < 0.5:
            self._processes.stop(speed)
        else:
            self._processes.kill(speed, "speed killed")
        self._recreate_topic(rand)
        self._forget_unread()
        self._declare("stop")
        self._is_refused(self._processes.speed())
        self._processes.note("topic recreated while nobody read it")
        self._decide_to_go_on(rand)

    def _recreate_topic(self, rand: random.Random) -> None:
        with self._sending:
            self._project.recreate("scans", rand.randint(1, 4))

    def _forget_unread(self) -> None:
        """What nobody had read is gone with its topic. What was read stays."""
        with self._sending:
            self._project.forget_unread("scans")

    def _is_refused(self, speed: SpeedProcess) -> None:
        self._processes.ends_as(speed, "speed", status=os.EX_DATAERR)
        assert any("was deleted" in line and "`hourline reset scans`" in line for line in speed.lines), speed.lines

    def _decide_to_go_on(self, rand: random.Random) -> None:
        """Let the next speed layer read the topic that was recreated."""
        if rand.random() < 0.5:
            self._declare("continue")
        else:
            reset = self._processes.start("scans", "--yes", *self._processes.workspaces[0], command="reset")
            self._processes.ends_as(reset, "reset")

    def _declare(self, on_recreate: str) -> None:
        """No speed layer runs: each goes by what it has read at its start."""
        self._on_recreate = on_recreate
        file = self._project.root / "sources" / "scans.yaml"
        text = re.sub(r"^on_recreate: .*\n", "", file.read_text(), flags=re.MULTILINE)
        part = file.with_suffix(".part")
        part.write_text(f"{text}on_recreate: {on_recreate}\n")
        part.replace(file)

    def _signal(self, number: int) -> None:
        os.kill(json.loads((self._project.root.parent / "broker" / "run" / "broker.json").read_text())["pid"], number)
