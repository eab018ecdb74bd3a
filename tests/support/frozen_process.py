"""Processes that stop (SIGSTOP) or die (SIGKILL) at a failpoint, as a machine does that swaps, sleeps, or loses its
power.
"""

import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Self

from hourline_core.errors import ConflictError
from speed_layer.commit.maintenance import maintain_source
from tests.support.bare_tables import BareTables
from tests.support.forked import PROCESSES, start

PATIENCE = 180.0


class FrozenProcess:
    """Runs from construction, and is frozen at ``place`` when the constructor returns."""

    def __init__(self, command: Sequence[str], place: str, environment: Mapping[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(sys.path),
                **(environment or {}),
                "HOURLINE_FAILPOINT": f"stop {place}",
            },
        )
        late = threading.Timer(PATIENCE, self.process.kill)
        late.start()
        ended = os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        late.cancel()
        assert ended, place
        assert ended.si_code == os.CLD_STOPPED, f"never came to '{place}': {self.process.communicate()[0]}"

    def wake(self) -> tuple[int, str]:
        """Let it go on to its end; returns its exit status and what it said."""
        self.process.send_signal(signal.SIGCONT)
        said = self.process.communicate(timeout=PATIENCE)[0]
        return self.process.returncode, said

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()


class FrozenTables:
    """Runs ``script`` on the BareTables in ``folder``, as ``tables``, in a process of its own, which is frozen at ``place``
    when the constructor returns. A ConflictError ends it with status 1, and is told; of another error, its trace is.
    """

    def __init__(self, folder: Path, hours: list[int], script: str, place: str) -> None:
        self._said, said = PROCESSES.Pipe(duplex=False)
        self.process = start(_run, folder, hours, script, place, said)
        said.close()
        deadline = time.monotonic() + PATIENCE
        while not self._is_frozen():
            if not self.process.is_alive() or time.monotonic() > deadline:
                self.process.kill()
                raise AssertionError(f"never came to '{place}': {self._told()}")
            time.sleep(0.05)

    def wake(self) -> tuple[int | None, str]:
        """Let it go on to its end; returns its exit status and what the ConflictError says."""
        os.kill(self._pid(), signal.SIGCONT)
        self.process.join(PATIENCE)
        assert not self.process.is_alive(), "it does not end"
        return self.process.exitcode, self._told()

    def _is_frozen(self) -> bool:
        command = ["ps", "-o", "stat=", "-p", str(self._pid())]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.startswith("T")

    def _told(self) -> str:
        try:
            return str(self._said.recv())
        except EOFError:
            return ""

    def _pid(self) -> int:
        assert self.process.pid
        return self.process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.join(PATIENCE)


def _run(folder: Path, hours: list[int], script: str, place: str, said: Connection) -> None:
    os.environ["HOURLINE_FAILPOINT"] = f"stop {place}"
    try:
        exec(script, {"tables": BareTables(folder, hours), "maintain_source": maintain_source})  # noqa: S102
    except ConflictError as error:
        said.send(str(error))
        sys.exit(1)
    except BaseException:
        said.send(traceback.format_exc())
        raise
