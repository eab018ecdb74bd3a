"""``maintain``: the daily maintenance of the tables, by those who own them; and ``verify``: whether their files are
what they were.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hourline.cli.layers import report_waiting
from hourline.cli.options import ProjectFolder, Workspace, load
from hourline.cli.output import note, say
from hourline.cli.progress import progress
from hourline_core.runtime.lease import lease, lease_holder

if TYPE_CHECKING:
    from hourline_core.model import Project

_LINES = 20


def register(app: typer.Typer) -> None:
    """Add these commands to ``app``."""
    app.command()(maintain)
    app.command()(verify)


def maintain(
    project: ProjectFolder = Path(),
    workspace: Workspace = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")] = False,
) -> None:
    """Compact the tables, delete files that no query needs any more, and what audits found long ago: once a day, beside
    all else.
    """
    declared = load(project, workspace)
    from batch_layer.maintain import Maintenance

    changed = False
    for lines in (Maintenance(declared, dry_run, on_waiting=report_waiting).run(), _speed_layer(declared, dry_run)):
        for line in lines:
            changed = True
            say(line)
    if not changed:
        say("nothing to do")


def verify(project: ProjectFolder = Path(), workspace: Workspace = None) -> None:
    """Read every data file that answers rest on, and name those that are damaged, be it by one bit that is not what it
    was.
    """
    declared = load(project, workspace)
    from batch_layer.verify import Verification

    with ExitStack() as stack:

        def on_files(total: int) -> Callable[[int], None]:
            move = stack.enter_context(progress("verifying", "files", total))
            # A line for each of them would be much for a log.
            return lambda done: move(done) if done == total or not done % max(1, total // _LINES) else None

        found = Verification(declared, on_waiting=report_waiting).run(on_files)
    for sentence in found.damage:
        say(sentence)
    say(
        f"{found.files:,} files read, {found.seen_first:,} of them for the first time; {len(found.damage) or 'none'} damaged"
    )
    if found.damage:
        raise typer.Exit(1)


def _speed_layer(project: "Project", dry_run: bool) -> Iterator[str]:
    """Its lease is given up between two sources, so that it can start."""
    from speed_layer.maintenance import maintain_stopped

    for source in project.sources.values():
        if process := lease_holder(project.workspace, "speed"):
            note(f"process {process} writes the speed layer's tables, and keeps them small itself")
            return
        with lease(project.workspace, "speed"):
            lines = maintain_stopped(project, source, dry_run=dry_run)
        yield from lines
