"""Which worker of pytest-xdist runs which file of tests.

Tests on the stack wait for much of their time: for a start, for Kafka, for Airflow. Of three or more workers, the last
one runs the tests without Spark meanwhile, at low priority. A third Spark would take more than it gives.
"""

import os

from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

ENOUGH_WORKERS = 3


def yield_to_others() -> None:
    """Called in each worker. The last of enough workers gets the time that the others leave."""
    worker, count = os.environ.get("PYTEST_XDIST_WORKER"), int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "0"))
    if count >= ENOUGH_WORKERS and worker == f"gw{count - 1}":
        os.nice(5)


class StackFirst(LoadFileScheduling):  # type: ignore[misc]
    """Each worker runs whole files: those of the stack first, in their order. The last of enough workers runs none of
    these.
    """

    def _assign_work_unit(self, node: WorkerController) -> None:
        without_spark = self.numnodes >= ENOUGH_WORKERS and node.gateway.id == f"gw{self.numnodes - 1}"
        stack = [file for file in self.workqueue if file.startswith("tests/stack/")]
        others = [file for file in self.workqueue if file not in stack]
        if chosen := others if without_spark else stack + others:
            self.workqueue.move_to_end(chosen[0], last=False)
            super()._assign_work_unit(node)
        else:
            node.shutdown()
