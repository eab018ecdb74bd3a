"""The process that Spark forks its Python workers from."""

import subprocess
import sys

from speed_layer.python_daemon import MODULES


def test_it_has_a_single_thread_when_it_forks_workers() -> None:
    code = "import importlib, os, sys; [importlib.import_module(name) for name in sys.argv[1:]]; "
    code += "print(len(os.listdir('/proc/self/task')), *sorted({'duckdb', 'numpy', 'pyarrow'} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code, *MODULES], capture_output=True, text=True, check=True)
    assert done.stdout == "1\n"
