"""Which worker of pytest-xdist runs which file of tests.

Tests on the stack wait for much of their time: for a start, for Kafka, for Airflow. Of three or more workers, the last
one runs the tests without Spark meanwhile, at low priority. It helps with the stack only when no other test is left: a
third Spark takes more than it gives until then.
"""

import os

from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController


def _runs_stack_last(worker: str | None, count: int) -> bool:
    """Whether ``worker``, such as ``gw2``, is the last one of three or more."""
    return count >= 3 and worker == f"gw{count - 1}"


def yield_to_others() -> None:
    """Called in each worker. The last one gets the time that the others leave."""
    if _runs_stack_last(os.environ.get("PYTEST_XDIST_WORKER"), int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "0"))):
        os.nice(5)


class StackFirst(LoadFileScheduling):  # type: ignore[misc]  # pytest-xdist has no types.
    """Each worker runs whole files: those of the stack first, the last worker the others first, in their order."""

    def _assign_work_unit(self, node: WorkerController) -> None:
        stack_last = _runs_stack_last(node.gateway.id, self.numnodes)
        preferred = [file for file in self.workqueue if file.startswith("tests/stack/") != stack_last]
        self.workqueue.move_to_end((preferred or list(self.workqueue))[0], last=False)
        super()._assign_work_unit(node)
