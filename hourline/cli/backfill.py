"""``backfill``: recomputes all hours of a range. It can be interrupted and resumed."""

from collections.abc import Iterator
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hourline.cli.backfill_run import hours_of, run_backfill
from hourline.cli.chosen_hours import (
    chosen_metrics,
    note_pending,
    nothing_in,
    past_range,
    refuse_open,
    takes_open,
)
from hourline.cli.options import IncludeOpen, Metrics, ProjectFolder, Results, Since, SkipOpen, Workspace, load
from hourline.cli.output import note, say, say_table
from hourline.cli.progress import in_words
from hourline.cli.recompute_progress import command_text
from hourline.cli.recompute_report import exit_if_blocked, hours_in_words, report_open, write_results
from hourline_core.machine import require_folder_of
from hourline_core.model.hours import HOUR, parse_range, wall_clock

if TYPE_CHECKING:
    from batch_layer.backfill import Backfill
    from batch_layer.plan import PlannedHour

_MOST_ROWS = 50


def backfill(
    start: Annotated[str, typer.Option("--from", help="The first hour (UTC), such as 2013-01-05T14.")],
    end: Annotated[str, typer.Option("--to", help="The hour after the last one (UTC).")],
    project: ProjectFolder = Path(),
    workspace: Workspace = None,
    metric: Metrics = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would be recomputed, why, and how long it may take.")
    ] = False,
    include_open: IncludeOpen = False,
    skip_open: SkipOpen = False,
    results: Results = None,
    since: Since = None,
) -> None:
    """Recompute every hour of a range. The stream and the hourly recompute can run at the same time. If the backfill is
    interrupted, the same command continues it.
    """
    any_hour = takes_open(include_open, skip_open)
    declared = load(project, workspace)
    from batch_layer.backfill import plan_backfill
    from batch_layer.decoding.to_decode import sources_to_decode

    if results:
        require_folder_of(results)
    metrics = chosen_metrics(declared, metric)
    hours = parse_range(start, end) if any_hour else past_range(start, end)
    began = wall_clock()
    planned = plan_backfill(declared, hours, metrics, skip_open=skip_open)
    if not any_hour:
        _check_open(planned.wanted, dry_run)
    report_open(planned.skipped)
    if not planned.wanted and not sources_to_decode(declared):
        pending = note_pending(declared)
        say(nothing_in(hours, chosen=metrics is not None, all_open=bool(planned.skipped), pending=bool(pending)))
        write_results(results, declared, since or began, hours, count=0, skipped=planned.skipped, pending=pending)
        return
    every, left = hours_of(planned.wanted), hours_of(planned.left)
    if planned.resumed:
        done = f"{len(every - left):,} of {len(every):,} hours were done"
        begun = f"{planned.begun:%Y-%m-%d %H:%M} UTC"
        note(f"resuming: {done} by the backfill that began at {begun}, as recorded in {planned.file}")
    if dry_run:
        _say_plan(planned)
        note_pending(declared)
    else:
        command = command_text(
            "backfill",
            ("--from", start),
            ("--to", end),
            *(("--metric", one) for one in metric or ()),
            ("--include-open", include_open),
            ("--skip-open", skip_open),
        )
        outcome = run_backfill(planned, command)
        count = len(every.union(*(one.hours for one in outcome)))
        pending = note_pending(declared)
        write_results(results, declared, since or began, hours, count=count, skipped=planned.skipped, pending=pending)
        exit_if_blocked(outcome)


def _check_open(planned: list["PlannedHour"], dry_run: bool) -> None:
    """Raise UsageError when an hour has not closed. A dry run only notes it."""
    if not dry_run:
        refuse_open(planned)
    elif still_open := [item for item in planned if not item.closed]:
        hours = hours_in_words(hours_of(still_open))
        note(f"not closed yet, and refused without --skip-open or --include-open: {hours}")


def _say_plan(planned: "Backfill") -> None:
    from batch_layer.backfill import jobs_of
    from batch_layer.estimate import estimate

    if not planned.left:
        say("nothing is left to do")
        return
    rows = [
        (run[0], run[-1] + HOUR, len(run), why, metrics, events) for run, why, metrics, events in _runs(planned.left)
    ]
    say_table(["from (UTC)", "to (UTC)", "hours", "why", "metrics", "events"], rows, right=["hours", "events"])
    hours = len(hours_of(planned.left))
    events = sum({(item.source, item.hour): item.events for item in planned.left}.values())
    jobs = jobs_of(planned.project, planned.left)
    time = estimate(planned.project, jobs)
    say("")
    say(f"{hours:,} hours, {len(planned.left):,} hours × metrics, {events:,} events, in {len(jobs):,} job(s)")
    say(
        f"{in_words(time)}, by the pace of the last recomputes"
        if time
        else "the time cannot be estimated, because no recompute was timed yet"
    )


def _runs(left: list["PlannedHour"]) -> Iterator[tuple[list[datetime], str, str, int]]:
    """Consecutive hours with the same reasons: the hours, why, the metrics, the events. If there are more than
    _MOST_ROWS such runs, all hours with the same reasons are one run.
    """
    of_hour = {
        hour: list(items)
        for hour, items in groupby(sorted(left, key=lambda item: (item.hour, item.metric)), key=lambda item: item.hour)
    }
    reasons = {
        hour: (", ".join(sorted({i.reason for i in items})), ", ".join(i.metric for i in items))
        for hour, items in of_hour.items()
    }
    runs: list[list[datetime]] = []
    for hour in of_hour:
        if runs and runs[-1][-1] + HOUR == hour and reasons[runs[-1][-1]] == reasons[hour]:
            runs[-1].append(hour)
        else:
            runs.append([hour])
    if len(runs) > _MOST_ROWS:
        runs = [[hour for hour in of_hour if reasons[hour] == one] for one in dict.fromkeys(reasons.values())]
    for run in runs:
        events = sum({(item.source, item.hour): item.events for hour in run for item in of_hour[hour]}.values())
        yield run, *reasons[run[0]], events
