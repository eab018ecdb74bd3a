"""The process from which Spark forks its Python workers, to which each version of a lookup is larger than memory.
``python -m tests.support.daemon_of_large_lookups`` is started by Spark, as ``DAEMON`` says.
"""

import os
from pathlib import Path

from pyspark.daemon import manager

from hourline_core.runtime.python_daemon import import_modules

DAEMON = "tests.support.daemon_of_large_lookups"
"""For the setting ``spark.python.daemon.module``."""
MARKS = "HOURLINE_MARKS"
"""The variable that names the folder in which a worker leaves the names of the lookups that it has read in parts."""


def hold_no_version() -> None:
    """This process loads no version of a lookup."""
    from hourline_core.lookups import join
    from hourline_core.lookups.stored import StoredLookup

    right = StoredLookup.load

    def load(lookup: StoredLookup, *of: object) -> object:
        Path(os.environ[MARKS], lookup._lookup.name).touch()
        return right(lookup, *of)  # type: ignore[arg-type]

    join._MOST_ROWS = 0
    StoredLookup.load = load  # type: ignore[method-assign,assignment]


if __name__ == "__main__":
    import_modules()
    # The modules start threads, which a forked process does not have: each worker imports them itself.
    os.register_at_fork(after_in_child=hold_no_version)
    manager()
