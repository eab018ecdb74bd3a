"""``verify``: checks whether the data files have changed."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import typer

from hourline.cli.options import ProjectFolder, Workspace, load
from hourline.cli.output import say
from hourline.cli.progress import progress
from hourline.cli.recompute_report import report_waiting
from hourline.exit_status import MISTAKE

_LINES = 20
"""The number of progress lines in a log, since a line for each file would be too many."""


def verify(project: ProjectFolder = Path(), workspace: Workspace = None) -> None:
    """Find damaged data files. All data files of the newest results are read, and even one flipped bit is found."""
    declared = load(project, workspace)
    from batch_layer.verify import Verification

    with ExitStack() as stack:

        def on_files(total: int) -> Callable[[int], None]:
            move = stack.enter_context(progress("verifying", "files", total))
            return lambda done: move(done) if done == total or not done % max(1, total // _LINES) else None

        verified = Verification(declared, on_waiting=report_waiting).run(on_files)
    for sentence in verified.damage:
        say(sentence)
    say(
        f"{verified.files:,} files read, {verified.seen_first:,} of them for the first time; "
        f"{len(verified.damage) or 'none'} damaged"
    )
    if verified.damage:
        raise typer.Exit(MISTAKE)
