"""Named places where a test can end or freeze the process: before and after every durable step.

``HOURLINE_FAILPOINT="kill before append progress"`` ends the process by SIGKILL the first time it gets there; ``stop``
freezes it by SIGSTOP, as a machine does that swaps or sleeps, until somebody sends SIGCONT; ``"kill after overwrite
final 3"`` waits for the third time. A step is named by what is done (create, append, overwrite, delete, restore,
compact, vacuum) and the kind of table it is done to.
"""

import os
import signal
from collections import Counter

_SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}
_visits: Counter[str] = Counter()


def reached(place: str) -> None:
    """Called at each place; does nothing unless the environment names it."""
    wanted = os.environ.get("HOURLINE_FAILPOINT")
    if not wanted:
        return
    _visits[place] += 1
    what, _, where = wanted.partition(" ")
    if where in (place, f"{place} {_visits[place]}") and _visits[place] == int(where.removeprefix(place) or 1):
        os.kill(os.getpid(), _SIGNALS[what])
