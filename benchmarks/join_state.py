"""A kill -9 of the speed layer while it joins, with many events that may have a partner, and its memory after that."""

import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks import paid_orders
from benchmarks.figures import Figure
from benchmarks.memory import most
from benchmarks.paid_orders import HOURS, PAID, make_orders, pay, produce_orders, produce_payments, write_project
from benchmarks.processes import megabytes
from benchmarks.project_files import write_files
from benchmarks.up_project import UpProject
from hourline import load_project
from hourline_core.ledger.layout import Layout
from hourline_core.runtime.ports import free_ports
from serving_layer import connect

STATE = {False: 200_000, True: 1_000_000}
FEW = 1_000
PAYMENTS = 60
"""The number of payments before a kill, and while nothing runs."""
BURSTS = 5
"""The number of times that as many come after it."""
RESTART, MEMORY = 1.3, 1500
BOUND = 24 * (os.cpu_count() or 1)
"""The least memory of DuckDB in all Python workers with which such joins work, in MB: 24 for each core."""
_TOTAL = {"metrics/ordered.yaml": "source: orders\nmeasures: {orders: count}\n"}


@dataclass(frozen=True)
class Killed:
    """What a kill costs."""

    seconds: float
    """From the next start to the visible pairs."""
    all: float
    """The most memory of Kafka and the speed layer while pairs come, in MB."""
    worker: float
    """That of the largest Python worker."""


class JoinState(UpProject):
    """A project with ``orders`` of a day, of which any may have a partner among the next payments."""

    def __init__(self, folder: Path, orders: int, bound: int | None = None) -> None:
        """``bound`` is the memory of DuckDB in all Python workers, in MB."""
        (port,) = free_ports(1)
        root = write_files(write_project(folder, f"{{port: {port}}}", f"{HOURS}h"), _TOTAL)
        if bound:
            with (root / "hourline.yaml").open("a") as settings:
                settings.write(f"spark: {{worker_memory: {bound}m}}\n")
        super().__init__(load_project(root), port, PAID)
        self._orders = make_orders(orders)
        self._unpaid = np.random.default_rng(3).permutation(orders)
        self._payments: list[pa.Table] = []
        produce_orders(self.producer, self._orders)
        self.pay(1)

    def pay(self, count: int) -> None:
        """Pay for ``count`` orders of any time that are not paid."""
        paid, self._unpaid = self._unpaid[:count], self._unpaid[count:]
        self._payments.append(pay(self._orders.take(pa.array(paid)), HOURS * 60))
        produce_payments(self.producer, self._payments[-1])
        self.sent += count

    def count(self) -> int:
        return self._ask("SELECT coalesce(sum(pairs), 0)::BIGINT FROM turnover")

    def join_all(self) -> None:
        """Wait until all orders are read. A later payment then meets any of them."""
        while self._ask("SELECT coalesce(sum(orders), 0)::BIGINT FROM ordered") < len(self._orders):
            time.sleep(0.2)
        self.pay(1)
        self.wait()

    def kill_while_it_joins(self) -> None:
        """Send payments, and kill the speed layer once it has archived some of them."""
        log = Path(Layout.of(self.project).progress(self.project.sources[paid_orders.PAYMENTS])) / "_delta_log"
        before = len(list(log.glob("*.json")))
        self.pay(PAYMENTS)
        while len(list(log.glob("*.json"))) == before:
            self.producer.poll(0.01)
        self.kill()

    def check(self) -> None:
        """Raise AssertionError unless each pair counts once, and no other one does."""
        true = paid_orders.true_pairs(self._orders, pa.concat_tables(self._payments))
        assert paid_orders.found_pairs(self.project) == true, "the pairs after a kill are wrong"

    def _ask(self, query: str) -> int:
        with connect(self.project) as connection:
            ((number,),) = connection.sql(query).fetchall()
        return int(number)


def of_join_state(full: bool) -> Iterator[Figure]:
    """The figures of a kill."""
    many = STATE[full]
    found = {orders: [_killed(orders)] for orders in (many, FEW)}
    yield Figure(
        what=f"restart after kill -9, with {many:,} events of join state, to the next visible pairs, to {FEW:,}",
        unit="s",
        ours=[one.seconds for one in found[many]],
        peer=[one.seconds for one in found[FEW]],
        goal=RESTART,
    )
    yield Figure(
        what=f"memory while payments meet any of {many:,} orders of a day: Kafka and the speed layer",
        unit="MB",
        ours=[one.all for one in found[many]],
        peer=[],
        goal=MEMORY,
    )
    yield Figure(
        what=f"the largest Python worker of them, to {FEW:,} orders",
        unit="MB",
        ours=[one.worker for one in found[many]],
        peer=[one.worker for one in found[FEW]],
    )
    bounded, free = _waited(many, BOUND), _waited(many, None)
    yield Figure(
        what=f"to the next visible pairs of {many:,} events of join state, with {BOUND} MB of DuckDB for all tasks, to "
        "the default",
        unit="s",
        ours=bounded,
        peer=free,
    )


def _killed(orders: int) -> Killed:
    with tempfile.TemporaryDirectory() as folder, JoinState(Path(folder), orders) as state:
        state.up()
        state.join_all()
        state.kill_while_it_joins()
        state.pay(PAYMENTS)
        seconds = state.up()
        state.check()
        with most(state.pid) as together, most(state.pid, _largest_worker) as workers:
            for _ in range(BURSTS):
                state.pay(PAYMENTS)
                state.wait()
        state.check()
    return Killed(seconds, max(together), max(workers))


def _waited(orders: int, bound: int | None) -> list[float]:
    """The times until the pairs of some payments are visible, which meet any orders of a day."""
    with tempfile.TemporaryDirectory() as folder, JoinState(Path(folder), orders, bound) as state:
        state.up()
        state.join_all()
        times = []
        for _ in range(BURSTS):
            began = time.monotonic()
            state.pay(PAYMENTS)
            state.wait()
            times.append(time.monotonic() - began)
        state.check()
    return times


def _largest_worker(speed: int) -> float:
    """The memory of the largest Python process that the speed layer has started, in MB."""
    sizes = megabytes(speed)
    workers = [size for pid, size in sizes.items() if pid != speed and _name(pid).startswith("python")]
    return max(workers, default=0.0)


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text()
    except OSError:  # it has ended
        return ""
