"""``hourline serve`` with Arrow Flight SQL: it says where, and ends at Ctrl-C, whatever a client does."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import grpc
import pytest

from tests.support.flight_clients import Bare, free_port
from tests.support.project_files import write_project

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="free SQL is refused elsewhere")


def test_the_command_says_where_and_stops_in_the_middle_of_an_answer(tmp_path: Path) -> None:
    address = f"grpc://127.0.0.1:{(port := free_port())}"
    files = {
        "hourline.yaml": f"name: nothing yet\nserve:\n  sql: true\n  flight_port: {port}\n",
        "sources/clicks.yaml": "topic: clicks\nfields: {n: long, at: string}\nevent_time: at\n",
    }
    command = [sys.executable, "-m", "hourline", "serve", "--project", str(write_project(tmp_path, files))]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("HOURLINE_")}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ)
    try:
        assert process.stdout is not None
        said = process.stdout.readline()
        assert said.endswith(f", and by Arrow Flight SQL at {address}; Ctrl-C stops it\n"), said
        with Bare(address) as bare:
            answer = bare.stream("DoGet", bare.ticket_of("SELECT repeat('x', 10000) || range AS text FROM range(1400)"))
            next(answer)
            process.send_signal(signal.SIGINT)
            assert process.communicate(timeout=60)[1] == "stopping\nstopped\n"
            with pytest.raises(grpc.RpcError):
                list(answer)
        assert process.returncode == 0
    finally:
        process.kill()
        process.wait()
