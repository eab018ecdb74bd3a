"""What a background process says when it is ready: a note that `up` waits for, and that others read.

<workspace>/run/<service>.ready
"""

from pathlib import Path

from hourline_core.runtime.lease import LeaseName, lease_holder
from hourline_core.runtime.notes import read_note


def ready_file(workspace: Path, name: LeaseName) -> Path:
    """The file of the service ``name``."""
    return workspace / "run" / f"{name}.ready"


def announced(workspace: Path, name: LeaseName) -> str | None:
    """What a service said that was started in the background, such as its address. None: it is not ready."""
    said = read_note(ready_file(workspace, name))
    # The file may be left over from a process that has ended.
    if said is None or said["pid"] != lease_holder(workspace, name):
        return None
    return str(said["address"])
