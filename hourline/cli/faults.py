"""Ends a command that has failed: one sentence on standard error, the stack trace in the log, and an exit status."""

import sys
import traceback
from typing import NoReturn

from hourline.cli.options import loaded_project
from hourline.cli.output import note
from hourline.exit_status import status_of
from hourline_core.error_causes import chain
from hourline_core.errors import FaultError, ResourceError, SparkError
from hourline_core.faults import explain_fault, log_fault
from hourline_core.machine import Surroundings
from hourline_core.model.hours import wall_clock

_SAFE = {
    "speed": "nothing is lost, and `hourline speed` goes on where it stopped",
    "recompute": "what was published before stays, and the same command can be run again",
    "backfill": "what was published before stays, and the same command goes on",
    "import": "what was imported before stays, and the same command goes on",
    "maintain": "no answer has changed, and the next run does the rest",
    "verify": "nothing has changed",
    "reset": "nothing is counted twice or lost, and the same command finishes its work",
    "replay": "`hourline status` says what has arrived",
}
"""By command, what a fault leaves behind, and how to go on."""

_ELSE = "no answer has changed"


def end_with(error: BaseException) -> NoReturn:
    """Print the sentence about ``error``, and exit. An error of Hourline's has its sentence already."""
    project, command = loaded_project(), (sys.argv[1:] or ["hourline"])[0]
    around = Surroundings()
    if project is not None:
        from hourline_core.runtime.fault_context import surroundings_of

        around = surroundings_of(project)
    told = explain_fault(error, around, then=_SAFE.get(command, _ELSE))
    of_spark = any(type(one).__module__.startswith("pyspark") for one in chain(error))
    if told is not error or of_spark or isinstance(error, SparkError | ResourceError | FaultError):
        log = None if project is None else project.workspace / "logs" / "errors.log"
        logged = log is not None and log_fault(error, log, f"hourline {' '.join(sys.argv[1:])}")
        if logged:
            told = type(told)(f"{told} (the trace is in {log})")
        elif isinstance(told, FaultError):
            traceback.print_exception(error)
    if project is not None:
        from hourline_core.runtime.speed_end import note_end

        note_end(project.workspace, wall_clock(), str(told))
    note(f"hourline: {told}")
    sys.exit(status_of(told))
