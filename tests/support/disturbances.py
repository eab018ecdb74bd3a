"""What the soak does to the processes of a project, and to its Kafka: kills, freezes, replaces and stops them at random
moments, and knows how each must end.
"""

import json
import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hourline_core.runtime.broker import Broker
from tests.support.failpoint_places import CHAIN
from tests.support.speed_process import PATIENCE, SpeedProcess, alive, descendants, wait_until
from tests.support.stack_project import StackProject

# Places that every life of a process can come to: tables are created once, and no field is added.
_PLACES = [place for place in CHAIN if place.split()[1] not in ("create", "widen")]
_BATCH_PLACES = [place for place in _PLACES if place.split()[2] in ("coverage", "drift", "final", "staged")]
_SPEED_PLACES = [place for place in _PLACES if place not in _BATCH_PLACES]

# Few processes live for the 200 micro-batches that lie between two times of maintenance.
_OFTEN_TIDIED = (
    "-c",
    "from speed_layer import maintenance; maintenance.MICRO_BATCHES = 8; maintenance.MERGED = 3; from hourline.cli import main; main()",
)

Ending = Callable[[SpeedProcess, random.Random], SpeedProcess | None]
"""What is done to a speed layer, with the random choices of its loop; the one that runs then, if one does."""

_MOST_PARTITIONS = 12

_CONFLICT = "another process has written to the table"


class Disturbances:
    """Two loops, ``disturb_speed`` and ``disturb_recomputes``, each for a thread of its own, until ``over`` is set; a
    process that ends otherwise than it was made to raises AssertionError there.
    """

    def __init__(self, project: StackProject, kafka: Broker, seed: str, over: threading.Event) -> None:
        self.project = project
        self.kafka = kafka
        self.over = over
        self.counts: Counter[str] = Counter()
        """What has happened, and how often."""
        self.hours: list[datetime] = []
        """Those that the last check saw events in, in order."""
        self._seed = seed
        self._started: list[SpeedProcess] = []
        self._counting = threading.Lock()
        self._reading = threading.Event()
        self._workspaces: list[list[str]] = [[], ["--workspace", str(Path(project.root) / "other")]]

    def note(self, what: str, about: str = "") -> None:
        """Count it, and say so."""
        with self._counting:
            self.counts[what] += 1
            say(f"{what}{about and ': '}{about}")

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
        # Nothing starts meanwhile: a start wants a Kafka that answers.
        endings += [self._kill_kafka, self._freeze_kafka, self._add_a_partition]
        deck: list[Ending] = []
        speed: SpeedProcess | None = None
        while not self.over.is_set():
            if speed is None:
                speed = self._speed()
                speed.wait_until_ready()
                if not self._reading.is_set() or rand.random() < 0.5:
                    speed.wait_for(" records")  # however slow the machine is, some are let finish a micro-batch
                    self._reading.set()
            self._lives(speed, rand.uniform(5, 25))
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
            recompute = self._start(*options, command="recompute", failpoint=f"kill {place}" if place else "")
            match rand.randrange(3):
                case 0 if not self._has_ended(recompute, rand.uniform(0.5, 15)):
                    self._kill_now(recompute, "recompute killed")
                    continue
                case 1 if not self._has_ended(recompute, rand.uniform(0.5, 12)):
                    recompute.process.send_signal(signal.SIGSTOP)
                    self.over.wait(rand.uniform(1, 6))
                    recompute.process.send_signal(signal.SIGCONT)
                    self.note("recompute frozen for a while")
            self._ends_as(recompute, "recompute", place)

    def recompute_and_drain(self) -> None:
        """Undisturbed, to the end of all that was sent."""
        for command, options in (("speed", ["--drain"]), ("recompute", [])):
            self._ends_as(self._start(*options, command=command), command, "")

    def end(self) -> None:
        """End all that still runs, frozen or not, and wait until nothing of it is left."""
        for process in list(self._started):
            if process.process.poll() is None:
                process.family = descendants(process.process.pid)
                process.kill()

    # What is done to a speed layer.

    def _kill(self, speed: SpeedProcess, rand: random.Random) -> None:
        self._kill_now(speed, "speed killed")

    def _kill_while_it_starts(self, speed: SpeedProcess, rand: random.Random) -> None:
        self._kill_now(speed, "speed killed")
        starting = self._speed()
        self._lives(starting, rand.uniform(0.5, 10))
        self._kill_now(starting, "speed killed while it started")

    def _kill_at_a_place(self, speed: SpeedProcess, rand: random.Random) -> None:
        self._kill_now(speed, "speed killed")
        place = f"{rand.choice(_SPEED_PLACES)} {rand.choice([1, 1, 2, 5])}"
        doomed = self._speed(failpoint=f"kill {place}")
        if self._has_ended(doomed, 45):
            assert doomed.process.returncode == -signal.SIGKILL, f"to be killed {place}: {_said(doomed)}"
            self._ends_as(doomed, "speed", place)
        else:
            self._kill_now(doomed, "speed killed")

    def _freeze(self, speed: SpeedProcess, rand: random.Random) -> SpeedProcess:
        speed.process.send_signal(signal.SIGSTOP)
        self.over.wait(rand.uniform(1, 8))
        speed.process.send_signal(signal.SIGCONT)
        self.note("speed frozen for a while")
        return speed

    def _stop(self, speed: SpeedProcess, rand: random.Random) -> None:
        speed.process.send_signal(signal.SIGTERM)
        assert speed.wait() == 0, _said(speed)
        wait_until(lambda: not alive(speed.family), f"{speed.family} outlive their parent {speed.process.pid}")
        self.note("speed stopped")

    def _stand_by(self, speed: SpeedProcess, rand: random.Random) -> SpeedProcess:
        second = self._speed("--standby")
        second.wait_for("standing by")
        self._lives(speed, rand.uniform(0, 5))
        rand.choice([self._kill, self._stop])(speed, rand)
        second.wait_until_ready()
        self.note("standby took over")
        return second

    def _wake_a_zombie(self, speed: SpeedProcess, rand: random.Random) -> SpeedProcess:
        """Frozen, it sleeps through the start of another on another workspace, which no lease keeps apart."""
        speed.process.send_signal(signal.SIGSTOP)
        self._workspaces.reverse()
        second = self._speed()
        second.wait_until_ready()
        self._lives(second, rand.uniform(0, 8))
        speed.process.send_signal(signal.SIGCONT)
        assert speed.wait() == 75, _said(speed)
        wait_until(lambda: any(_CONFLICT in line for line in speed.lines), "the zombie does not say why it ended")
        self.note("zombie woke, and changed nothing")
        return second

    # What is done to Kafka under a speed layer, which lives on.

    def _kill_kafka(self, speed: SpeedProcess, rand: random.Random) -> SpeedProcess:
        self._signal_kafka(signal.SIGKILL)
        self._lives(speed, rand.choice([0, 20]) * rand.random())
        wait_until(self.kafka.restart, "Kafka does not end")
        self.note("kafka was killed, and started again")
        return speed

    def _freeze_kafka(self, speed: SpeedProcess, rand: random.Random) -> SpeedProcess:
        self._signal_kafka(signal.SIGSTOP)
        self._lives(speed, rand.uniform(1, 20))
        self._signal_kafka(signal.SIGCONT)
        self.note("kafka frozen for a while")
        return speed

    def _add_a_partition(self, speed: SpeedProcess, rand: random.Random) -> SpeedProcess:
        partitions = self.project.partitions["scans"] + 1
        if partitions <= _MOST_PARTITIONS:
            self.project.add_partitions("scans", partitions)
            self.note("partition added", f"{partitions} of them")
        return speed

    def _signal_kafka(self, number: int) -> None:
        os.kill(json.loads((self.project.root.parent / "broker" / "run" / "broker.json").read_text())["pid"], number)

    # Processes.

    def _speed(self, *options: str, failpoint: str = "") -> SpeedProcess:
        return self._start(*options, *self._workspaces[0], failpoint=failpoint)

    def _start(self, *options: str, command: str = "speed", failpoint: str = "") -> SpeedProcess:
        process = SpeedProcess(self.project, *options, command=command, program=_OFTEN_TIDIED, failpoint=failpoint)
        self._started.append(process)
        return process

    def _has_ended(self, process: SpeedProcess, seconds: float) -> bool:
        """Whether it ends by itself within ``seconds``; its family is known up to then."""
        deadline = time.monotonic() + seconds
        while process.process.poll() is None and time.monotonic() < deadline:
            process.family = descendants(process.process.pid) or process.family
            time.sleep(0.5)
        return process.process.poll() is not None

    def _lives(self, process: SpeedProcess, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not self.over.is_set():
            assert not self._has_ended(process, 0.3), (
                f"ended by itself with status {process.process.returncode}: {_said(process)}"
            )

    def _kill_now(self, process: SpeedProcess, what: str) -> None:
        assert process.process.poll() is None, (
            f"ended by itself with status {process.process.returncode}: {_said(process)}"
        )
        process.family = descendants(process.process.pid)
        process.kill()
        self.note(what)

    def _ends_as(self, process: SpeedProcess, command: str, place: str) -> None:
        """It ends: killed at ``place`` or, when it never came there, well."""
        assert self._has_ended(process, PATIENCE), f"{command} does not end: {_said(process)}"
        status = process.process.returncode
        wait_until(lambda: not alive(process.family), f"{process.family} outlive their parent {process.process.pid}")
        if place and status == -signal.SIGKILL:
            self.note(f"{command} killed at a place", place)
            return
        assert status == 0, f"{command} ended with status {status} (to be killed {place}): {_said(process)}"
        published = [line.strip() for line in process.lines if line.startswith("published")]
        self.note(f"{command} ended well", "; ".join(published))

    def _some_hours(self, rand: random.Random) -> list[str]:
        first = rand.randrange(len(self.hours))
        begin, end = (
            self.hours[first],
            self.hours[min(first + rand.randrange(4), len(self.hours) - 1)] + timedelta(hours=1),
        )
        metric = rand.choice([[], ["--metric", "flow"], ["--metric", "fragile"]])
        return ["--from", f"{begin:%Y-%m-%dT%H}", "--to", f"{end:%Y-%m-%dT%H}", "--include-open", *metric]


def say(text: str) -> None:
    """A line of the log."""
    sys.stdout.write(f"{datetime.now(UTC):%H:%M:%S} {text}\n")
    sys.stdout.flush()


def guarded(work: Callable[[], None], failed: Callable[[BaseException], None]) -> threading.Thread:
    """A thread that does ``work``; what it raises goes to ``failed``."""

    def run() -> None:
        try:
            work()
        except Exception as error:
            failed(error)

    return threading.Thread(target=run)


def _said(process: SpeedProcess) -> str:
    return "".join(process.lines[-12:])
