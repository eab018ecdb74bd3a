"""The process that Spark forks its Python workers from."""

import subprocess
import sys


def test_it_has_a_single_thread_when_it_forks_workers() -> None:
    code = "import os, sys; from hourline_core.runtime.python_daemon import import_modules; import_modules(); "
    code += "print(len(os.listdir('/proc/self/task')), *sorted({'duckdb', 'numpy', 'pyarrow'} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "1 numpy\n"
