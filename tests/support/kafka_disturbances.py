"""What the soak does to Kafka under a speed layer."""

import json
import os
import random
import signal

from hourline_core.runtime.broker import Broker
from tests.support.disturbed_processes import DisturbedProcesses, Ending
from tests.support.speed_process import SpeedProcess, wait_until

_MOST_PARTITIONS = 12


class KafkaDisturbances:
    """Disturbs ``kafka``, from which the ``processes`` read."""

    def __init__(self, processes: DisturbedProcesses, kafka: Broker) -> None:
        self._processes = processes
        self._project = processes.project
        self._kafka = kafka

    def endings(self) -> list[Ending]:
        """Each may come in its turn. The speed layer lives on. Nothing starts meanwhile: a start wants a Kafka that
        answers.
        """
        return [self._kill, self._freeze, self._add_a_partition]

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

    def _signal(self, number: int) -> None:
        os.kill(json.loads((self._project.root.parent / "broker" / "run" / "broker.json").read_text())["pid"], number)
