"""``publish``: publishes a blocked hour by a person's decision. Needs neither Spark nor Java."""

import getpass
from pathlib import Path
from typing import Annotated

import typer

from hourline.cli.options import ProjectFolder, Workspace, load, require_known
from hourline.cli.output import say
from hourline_core.errors import UsageError
from hourline_core.model.hours import hour_text, parse_hour, wall_clock


def publish(
    accept: Annotated[
        tuple[str, str], typer.Option("--accept", metavar="METRIC HOUR", help="The metric, and its blocked hour (UTC).")
    ],
    reason: Annotated[str, typer.Option("--reason", help="Why the rows are right. The reason is kept on record.")],
    project: ProjectFolder = Path(),
    workspace: Workspace = None,
) -> None:
    """Publish a blocked hour although its audit did not pass. The rows are those that were audited."""
    declared = load(project, workspace)
    name, hour = require_known("metric", accept[0], list(declared.metrics)), parse_hour(accept[1])
    if not reason.strip():
        raise UsageError(
            "the reason is empty; say in a few words why the hour is right, as in --reason 'the strike of that day'"
        )
    from batch_layer.accept import accept as accept_hour

    accept_hour(declared, declared.metrics[name], hour, getpass.getuser(), reason.strip(), wall_clock)
    say(f"published {hour_text(hour)} of {name}, accepted by {getpass.getuser()}: {reason.strip()}")
