"""The exit status of the command line: the numbers of sysexits.h above 63. Errors in arguments end with 2, as typer's
own do.
"""

import os
import signal

from hourline_core.errors import FaultError, HourlineError, SourceError, UnreadOutputError, UsageError

MISTAKE = 1
"""A mistake that the user must fix; or a check found a problem, such as a blocked hour or a finding that fails."""

USAGE = 2
"""An argument is wrong."""

BLOCKED = 3
"""A recompute has finished, and at least one hour did not pass its audit."""

FOUND = 4
"""A recompute has finished, and a finding of severity `fail` is open. It has blocked nothing."""

EX_DATAERR = os.EX_DATAERR
"""Kafka's records do not match the records that were read. A person must decide how to continue; a retry does not help.
"""

EX_SOFTWARE = os.EX_SOFTWARE
"""An internal error of Hourline. Its stack trace is in the log."""

EX_TEMPFAIL = os.EX_TEMPFAIL
"""A temporary failure, such as an unreachable Kafka or a full disk. A retry may help."""

INTERRUPTED = 130
"""Ended by Ctrl-C."""

UNREAD = 128 + signal.SIGPIPE
"""The output was not read to its end, as in `hourline status | head`. A check whose answer nobody has read has not
passed.
"""

NEEDS_A_PERSON = (MISTAKE, USAGE, EX_DATAERR)
"""With these, trying again does not help."""

_OF: dict[type[HourlineError], int] = {
    UsageError: USAGE,
    SourceError: EX_DATAERR,
    FaultError: EX_SOFTWARE,
    UnreadOutputError: UNREAD,
}


def status_of(error: HourlineError) -> int:
    """The exit status of a command that ends with ``error``."""
    return next(
        (status for kind, status in _OF.items() if isinstance(error, kind)),
        EX_TEMPFAIL if error.retryable else MISTAKE,
    )
