"""The person who decides something by a command. The decision is recorded with their name."""

import getpass
import os


def current_person() -> str:
    """The name of the user who runs the command, or ``user 4711`` if the system knows none of that number."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # A container may run as a user that it does not know.
        return f"user {os.getuid()}"
