"""The process from which Spark forks its Python workers, with modules that all of them need.

A new worker takes half of the time if these modules are there. Modules that start threads (numpy, pyarrow, duckdb) are
not among them: a forked process does not have the threads.
"""

import gc
import importlib

from pyspark.daemon import manager

MODULES = ("hourline_core.model", "pyspark.sql", "sqlglot")

if __name__ == "__main__":
    for name in MODULES:
        importlib.import_module(name)
    # A worker collects garbage after each task: it need not look at these.
    gc.collect()
    gc.freeze()
    manager()
