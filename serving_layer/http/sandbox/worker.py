"""The processes that run free SQL, seen from the server: a warm one that forks, and a fork for each query."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from multiprocessing.connection import Connection
from threading import Event, Thread

import duckdb

from hourline_core.child_environment import PORTABLE
from hourline_core.errors import SetupError
from serving_layer.http.sandbox.process import Limits

_COMMAND = [sys.executable, "-P", "-m", "serving_layer.http.sandbox.process"]
_START_SECONDS = 300.0
_LOOK_SECONDS = 0.1


class Worker:
    """The process that forks for each query. It is started again when it has ended."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._start()

    @contextmanager
    def fork(self) -> "Iterator[Fork]":
        """A process for one query, which has ended at the end of the block. Raises SetupError."""
        try:
            fork = self._fork()
        except OSError:  # It is gone, perhaps killed for lack of memory.
            self.close()
            self._start()
            fork = self._fork()
        try:
            yield fork
        finally:
            fork.end()
            fork.close()

    def close(self) -> None:
        """End it, and its fork with it."""
        self._control.close()
        self._process.kill()
        self._process.wait()

    def _start(self) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.settimeout(_START_SECONDS)
        # Nothing of this process's environment, which may hold tokens, and no threads, which a fork would lack.
        environment = {
            **PORTABLE,
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "OPENBLAS_NUM_THREADS": "1",
            "ARROW_DEFAULT_MEMORY_POOL": "system",
        }
        with theirs:
            self._process = subprocess.Popen(
                [*_COMMAND, json.dumps(asdict(self._limits))],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                env=environment,
            )
        with suppress(OSError):
            if self._control.recv(16) == b"ready":
                return
        self.close()
        raise SetupError(
            f"free SQL cannot be served: its process does not start (status {self._process.returncode}). "
            "Set serve.sql to false"
        )

    def _fork(self) -> "Fork":
        ours, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(self._control, [b"fork"], [theirs.fileno()])
        _, handles, _, _ = socket.recv_fds(self._control, 16, 1)
        if not handles:
            ours.close()
            raise ConnectionResetError
        return Fork(self._control, Connection(ours.detach()), handles[0])


class Fork:
    """A process that runs one query."""

    def __init__(self, control: socket.socket, connection: Connection, handle: int) -> None:
        self.connection = connection
        self._control = control
        self._handle = handle
        self._status: int | None = None

    def kill(self) -> None:
        """Kill the process by a handle that names no other process later."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._handle, signal.SIGKILL)

    def end(self) -> int:
        """Kill it if it still runs. Returns its exit status, or minus the signal that ended it."""
        if self._status is None:
            self.kill()
            with suppress(OSError):
                self._status = int(self._control.recv(16) or -signal.SIGKILL)
            self._status = -signal.SIGKILL if self._status is None else self._status
        return self._status

    def close(self) -> None:
        """Close the handle. Only when nobody will kill the process any more: the handle's number may soon be
        another's.
        """
        self.connection.close()
        os.close(self._handle)


@contextmanager
def deadline(seconds: float, fork: Fork, database: duckdb.DuckDBPyConnection, gone: Event) -> Iterator[list[bool]]:
    """Stop the query when ``seconds`` are over, or ``gone`` is set. Then the list is not empty."""
    passed: list[bool] = []
    ended = Event()
    over = time.monotonic() + seconds

    def watch() -> None:
        while not ended.wait(_LOOK_SECONDS):
            if gone.is_set() or time.monotonic() > over:
                passed.append(True)
                fork.kill()
                database.interrupt()
                return

    watching = Thread(target=watch, daemon=True)
    watching.start()
    try:
        yield passed
    finally:
        ended.set()
        watching.join()
