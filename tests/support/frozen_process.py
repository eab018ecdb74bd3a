"""Processes that stop (SIGSTOP) or die (SIGKILL) at a failpoint, as a machine does that swaps, sleeps, or loses its
power.
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

PATIENCE = 180.0

_BARE = """\
import sys
from pathlib import Path
from tests.support.bare_tables import BareTables
from hourline_core.errors import ConflictError
from speed_layer.maintenance import maintain_source
tables = BareTables(Path(sys.argv[1]), eval(sys.argv[2]))
try:
    exec(sys.argv[3])
except ConflictError as error:
    sys.exit(str(error))
"""


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


def bare(folder: Path, hours: list[int], script: str) -> list[str]:
    """The command of a process that runs ``script`` on the BareTables in ``folder``, as ``tables``; a ConflictError
    ends it with status 1.
    """
    return [sys.executable, "-c", _BARE, str(folder), repr(hours), script]
