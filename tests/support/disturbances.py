"""What the soak does to the processes of a project: kills, freezes, replaces and stops them at random moments, and knows
how each must end.
"""

import random
import signal
import threading
from collections.abc import Callable
from datetime import datetime, timedelta

from hourline_core.runtime.broker import Broker
from tests.support.disturbed_processes import DisturbedProcesses, Ending, last_lines
from tests.support.failpoint_places import CHAIN
from tests.support.kafka_disturbances import KafkaDisturbances
from tests.support.speed_process import SpeedProcess, wait_until
from tests.support.stack_project import StackProject

# Places that every life of a process can come to: tables are created once, and no field is added.
_PLACES = [place for place in CHAIN if place.split()[1] not in ("create", "widen")]
_BATCH_PLACES = [place for place in _PLACES if place.split()[2] in ("coverage", "drift", "final", "staged")]
_SPEED_PLACES = [place for place in _PLACES if place not in _BATCH_PLACES]

_CONFLICT = "another process has written to the table"


class Disturbances:
    """Two loops, ``disturb_speed`` and ``disturb_recomputes``, each for a thread of its own, until ``over`` is set; a
    process that ends otherwise than it was made to raises AssertionError there. ``sending`` is held while records are
    sent.
    """

    def __init__(
        self, project: StackProject, kafka: Broker, seed: str, over: threading.Event, sending: threading.Lock
    ) -> None:
        self.over = over
        self.processes = DisturbedProcesses(project, over)
        self.hours: list[datetime] = []
        """Those that the last check saw events in, in order."""
        self._of_kafka = KafkaDisturbances(self.processes, kafka, sending)
        self._seed = seed
        self._reading = threading.Event()

    def disturb_speed(self) -> None:
        """One speed layer after the other."""
        rand = random.Random(f"{self._seed} speed")  # noqa: S311 (the same choices each time)
        endings: list[Ending] = [
            self._kill,
            self._kill,
            self._kill_while_it_starts,
            self._kill_at_a_place,
            self._kill_at_a_place,
        ]
        endings += [self._freeze, self._stop, self._stand_by, self._wake_a_zombie]
        endings += self._of_kafka.endings()
        deck: list[Ending] = []
        speed: SpeedProcess | None = None
        while not self.over.is_set():
            if speed is None:
                speed = self.processes.speed()
                speed.wait_until_ready()
                if not self._reading.is_set() or rand.random() < 0.5:
                    speed.wait_for(" records")  # however slow the machine is, some are let finish a micro-batch
                    self._reading.set()
            self.processes.lives(speed, rand.uniform(5, 25))
            if not self.over.is_set():
                deck = deck or rand.sample(endings, len(endings))  # each has its turn
                speed = deck.pop()(speed, rand)
        if speed is not None:
            self._stop(speed, rand)

    def disturb_recomputes(self) -> None:
        """One recompute after the other, once there is something to recompute."""
        rand = random.Random(f"{self._seed} recomputes")  # noqa: S311 (the same choices each time)
        wait_until(lambda: self._reading.is_set() or self.over.is_set(), "nothing was read")
        while not self.over.wait(rand.uniform(1, 6)):
            options = rand.choice([[], [], self._some_hours(rand)]) if self.hours else []
            place = f"{rand.choice(_BATCH_PLACES)} {rand.choice([1, 1, 2])}" if rand.random() < 0.35 else ""
            recompute = self.processes.start(*options, command="recompute", failpoint=f"kill {place}" if place else "")
            match rand.randrange(3):
                case 0 if not self.processes.has_ended(recompute, rand.uniform(0.5, 15)):
                    self.processes.kill(recompute, "recompute killed")
                    continue
                case 1 if not self.processes.has_ended(recompute, rand.uniform(0.5, 12)):
                    recompute.process.send_signal(signal.SIGSTOP)
                    self.over.wait(rand.uniform(1, 6))
                    recompute.process.send_signal(signal.SIGCONT)
                    self.processes.note("recompute frozen for a while")
            self.processes.ends_as(recompute, "recompute", place)

    def recompute_and_drain(self) -> None:
        """Undisturbed, to the end of all that was sent."""
        for command, options in (("speed", ["--drain"]), ("recompute", [])):
            self.processes.ends_as(self.processes.start(*options, command=command), command)

    # What is done to a speed layer.

    def _kill(self, speed: SpeedProcess, rand: random.Random) -> None:
        self.processes.kill(speed, "speed killed")

    def _kill_while_it_starts(self, speed: SpeedProcess, rand: random.Random) -> None:
        self.processes.kill(speed, "speed killed")
        starting = self.processes.speed()
        self.processes.lives(starting, rand.uniform(0.5, 10))
        self.processes.kill(starting, "speed killed while it started")

    def _kill_at_a_place(self, speed: SpeedProcess, rand: random.Random) -> None:
        self.processes.kill(speed, "speed killed")
        place = f"{rand.choice(_SPEED_PLACES)} {rand.choice([1, 1, 2, 5])}"
        doomed = self.processes.speed(failpoint=f"kill {place}")
        if self.processes.has_ended(doomed, 45):
            assert doomed.process.returncode == -signal.SIGKILL, f"to be killed {place}: {last_lines(doomed)}"
            self.processes.ends_as(doomed, "speed", place)
        else:
            self.processes.kill(doomed, "speed killed")

    def _freeze(self, speed: SpeedProcess, rand: random.Random) -> SpeedProcess:
        speed.process.send_signal(signal.SIGSTOP)
        self.over.wait(rand.uniform(1, 8))
        speed.process.send_signal(signal.SIGCONT)
        self.processes.note("speed frozen for a while")
        return speed

    def _stop(self, speed: SpeedProcess, rand: random.Random) -> None:
        self.processes.stop(speed)

    def _stand_by(self, speed: SpeedProcess, rand: random.Random) -> SpeedProcess:
        second = self.processes.speed("--standby")
        second.wait_for("standing by")
        self.processes.lives(speed, rand.uniform(0, 5))
        rand.choice([self._kill, self._stop])(speed, rand)
        second.wait_until_ready()
        self.processes.note("standby took over")
        return second

    def _wake_a_zombie(self, speed: SpeedProcess, rand: random.Random) -> SpeedProcess:
        """Frozen, it sleeps through the start of another on another workspace, which no lease keeps apart."""
        speed.process.send_signal(signal.SIGSTOP)
        self.processes.workspaces.reverse()
        second = self.processes.speed()
        second.wait_until_ready()
        self.processes.lives(second, rand.uniform(0, 8))
        speed.process.send_signal(signal.SIGCONT)
        assert speed.wait() == 75, last_lines(speed)
        wait_until(lambda: any(_CONFLICT in line for line in speed.lines), "the zombie does not say why it ended")
        self.processes.note("zombie woke, and changed nothing")
        return second

    def _some_hours(self, rand: random.Random) -> list[str]:
        first = rand.randrange(len(self.hours))
        begin, end = (
            self.hours[first],
            self.hours[min(first + rand.randrange(4), len(self.hours) - 1)] + timedelta(hours=1),
        )
        metric = rand.choice([[], ["--metric", "flow"], ["--metric", "fragile"]])
        return ["--from", f"{begin:%Y-%m-%dT%H}", "--to", f"{end:%Y-%m-%dT%H}", "--include-open", *metric]


def guarded(work: Callable[[], None], failed: Callable[[BaseException], None]) -> threading.Thread:
    """A thread that does ``work``; what it raises goes to ``failed``."""

    def run() -> None:
        try:
            work()
        except Exception as error:
            failed(error)

    return threading.Thread(target=run)
