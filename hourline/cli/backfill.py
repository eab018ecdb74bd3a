"""``backfill``: all hours of a range recomputed, in a work that can be interrupted."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hourline.cli.layers import (
    Metrics,
    Results,
    Since,
    chosen_metrics,
    exit_if_blocked,
    hours_in_words,
    past_range,
    refuse_open,
    report_left_out,
    report_published,
    report_waiting,
    tell_not_started,
    write_results,
)
from hourline.cli.options import ProjectFolder, Workspace, load
from hourline.cli.output import note, say, say_table
from hourline.cli.progress import in_words, progress
from hourline_core.model.hours import HOUR, wall_clock

if TYPE_CHECKING:
    from batch_layer.backfill import Backfill
    from batch_layer.job import Recomputed
    from batch_layer.plan import PlannedHour

_MOST_ROWS = 50


def register(app: typer.Typer) -> None:
    """Add this command to ``app``."""
    app.command()(backfill)


def backfill(
    start: Annotated[str, typer.Option("--from", help="First hour (UTC), such as 2013-01-05T14.")],
    end: Annotated[str, typer.Option("--to", help="The hour after the last one (UTC).")],
    project: ProjectFolder = Path(),
    workspace: Workspace = None,
    metric: Metrics = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be recomputed, why, and how long it may take.")
    ] = False,
    unsettled: Annotated[bool, typer.Option("--include-open", help="Also hours that have not closed yet.")] = False,
    results: Results = None,
    since: Since = None,
) -> None:
    """Recompute every hour of a range, beside the stream and the hourly recompute; interrupted, the same command goes
    on.
    """
    declared = load(project, workspace)
    from batch_layer.backfill import plan_backfill

    metrics = chosen_metrics(declared, metric)
    hours = past_range(start, end)
    began = wall_clock()
    tell_not_started(declared)
    planned = plan_backfill(declared, hours, metrics)
    waiting = [] if unsettled else [item for item in planned.wanted if not item.closed]
    if waiting and dry_run:
        note(f"not closed yet, hence refused without --include-open: {hours_in_words({item.hour for item in waiting})}")
    else:
        refuse_open(waiting)
    if not planned.wanted:
        say("nothing to recompute: no source has events in that range")
        write_results(results, declared, since or began, hours)
        return
    every, left = _hours(planned.wanted), _hours(planned.left)
    if planned.resumed:
        done = f"{len(every - left):,} of {len(every):,} hours were done by the backfill begun at {planned.begun:%Y-%m-%d %H:%M} UTC"
        note(f"resuming: {done}, as {planned.file} remembers")
    if dry_run:
        _say_plan(planned)
    else:
        outcome = run_backfill(planned)
        write_results(results, declared, since or began, hours)
        exit_if_blocked(outcome)


def run_backfill(planned: "Backfill") -> "list[Recomputed]":
    """Do it, and tell how far it has come. Raises typer.Exit when it is interrupted."""
    every = _hours(planned.wanted)
    done = every - _hours(planned.left)
    if done != every:
        note(
            f"recomputing {len(every - done):,} hours of {len({item.metric for item in planned.left})} metrics; starting Spark"
        )
    try:
        with progress("backfill", "hours", len(every), len(done)) as move:

            def on_left_out(items: list["PlannedHour"]) -> None:
                report_left_out(items)
                done.update(_hours(items))
                move(len(done))

            def on_published(recomputed: "Recomputed") -> None:
                report_published(recomputed)
                done.update(recomputed.hours)
                move(len(done))

            outcome = planned.run(on_waiting=report_waiting, on_left_out=on_left_out, on_published=on_published)
    except KeyboardInterrupt:
        note(f"interrupted: {len(done):,} of {len(every):,} hours are done; the same command goes on from there")
        raise typer.Exit(130) from None
    say(f"all {len(every):,} hours are done")
    return outcome


def _say_plan(planned: "Backfill") -> None:
    from batch_layer.backfill import estimate, hours_per_job

    if not planned.left:
        say("nothing is left to do")
        return
    rows = [
        (run[0], run[-1] + HOUR, len(run), why, metrics, events) for run, why, metrics, events in _runs(planned.left)
    ]
    say_table(["from (UTC)", "to (UTC)", "hours", "why", "metrics", "events"], rows, right=["hours", "events"])
    hours = len(_hours(planned.left))
    events = sum({(item.source, item.hour): item.events for item in planned.left}.values())
    time = estimate(planned.project, planned.left)
    say("")
    say(
        f"{hours:,} hours, {len(planned.left):,} hours × metrics, {events:,} events, in {-(-hours // hours_per_job(planned.project)):,} job(s)"
    )
    say(
        f"{in_words(time)}, by the pace of the last recomputes"
        if time
        else "how long it takes cannot be told: no recompute was timed yet"
    )


def _runs(left: list["PlannedHour"]) -> Iterator[tuple[list[datetime], str, str, int]]:
    """Hours in a row that are to be recomputed for the same reasons: the hours, why, the metrics, the events. If they
    are too many to be read, then not in a row.
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


def _hours(items: Iterable["PlannedHour"]) -> set[datetime]:
    return {item.hour for item in items}
