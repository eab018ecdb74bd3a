"""A command that runs for each changed result, as JSON on its standard input. Status 0 means that it was taken."""

import json
import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress

from hourline_core.child_environment import child_environment
from hourline_core.error_causes import first_cause
from hourline_core.errors import SinkError
from hourline_core.model import Project, Sink
from serving_layer.sinks.one_result import one_result_json
from serving_layer.sinks.result import Result
from serving_layer.sinks.sent_results import SentResults

_SECONDS = 60


class CommandTarget:
    """A process for each result, one after the other."""

    results_at_once = 1

    def __init__(self, project: Project, sink: Sink, sent: SentResults) -> None:
        assert sink.command is not None
        self._sink, self._command, self._folder = sink, sink.command, project.root
        self._running: subprocess.Popen[bytes] | None = None
        sent.begin(f"command {json.dumps(sink.command)}")

    def send(self, results: Sequence[Result], token: str, revision: int, sent: SentResults) -> None:
        """See ``Target``."""
        taken = 0
        try:
            for result in results:
                self._run(result, one_result_json(self._sink, result, token, revision))
                taken += 1
        finally:
            sent.keep(results[:taken], revision)

    def end_round(self, first_revision: int) -> None:
        """See ``Target``."""

    def close(self) -> None:
        """See ``Target``."""
        if self._running is not None:
            _kill(self._running)

    def _run(self, result: Result, given: bytes) -> None:
        try:
            # In a session of its own, so that everything it starts ends with it.
            process = subprocess.Popen(
                self._command,
                cwd=self._folder,
                env=child_environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise SinkError(f"the command {self._command[0]} cannot be run: {error.strerror}; mend it") from None
        self._running = process
        try:
            said, _ = process.communicate(given, _SECONDS)
        except subprocess.TimeoutExpired:
            raise SinkError(
                f"the command {self._command[0]} was ended after {_SECONDS} s, with the result {result.key}"
            ) from None
        finally:
            self._running = None
            _kill(process)
            process.wait()
        if process.returncode:
            words = first_cause([line for line in said.decode(errors="replace").splitlines() if line.strip()][-1:])
            raise SinkError(
                f"the command {self._command[0]} ended with status {process.returncode}, allowed is 0, with the result "
                f"{result.key}" + (f": {words}" if words else "")
            )


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a command with all that it has started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
