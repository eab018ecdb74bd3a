"""Processes of tests that begin as forks of one process, which has imported the product and has done nothing yet."""

import multiprocessing
import os
import sys
from collections.abc import Callable
from multiprocessing.process import BaseProcess

import pytest

PROCESSES = multiprocessing.get_context("forkserver")
_IMPORTED = [
    "batch_layer.maintenance",
    "examples.copy_results",
    "hourline.cli",
    "pandas",  # which Arrow imports when it first makes an array
    "pyarrow.dataset",
    "pytest",
    "serving_layer.changes",
    "speed_layer.commit.maintenance",
    "tests.support.bare_tables",
]


def start(work: Callable[..., object], *arguments: object) -> BaseProcess:
    """Start a process that calls ``work``, a function of a module, with ``arguments``."""
    PROCESSES.set_forkserver_preload(_IMPORTED)
    process = PROCESSES.Process(target=work, args=arguments)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        process.start()
    return process
