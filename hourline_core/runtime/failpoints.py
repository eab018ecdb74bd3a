"""Named places, before and after every durable step, where a test can end or freeze the process.

``HOURLINE_FAILPOINT="kill before append progress"`` ends the process with SIGKILL when it first reaches that place.
``stop`` instead of ``kill`` freezes it with SIGSTOP until it receives SIGCONT, like a machine that swaps or sleeps.
``"kill after overwrite final 3"`` waits for the third visit. The name of a step is an operation (create, append,
overwrite, delete, restore, compact, vacuum) and a kind of table.
"""

import os
import signal
from collections import Counter

_SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}
_visits: Counter[str] = Counter()


def visit(place: str) -> None:
    """Visit a place. Does nothing unless the environment names it."""
    failpoint = os.environ.get("HOURLINE_FAILPOINT")
    if not failpoint:
        return
    _visits[place] += 1
    what, _, where = failpoint.partition(" ")
    if where in (place, f"{place} {_visits[place]}") and _visits[place] == int(where.removeprefix(place) or 1):
        os.kill(os.getpid(), _SIGNALS[what])
