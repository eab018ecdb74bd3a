"""What the command line's exit status means. Argument errors end with 2, which is also what typer gives them."""

import os

MISTAKE = 1
"""A mistake that the user has to mend first; or what was asked about is not well, such as a blocked hour."""

USAGE = 2
"""An argument is wrong."""

BLOCKED = 3
"""A recompute came to its end, and at least one hour did not pass its audit."""

EX_SOFTWARE = os.EX_SOFTWARE
"""An unforeseen error of Hourline. Its stack trace is shown."""

EX_TEMPFAIL = os.EX_TEMPFAIL
"""A failure for now, such as a Kafka that cannot be reached. Trying again may help."""

INTERRUPTED = 130
"""Ended by Ctrl-C."""
