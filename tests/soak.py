"""`make soak`: the real stack for SOAK_MINUTES (20), with processes killed every few seconds; every read must equal the
oracle, and so must the end.

Events arrive all the time, `hourline speed` and `hourline recompute` are killed, frozen, woken and replaced, Kafka is
killed, frozen and gets partitions, its topic is deleted and recreated, and a reader compares every answer with the
oracle at the snapshot that it got. SEED repeats the choices (not the moments at which they meet the processes). The
oracle is naive, and counts all events again at each check: so there are at most 40,000 of them, however long it takes.
The exit status is 1 when a number was off or a process ended as it should not, which also keeps the tables; 130 after
Ctrl-C. Nothing outlives the soak, unless it is itself killed with -9.
"""

import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path

import serving_layer
from batch_layer.plan import plan
from hourline_core.runtime.broker import Broker
from tests.support import oracle, parcels
from tests.support.disturbances import Disturbances, guarded
from tests.support.disturbed_processes import say
from tests.support.parcels import GARBAGE

MOST_EVENTS = 40_000
EVENTS_PER_SECOND = 20.0
SECONDS_PER_HOUR = 15.0
"""So fast does event time go by, when the soak is not longer than MOST_EVENTS allow at full rate."""
TICK = 0.5


class Soak:
    """One project that is disturbed while it works, and checked all the time."""

    def __init__(self, folder: Path, kafka: Broker, seed: str, seconds: float) -> None:
        self.rand = random.Random(f"{seed} events")  # noqa: S311 (the same numbers each time)
        self.seconds = seconds
        self.project = parcels.make(folder, kafka.bootstrap, topic="soak", records_per_batch=200)
        self.project.random = random.Random(f"{seed} partitions")  # noqa: S311 (the same numbers each time)
        with (folder / "hourline.yaml").open("a") as settings:
            # Apart from the workspace, so that a speed layer on another one writes to them, too.
            settings.write("tables: .hourline/tables\nbatch: {hours_per_job: 8}\n")
        self.over, self.sent_all = threading.Event(), threading.Event()
        self.interrupted = False
        self.failure: BaseException | None = None
        self.sending = threading.Lock()
        """Held while records are sent: who takes it finds all that Kafka has in ``project.sent``."""
        self.disturbances = Disturbances(self.project, kafka, seed, self.over, self.sending)
        self.versions: object = None
        """Of the tables, as the last check saw them."""
        self.sequence = 0
        self.cells = 0

    def run(self) -> None:
        """From the first event to the last check. ``failure`` says what went wrong."""
        deadline = time.monotonic() + self.seconds
        disturbing = [
            guarded(work, self.fail) for work in (self.disturbances.disturb_speed, self.disturbances.disturb_recomputes)
        ]
        sender = guarded(self.send, self.fail)
        for thread in (*disturbing, sender):
            thread.start()
        try:
            while not self.over.wait(2) and time.monotonic() < deadline:
                self.check()
        except Exception as error:
            self.fail(error)
        self.over.set()
        if self.failure or self.interrupted:
            self.disturbances.processes.end()  # nobody is to wait for them any more
        for thread in disturbing:
            thread.join()
        self.sent_all.set()
        sender.join()
        try:
            if not self.failure and not self.interrupted:
                self.conclude()
        except Exception as error:
            self.fail(error)
        finally:
            self.disturbances.processes.end()

    def fail(self, error: BaseException) -> None:
        """Note the first failure and end the soak. Ctrl-C reaches the processes too: what they do then is no failure."""
        self.over.wait(1)
        if not self.interrupted and self.failure is None:
            self.failure = error
        self.over.set()

    def interrupt(self, number: int, frame: object) -> None:
        """End the soak, gracefully."""
        self.interrupted = True
        self.over.set()

    def send(self) -> None:
        """New events, late ones, repetitions within and beyond the horizon, garbage and tombstones, tick by tick."""
        slower = max(1.0, self.seconds * EVENTS_PER_SECOND / MOST_EVENTS)
        begin, rand = time.monotonic(), self.rand
        while not self.sent_all.wait(TICK * slower):
            hour = int((time.monotonic() - begin) / SECONDS_PER_HOUR / slower)
            bodies = parcels.scans(rand, round(EVENTS_PER_SECOND * TICK * 0.8), max(hour - 1, 0), hours=2)
            if rand.random() < 0.3:
                bodies += parcels.scans(rand, rand.randint(1, 4), rand.randrange(hour + 1), hours=1)
            with self.sending:
                earlier = [record.body for record in self.project.sent["scans"] if record.body]
                for among in (earlier[-300:], earlier):
                    bodies += rand.sample(among, min(len(among), rand.choice([0, 0, 1, 2])))
                self.project.send("scans", bodies)
                self.project.send_refused("scans", rand.sample(GARBAGE, rand.choice([0, 0, 0, 1, 2])))

    def check(self) -> None:
        """Compare one read with the oracle at the progress and the cutoffs of its snapshot."""
        with serving_layer.connect(self.project.project) as connection:
            snapshot = connection.snapshot
            reached = snapshot.progress["scans"].sequence if "scans" in snapshot.progress else 0
            versions = (
                snapshot.progress,
                snapshot.publication,
                [(tables.name, tables.provisional) for tables in snapshot.metrics],
            )
            if reached == 0 or versions == self.versions:
                return  # nothing new; the processors have others to work for
            cutoffs = {
                (metric, hour): cutoff
                for metric, declaration in snapshot.coverage.declarations()
                for hour, cutoff in snapshot.coverage.of(metric, declaration).cutoffs().items()
            }
            with self.sending:
                sent = {(record.partition, record.offset): record for record in self.project.sent["scans"]}
            sequences = {
                address: sequence
                for address, sequence in self.project.sequences("scans").items()
                if sequence <= reached
            }
            assert self.sequence <= reached, f"progress went back from {self.sequence} to {reached}"
            assert all(cutoff <= cutoffs.get(key, -1) for key, cutoff in self.project.cutoffs.items()), (
                "a cutoff went back, or was lost"
            )
            assert sequences.keys() <= sent.keys(), "progress knows of records that nobody has sent"
            missed = [
                address for address in sequences if address[1] > 0 and (address[0], address[1] - 1) not in sequences
            ]
            assert not missed, f"progress has left out the records before {missed[:5]}"
            events = oracle.accepted(self.project.rules["scans"], [sent[address] for address in sequences], sequences)
            cells = self.project.check_snapshot(connection, {"scans": events}, cutoffs)
        self.versions, self.sequence, self.project.cutoffs = versions, reached, cutoffs
        self.disturbances.hours = sorted({event.hour for event in events})
        self.cells += cells
        self.disturbances.processes.note(
            "check passed", f"{cells:,} cells, {len(events):,} events, up to #{reached}, {len(cutoffs):,} cutoffs"
        )

    def conclude(self) -> None:
        """With nothing disturbed any more, all that was sent is in the answers, and all that has closed is final."""
        say("nothing is disturbed any more: draining and recomputing")
        self.disturbances.recompute_and_drain()
        self.check()
        assert self.sequence == self.project.last_sequence("scans")
        cells = self.project.check()
        left = plan(self.project.project)
        assert not left, f"{len(left)} hours want recomputing still, such as {left[:3]}"
        say(f"at the end all answers and the accounting are equal to the oracle: {cells:,} cells")

    def summary(self) -> str:
        """What has happened."""
        sent, counts = self.project.sent["scans"], self.disturbances.processes.counts
        kills = sum(count for what, count in counts.items() if "killed" in what)
        garbage = sum(record.body is None for record in sent)
        lines = [f"{count:6,} {what}" for what, count in sorted(counts.items())]
        total = f"{kills:,} kills; {len(sent):,} records sent, {garbage:,} of them garbage or tombstones; {self.sequence:,} sequences; "
        return "\n".join([*lines, total + f"{counts['check passed']:,} checks of {self.cells:,} cells"])


def main() -> int:
    """Play the soak; returns its exit status."""
    seconds = float(os.environ.get("SOAK_MINUTES") or 20) * 60
    seed = os.environ.get("SEED") or str(random.SystemRandom().randrange(10**6))
    folder = Path(tempfile.mkdtemp(prefix="hourline-soak-"))
    say(f"SEED={seed}, {seconds / 60:g} minutes, in {folder}")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with Broker(folder / "broker") as broker:
            soak = Soak(folder / "project", broker, seed, seconds)
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, soak.interrupt)
            soak.run()
    except KeyboardInterrupt:  # before anything was disturbed
        shutil.rmtree(folder)
        say("interrupted; nothing is left running")
        return 130
    say(f"summary\n{soak.summary()}")
    if soak.failure:
        traceback.print_exception(soak.failure)
        say(f"FAILED with SEED={seed}: {soak.failure}\nthe tables are kept in {folder}")
        return 1
    shutil.rmtree(folder)
    say("interrupted; nothing is left running" if soak.interrupted else f"equal to the oracle, SEED={seed}")
    return 130 if soak.interrupted else 0


if __name__ == "__main__":
    sys.exit(main())
