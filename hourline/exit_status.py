"""The exit status of the command line. Errors in arguments end with 2, as typer's own do."""

import os

MISTAKE = 1
"""A mistake that the user must mend first; or the answer is bad news, such as a blocked hour."""

USAGE = 2
"""An argument is wrong."""

BLOCKED = 3
"""A recompute has finished, and at least one hour did not pass its audit."""

EX_SOFTWARE = os.EX_SOFTWARE
"""An unforeseen error of Hourline. Its stack trace is shown."""

EX_TEMPFAIL = os.EX_TEMPFAIL
"""A temporary failure, such as a Kafka that cannot be reached. Trying again may help."""

INTERRUPTED = 130
"""Ended by Ctrl-C."""
