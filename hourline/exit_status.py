"""What the command line's exit status means. Argument errors end with 2, which is also what typer gives them."""

import os

MISTAKE = 1
"""The user has to mend something first, or what was asked about is not well."""

USAGE = 2
"""An argument is wrong."""

BLOCKED = 3
"""A recompute came to its end, and at least one hour did not pass its audit."""

EX_SOFTWARE = os.EX_SOFTWARE
"""An error that Hourline does not foresee; its stack trace is shown."""

EX_TEMPFAIL = os.EX_TEMPFAIL
"""Trying again may help."""

INTERRUPTED = 130
"""Ended by Ctrl-C."""
