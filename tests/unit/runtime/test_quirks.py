"""What Hourline does about the habits of libraries, each tried out in a process of its own where it has to be."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hourline_core.runtime.quirks import interrupts_deferred, java_output_to


def python(script: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=600, check=False)


def test_the_audit_does_without_what_great_expectations_only_tries_to_import() -> None:
    done = python(
        "import sys, batch_layer.audit\n"
        "tried = ('sqlalchemy', 'altair', 'scipy.stats', 'pyspark.ml', 'pyspark.sql.connect')\n"
        "assert not [name for name in tried if name in sys.modules]\n"
        "import great_expectations, sqlalchemy, scipy.stats\n"
        "from great_expectations.expectations.metrics.column_aggregate_metrics import ("
        "column_bootstrapped_ks_test_p_value as metric)\n"
        "assert metric.stats.ks_2samp is scipy.stats.ks_2samp\n"
        "print('fine')"
    )
    assert (done.returncode, done.stdout) == (0, "fine\n"), done.stderr


def test_arrow_imports_pandas_only_where_it_is_needed() -> None:
    done = python(
        "import sys, pyarrow as pa\n"
        "from hourline_core.runtime.quirks import let_arrow_do_without_pandas\n"
        "let_arrow_do_without_pandas()\n"
        "table = pa.table({'x': [1, None]})\n"
        "assert 'pandas' not in sys.modules\n"
        "frame = table.to_pandas()\n"
        "assert pa.array(frame['x']).null_count == 1\n"
        "print('fine')"
    )
    assert (done.returncode, done.stdout) == (0, "fine\n"), done.stderr


def test_a_stop_of_spark_is_noticed_soon() -> None:
    done = python(
        "import socketserver, threading\n"
        "socketserver.BaseServer.serve_forever = lambda server, poll_interval=0.5: print(poll_interval)\n"
        "from hourline_core.runtime.quirks import let_spark_stop_at_once\n"
        "from pyspark.accumulators import _start_update_server\n"
        "let_spark_stop_at_once()\n"
        "_start_update_server('token', False, None)\n"
        "for thread in threading.enumerate()[1:]:\n"
        "    thread.join()\n"
    )
    assert (done.returncode, done.stdout) == (0, "0.02\n"), done.stderr


def test_the_end_of_java_leaves_no_trace_beside_its_sentence() -> None:
    done = python(
        "import logging, socket\n"
        "from hourline_core.runtime.quirks import silence_pyspark\n"
        "from py4j.clientserver import logger\n"
        "from pyspark.accumulators import _start_update_server\n"
        "silence_pyspark()\n"
        "server = _start_update_server('token', False, None)\n"
        "with socket.create_connection(server.server_address) as java:\n"
        "    java.sendall(b'token')\n"
        "    java.shutdown(socket.SHUT_WR)\n"
        "    while java.recv(10):\n"
        "        pass\n"
        "logger.error('There was an exception while executing the Python Proxy on the Python Side.')\n"
        "server.shutdown()\n"
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_an_exit_at_once_writes_what_was_printed_and_runs_nothing_else() -> None:
    done = python(
        "import atexit, sys\n"
        "from hourline_core.runtime.quirks import exit_at_once\n"
        "atexit.register(print, 'at exit')\n"
        "print('out', end=''); print('err', end='', file=sys.stderr)\n"
        "exit_at_once(75)"
    )
    assert (done.returncode, done.stdout, done.stderr) == (75, "out", "err")


def test_what_is_started_meanwhile_writes_to_the_log(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "java.log"
    with java_output_to(log):
        subprocess.run(["sh", "-c", "echo out; echo err >&2"], check=True)
    os.write(1, b"after\n")
    assert log.read_text() == "out\nerr\n"
    assert capfd.readouterr().out == "after\n"


def test_what_a_library_writes_beside_python_goes_to_the_log(tmp_path: Path) -> None:
    log = tmp_path / "native.log"
    done = python(
        "import os, sys\n"
        "from pathlib import Path\n"
        "from hourline_core.runtime.quirks import exit_at_once\n"
        "from hourline_core.runtime.standard_streams import native_errors_to\n"
        "native_errors_to(Path('/proc/nothing/native.log'))\n"
        "os.write(2, b'before\\n')\n"
        f"for _ in range(2): native_errors_to(Path({str(log)!r}))\n"
        "os.write(2, b'a panic\\n')\n"
        "print('a sentence', file=sys.stderr)\n"
        "exit_at_once(75)"
    )
    assert (done.returncode, done.stderr, log.read_text()) == (75, "before\na sentence\n", "a panic\n")


@pytest.fixture
def interruptible() -> Iterator[None]:
    """A shell starts what it runs in the background with interrupts ignored, and children inherit that."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_waits_for_the_end_of_the_block_and_then_means_what_it_meant(interruptible: None) -> None:
    reached = False
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), interrupts_deferred():
        signal.raise_signal(signal.SIGINT)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # as a library does
        reached = True
    assert reached
    assert signal.getsignal(signal.SIGINT) is before
