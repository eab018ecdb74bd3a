"""Says which start of the machine this is, to tell what a power cut may have taken from what was damaged since."""

import subprocess
from functools import cache
from pathlib import Path

from hourline_core.child_environment import child_environment

_LINUX = Path("/proc/sys/kernel/random/boot_id")


@cache
def this_boot() -> str | None:
    """A text that is another one after each start of the machine. None: the operating system does not tell."""
    try:
        return _LINUX.read_text(encoding="ascii").strip()
    except OSError:
        return _ask_macos()


def _ask_macos() -> str | None:
    try:
        asked = subprocess.run(
            ["sysctl", "-n", "kern.bootsessionuuid"],
            capture_output=True,
            text=True,
            check=True,
            env=child_environment(),
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return asked.stdout.strip() or None
