"""The environment of all processes that Hourline starts: what they depend on does not come from the machine."""

import os
import pwd
from collections.abc import Mapping

from hourline_core.java_options import SAME_EVERYWHERE

PORTABLE = {
    **{"LC_ALL": "C.UTF-8", "LANGUAGE": "en", "TZ": "UTC", "PYTHONUTF8": "1"},
    # glibc raises this bound whenever a large block is freed. From then on, such blocks lie between small ones, and
    # their memory is not given back: a task that folded 10 million events held 1,200 MB, and 400 MB with the bound.
    "MALLOC_MMAP_THRESHOLD_": str(1 << 20),
}
"""Also for processes on other machines."""

WORKER_MEMORY = "HOURLINE_WORKER_MEMORY"
"""The variable with the setting ``spark.worker_memory``, for Spark's Python workers."""

_OF_PYTHON = (
    *("PYTHONPATH", "PYTHONHOME", "PYTHONUSERBASE", "PYTHONNOUSERSITE", "PYTHONPLATLIBDIR"),
    *("PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX", "PYTHONUNBUFFERED", "PYTHONFAULTHANDLER"),
)
"""Python's variables that say where modules are, and how it runs. The others change what a program does."""

NO_HOME = "/nonexistent"
"""Debian's name for the home of those who have none: nothing can be written there, and it is nobody's."""


def child_environment(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The whole environment of a child: that of this process, with PORTABLE, and a home.

    Python's other variables are left out. Java's options come after those of ``_JAVA_OPTIONS``, which would win over
    all others.
    """
    kept = {
        name: value
        for name, value in environ.items()
        if (name != "LANG" and not name.startswith(("LC_", "PYTHON"))) or name in _OF_PYTHON
    }
    if options := kept.get("_JAVA_OPTIONS"):
        kept["_JAVA_OPTIONS"] = " ".join([options, *SAME_EVERYWHERE])
    return {**kept, **PORTABLE, "HOME": home_folder(environ)}


def home_folder(environ: Mapping[str, str] = os.environ) -> str:
    """The home of the user who runs this: HOME, else what the system knows, else one that is not there."""
    if home := environ.get("HOME"):
        return home
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return NO_HOME


def user_name() -> str:
    """The name of the user who runs this, or ``user-4711`` if the system knows none of that number, as in a
    container.
    """
    return known_user_name() or f"user-{os.getuid()}"


def known_user_name() -> str | None:
    """The name that the system has for the user who runs this."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return None
