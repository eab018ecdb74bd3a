"""A Kafka of one node, from its own jars, as a child of this process. Its data stays in the workspace.

Files in the workspace:

<workspace>/kafka/                  server.properties and the data
<workspace>/logs/broker.log         Kafka's warnings and errors
<workspace>/run/broker.lock         held while the broker, or the process that started it, lives
<workspace>/run/broker.json         the address of the running broker
"""

import socket
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from hourline_core.errors import BrokerError, SetupError
from hourline_core.runtime.broker_commands import format_command, start_command
from hourline_core.runtime.broker_properties import broker_properties
from hourline_core.runtime.file_lock import hold_lock, holder, is_alive
from hourline_core.runtime.kafka_admin import admin
from hourline_core.runtime.notes import delete_note, note_file, read_note, write_note
from hourline_core.runtime.ports import LOOPBACK, free_ports, require_free
from hourline_core.runtime.supervised import Supervised

_UP_WITHIN_SECONDS = 60.0


class Broker:
    """A context manager. The broker answers at ``bootstrap`` within the block, and ends with this process at the
    latest.

    ``port`` is the port to listen on; without it, a free port is chosen. ``java_options`` are for Kafka's Java. Without
    ``waiting``, the block is entered while the broker still starts; call ``wait`` before you use it. ``give_up`` is
    asked while it starts: once it says so, nobody waits for it.

    Raises SetupError (no Java, no jars, no port; Kafka does not start) and ConflictError (a broker already runs on this
    workspace).
    """

    bootstrap: str

    def __init__(
        self,
        workspace: Path,
        port: int | None = None,
        java_options: Sequence[str] = (),
        *,
        waiting: bool = True,
        give_up: Callable[[], bool] = lambda: False,
    ) -> None:
        self._workspace = workspace.absolute()
        self._waiting = waiting
        self._give_up = give_up
        self._java_options = java_options
        self._port = port
        self._log = self._workspace / "logs" / "broker.log"

    def __enter__(self) -> Self:
        self._command = start_command(options=self._java_options)  # which raises before there is a lock
        with ExitStack() as stack:
            doing = (
                f"already runs a broker on {self._workspace}; "
                "wait if it is a replay, stop it with 'hourline down', or use another --workspace"
            )
            self._lock = stack.enter_context(hold_lock(_lock_file(self._workspace), doing))
            if self._port is not None:
                require_free(self._port, "kafka.port in hourline.yaml")
            free, controller = free_ports(2)
            port = self._port if self._port is not None else free
            self._configure(port, controller)
            self._start(stack)
            self.bootstrap = f"{LOOPBACK}:{port}"
            delete_note(_address_note(self._workspace))  # left over from a killed broker
            stack.callback(delete_note, _address_note(self._workspace))
            if self._waiting:
                self.wait()
            self._started = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._started.close()

    def wait(self) -> None:
        """Return when the broker answers, or when it is given up. Raises SetupError when it does not start."""
        deadline = time.monotonic() + _UP_WITHIN_SECONDS
        while not _answers(self.bootstrap):
            if self._give_up():
                return
            if not self._process.alive() or time.monotonic() > deadline:
                raise self._did_not_start(self._log_start)
            time.sleep(0.05)
        self._announce()

    def alive(self) -> bool:
        """Whether the broker still runs. If not, its log has the reason. Others find a running one again if the files
        that say where it runs were deleted.
        """
        alive = self._process.alive()
        if alive and self._lock.renew():
            self._announce()
        return alive

    def restart(self) -> bool:
        """Start the broker again at the same address if it has ended, and return whether it had. Raises SetupError when
        it does not start.
        """
        if self.alive():
            return False
        self._start(self._started)
        self.wait()
        return True

    def _start(self, stack: ExitStack) -> None:
        self._log_start = self._log_size()
        self._process = stack.enter_context(self._run(self._command))

    def _configure(self, port: int, controller_port: int) -> None:
        folder = self._workspace / "kafka"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "server.properties").write_text(broker_properties(port, controller_port), encoding="ascii")
        # Kafka writes this file last, so an interrupted format is repeated.
        if not (folder / "data" / "meta.properties").exists():
            log_start = self._log_size()
            with self._run(format_command()) as formatting:
                if formatting.wait() != 0:
                    raise self._did_not_start(log_start)

    def _run(self, command: list[str]) -> Supervised:
        # The broker inherits the lock, so it counts as running even if it briefly outlives a killed parent.
        return Supervised(command, log=self._log, cwd=self._workspace / "kafka", keep_open=[self._lock.fd], grace=20.0)

    def _announce(self) -> None:
        write_note(_address_note(self._workspace), {"bootstrap": self.bootstrap, "pid": self._process.pid})

    def _log_size(self) -> int:
        return self._log.stat().st_size if self._log.exists() else 0

    def _did_not_start(self, log_start: int) -> SetupError:
        lines = self._log.read_bytes()[log_start:].decode(errors="replace").splitlines()
        messages = [line.strip() for line in lines if line.strip() and not line.startswith(("\tat ", "\t... "))]
        errors = [line for line in messages if "Exception" in line or "Error" in line or "ERROR" in line]
        last = (errors or messages or ["nothing"])[-1]
        return SetupError(f"the Kafka broker did not start; its last message was '{last}'; its log is {self._log}")


def running_broker(workspace: Path) -> str | None:
    """The address (host:port) of the broker that runs on ``workspace``, or None."""
    noted = read_note(_address_note(workspace))
    # The note alone proves nothing: a killed process leaves it behind.
    if noted is None or holder(_lock_file(workspace)) is None or not is_alive(noted["pid"]):
        return None
    return str(noted["bootstrap"])


def _lock_file(workspace: Path) -> Path:
    return workspace / "run" / "broker.lock"


def _address_note(workspace: Path) -> Path:
    return note_file(workspace, "broker")


def _answers(bootstrap: str) -> bool:
    host, port = bootstrap.split(":")
    with suppress(OSError):
        # A plain connection fails at once; the client would pause between its attempts.
        socket.create_connection((host, int(port)), timeout=1).close()
        with suppress(BrokerError), admin(bootstrap, {}, "list its nodes") as client:
            return bool(client.list_topics(timeout=2).brokers)
    return False
