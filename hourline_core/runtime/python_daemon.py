"""The process from which Spark forks its Python workers, with modules that all of them need.

A new worker takes half of the time if these modules are there. Modules that start threads (pyarrow, duckdb) are not
among them: a forked process does not have the threads.
"""

import gc
import importlib
import os

from pyspark.daemon import manager

from hourline_core.runtime.quirks import let_arrow_do_without_pandas

_MODULES = ("hourline_core.model", "numpy", "pyspark.sql", "sqlglot")


def import_modules() -> None:
    """Import what the workers need, in a single thread."""
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # for numpy, also in the workers: each has a core
    for name in _MODULES:
        importlib.import_module(name)


if __name__ == "__main__":
    import_modules()
    os.register_at_fork(after_in_child=let_arrow_do_without_pandas)
    # A worker collects garbage after each task: it need not look at these.
    gc.collect()
    gc.freeze()
    manager()
