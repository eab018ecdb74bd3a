"""``down``: stops what ``up`` started."""

from pathlib import Path

from hourline.cli.options import ProjectFolder, Workspace, load_settings_alone
from hourline.cli.output import say


def down(project: ProjectFolder = Path(), workspace: Workspace = None) -> None:
    """Stop what `up` started, within seconds. A running commit is finished first."""
    declared = load_settings_alone(project, workspace)
    from hourline_core.runtime.background import SINKS, SPEED, stop

    try:
        sent = stop(declared, SINKS)
    finally:  # What does not stop is no reason for the other to go on.
        stopped = stop(declared, SPEED)
    say("down" if sent or stopped else "nothing was running")
