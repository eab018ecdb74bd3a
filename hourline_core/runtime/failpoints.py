"""Named places, before and after every durable step, where a test can end or freeze the process.

``HOURLINE_FAILPOINT="kill before append progress"`` ends the process with SIGKILL when it first reaches that place.
``stop`` instead of ``kill`` freezes it with SIGSTOP until it receives SIGCONT, like a machine that swaps or sleeps.
``"kill after overwrite final 3"`` waits for the third visit. The name of a step is an operation (create, write,
append, overwrite, delete, restore, compact, vacuum) and a kind of table.

Each process counts its own visits. Spark runs a killed task again, in another Python worker, which would be killed at
the same place. ``HOURLINE_FAILPOINT_FIRED`` names a file for that: the process that fires creates it, and none fires
once it exists. Its folder must exist. Python workers of a local Spark have the driver's environment. Those of a cluster
have what `spark.executorEnv.HOURLINE_FAILPOINT` and `spark.executorEnv.HOURLINE_FAILPOINT_FIRED` say in `spark.config`.
"""

import os
import signal
from collections import Counter
from pathlib import Path

_SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}
_visits: Counter[str] = Counter()


def visit(place: str) -> None:
    """Visit a place. Does nothing unless the environment names it. Raises OSError when the file that says so cannot be
    created.
    """
    failpoint = os.environ.get("HOURLINE_FAILPOINT")
    if not failpoint:
        return
    _visits[place] += 1
    what, _, where = failpoint.partition(" ")
    if (
        where in (place, f"{place} {_visits[place]}")
        and _visits[place] == int(where.removeprefix(place) or 1)
        and _is_first_to_fire()
    ):
        os.kill(os.getpid(), _SIGNALS[what])


def _is_first_to_fire() -> bool:
    """Whether no process of this run has fired. From now on one has."""
    fired = os.environ.get("HOURLINE_FAILPOINT_FIRED")
    if not fired:
        return True
    try:
        Path(fired).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True
