"""``verify``: checks whether the data files have changed, or counts published hours again."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from hourline.cli.chosen_hours import chosen_metrics
from hourline.cli.options import Metrics, ProjectFolder, Workspace, load
from hourline.cli.output import say
from hourline.cli.progress import progress
from hourline.cli.recompute_report import report_waiting
from hourline.cli.recount_report import report_recount
from hourline.exit_status import MISTAKE
from hourline_core.errors import UsageError
from hourline_core.model import Project
from hourline_core.model.hours import HourRange, parse_range

_LINES = 20
"""The number of progress lines in a log, since a line for each file would be too many."""


def verify(
    project: ProjectFolder = Path(),
    workspace: Workspace = None,
    recount: Annotated[
        bool, typer.Option("--recount", help="Instead, compute published hours a second time, and compare the values.")
    ] = False,
    start: Annotated[str | None, typer.Option("--from", help="With --recount: the first hour (UTC).")] = None,
    end: Annotated[str | None, typer.Option("--to", help="With --recount: the hour after the last one (UTC).")] = None,
    metric: Metrics = None,
) -> None:
    """Find damaged data files. All data files of the newest results are read, and even one flipped bit is found.
    With `--recount`, published hours are computed a second time from the archived events, by other code than that of a
    recompute: those of a range, or three of each metric, chosen at random.
    """
    hours = None if start is None or end is None else parse_range(start, end)
    if not recount and (start is not None or end is not None or metric):
        raise UsageError("--from, --to and --metric choose hours to recount: give --recount, too")
    if (start is None) != (end is None):
        raise UsageError("give both --from and --to, or neither for some hours at random")
    declared = load(project, workspace)
    if recount:
        _recount(declared, chosen_metrics(declared, metric), hours)
    else:
        _verify_files(declared)


def _recount(declared: Project, metrics: list[str] | None, hours: HourRange | None) -> None:
    from random import Random

    from batch_layer.recount.published_hours import choose_hours
    from batch_layer.recount.recount import recount
    from hourline_core.ledger.snapshot import take_snapshot

    chosen = choose_hours(take_snapshot(declared), metrics, hours, Random())  # noqa: S311 (no secret)
    with progress("recounting", "hours of metrics", len(chosen)) as move:
        recounted = recount(declared, chosen, move)
    report_recount(recounted)
    if any(one.differences for one in recounted):
        raise typer.Exit(MISTAKE)


def _verify_files(declared: Project) -> None:
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
