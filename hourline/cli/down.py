"""``down``: stops what ``up`` started."""

from pathlib import Path

from hourline.cli.options import ProjectFolder, Workspace, load_settings_alone
from hourline.cli.output import say


def down(project: ProjectFolder = Path(), workspace: Workspace = None) -> None:
    """Stop what `up` started, within seconds. A running commit is finished first."""
    declared = load_settings_alone(project, workspace)
    from hourline_core.runtime.background import SINKS, SPEED, stop

    stopped = [stop(declared, service) for service in (SINKS, SPEED)]
    say("down" if any(stopped) else "nothing was running")
