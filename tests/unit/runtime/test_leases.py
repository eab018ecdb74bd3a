"""Taking turns: who waits is let in, also by one who has more to do, and also by one who was killed."""

import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from batch_layer.plan import plan
from tests.support.bare_tables import BareTables

WORKER = """\
import sys
from pathlib import Path
from hourline_core.runtime.lease import turn
for number in range(int(sys.argv[2])):
    with turn(Path(sys.argv[1]), "batch", lambda process: print("waiting for", process, flush=True)):
        print("working", flush=True)
        sys.stdin.readline()
"""


class Worker:
    """A process that takes as many turns as it is told, each until it is told to go on."""

    def __init__(self, workspace: Path, turns: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", WORKER, str(workspace), str(turns)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )

    def says(self, text: str) -> bool:
        assert self.process.stdout
        assert select.select([self.process.stdout], [], [], 30)[0], f"does not say '{text}'"
        return self.process.stdout.readline().decode().strip() == text

    def go_on(self) -> None:
        assert self.process.stdin
        self.process.stdin.write(b"\n")


@contextmanager
def workers(workspace: Path) -> Iterator[Callable[[int], Worker]]:
    """Starts workers, which are gone at the end of the block."""
    started: list[Worker] = []

    def start(turns: int) -> Worker:
        started.append(Worker(workspace, turns))
        return started[-1]

    try:
        yield start
    finally:
        for worker in started:
            worker.process.kill()
            worker.process.communicate()


def test_one_with_many_turns_lets_one_in_who_waits(tmp_path: Path) -> None:
    with workers(tmp_path) as start:
        backfill = start(3)
        assert backfill.says("working")
        hourly = start(1)
        assert hourly.says(f"waiting for {backfill.process.pid}")
        backfill.go_on()
        assert hourly.says("working")
        assert backfill.says(f"waiting for {hourly.process.pid}")
        hourly.go_on()
        assert backfill.says("working")
        assert hourly.process.wait() == 0
        backfill.go_on()
        assert backfill.says("working"), "nobody waits"


def test_who_waits_for_a_killed_process_takes_over(tmp_path: Path) -> None:
    with workers(tmp_path) as start:
        first = start(1)
        assert first.says("working")
        second = start(1)
        assert second.says(f"waiting for {first.process.pid}")
        first.process.send_signal(signal.SIGKILL)
        assert second.says("working")


def test_what_another_process_has_published_since_the_plan_is_left_out(tmp_path: Path) -> None:
    tables = BareTables(tmp_path, [0, 1, 2, 2, 9, 0])
    tables.start()
    tables.micro_batch(5)
    planned = [item for item in plan(tables.project) if item.metric == "totals"]
    assert [item.hour.hour for item in planned] == list(range(8))
    assert tables.left_out(planned) == []
    tables.publish(0, 1)
    assert tables.left_out(planned) == planned[:2]
    tables.micro_batch(1)
    assert tables.left_out(planned) == planned[1:2], "hour 0 has been revised since"
    # An hour that was planned although it was final is left out only when it was published again.
    again = [item for item in plan(tables.project) if item.metric == "totals"]
    tables.publish(0)
    assert tables.left_out(again) == again[:1]
    tables.check()
