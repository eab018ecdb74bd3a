"""``maintain``: the daily maintenance of the tables."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hourline.cli.findings import note_findings
from hourline.cli.options import ProjectFolder, Workspace, load
from hourline.cli.output import note, say
from hourline.cli.recompute_report import report_waiting

if TYPE_CHECKING:
    from hourline_core.model import Project


def maintain(
    project: ProjectFolder = Path(),
    workspace: Workspace = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")] = False,
) -> None:
    """Compact the tables, and delete what is no longer needed. It deletes old files and old audit findings. Run it once
    a day. Other processes can keep running.
    """
    declared = load(project, workspace)
    from batch_layer.findings import look_and_record
    from batch_layer.maintenance import Maintenance

    changed = False
    for lines in (
        Maintenance(declared, dry_run, on_waiting=report_waiting).run(),
        _maintain_speed_layer(declared, dry_run),
    ):
        for line in lines:
            changed = True
            say(line)
    if not dry_run:
        note_findings(look_and_record(declared, on_waiting=report_waiting))
    if not changed:
        say("nothing to do")


def _maintain_speed_layer(project: "Project", dry_run: bool) -> Iterator[str]:
    """The speed layer's lease is released between two sources, so that it can start."""
    from hourline_core.runtime.lease import lease, lease_holder
    from speed_layer.commit.maintenance import maintain_stopped

    for source in project.sources.values():
        if process := lease_holder(project.workspace, "speed"):
            note(f"process {process} writes the speed layer's tables, and keeps them small itself")
            return
        with lease(project.workspace, "speed"):
            lines = maintain_stopped(project, source, dry_run=dry_run)
        yield from lines
