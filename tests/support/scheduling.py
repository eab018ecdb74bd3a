"""Which worker of pytest-xdist runs which file of tests.

Tests on the stack wait for much of their time: for a start, for Kafka, for Airflow. Of three or more workers, the last
one runs the tests without Spark meanwhile, at low priority. A third Spark would take more than it gives.
"""

import os

from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController


def _runs_no_spark(worker: str | None, count: int) -> bool:
    """Whether ``worker``, such as ``gw2``, is the last one of three or more."""
    return count >= 3 and worker == f"gw{count - 1}"


def yield_to_others() -> None:
    """Called in each worker. The one without Spark gets the time that the others leave."""
    if _runs_no_spark(os.environ.get("PYTEST_XDIST_WORKER"), int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "0"))):
        os.nice(5)


class StackFirst(LoadFileScheduling):  # type: ignore[misc]  # pytest-xdist has no types.
    """Each worker runs whole files: first those of the stack, in their order. The one without Spark runs none of these."""

    def _assign_work_unit(self, node: WorkerController) -> None:
        stack = [file for file in self.workqueue if file.startswith("tests/stack/")]
        others = [file for file in self.workqueue if file not in stack]
        if chosen := others if _runs_no_spark(node.gateway.id, self.numnodes) else stack + others:
            self.workqueue.move_to_end(chosen[0], last=False)
            super()._assign_work_unit(node)
        else:
            node.shutdown()
