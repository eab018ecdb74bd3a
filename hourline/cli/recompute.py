"""``recompute``: computes hours again from the archived events, and publishes them."""

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hourline.cli.chosen_hours import (
    chosen_metrics,
    note_pending,
    nothing_in,
    past_range,
    refuse_open,
    takes_open,
)
from hourline.cli.findings import note_findings
from hourline.cli.mark_stale import mark_stale
from hourline.cli.options import IncludeOpen, Metrics, ProjectFolder, Results, Since, SkipOpen, Workspace, load
from hourline.cli.output import note, say
from hourline.cli.recompute_progress import command_text, recompute_progress
from hourline.cli.recompute_report import (
    arrivals_in_words,
    exit_if_blocked,
    report_decoded,
    report_left_out,
    report_open,
    report_published,
    report_waiting,
    write_results,
)
from hourline.exit_status import FOUND
from hourline_core.errors import UsageError
from hourline_core.machine import require_folder_of
from hourline_core.model.hours import parse_range, wall_clock

if TYPE_CHECKING:
    from batch_layer.plan import PlannedHour
    from batch_layer.publish import Recomputed
    from hourline_core.lookups.as_of import LookupsAsOf
    from hourline_core.model import Project


def recompute(
    project: ProjectFolder = Path(),
    workspace: Workspace = None,
    start: Annotated[str | None, typer.Option("--from", help="The first hour (UTC), such as 2013-01-05T14.")] = None,
    end: Annotated[str | None, typer.Option("--to", help="The hour after the last one (UTC).")] = None,
    metric: Metrics = None,
    problem: Annotated[
        str | None, typer.Option("--problem", help="The id of a problem, from `hourline quality`: all its hours.")
    ] = None,
    include_open: IncludeOpen = False,
    skip_open: SkipOpen = False,
    lookups_as_of: Annotated[
        str | None,
        typer.Option(
            "--lookups-as-of",
            metavar="TOKEN|TIME",
            help="Use the rows that lookups had then: at the token of an answer, or a time such as 2026-03-02T10:00 "
            "(UTC). By default, the newest ones.",
        ),
    ] = None,
    results: Results = None,
    since: Since = None,
) -> None:
    """Recompute hours, audit them and publish them. Choose a range, or the hours of a problem. By default, these are
    the hours that `hourline plan` lists. They are computed from the archived events.
    It then records what is found of sources; with the hours of the plan, the exit status is 4 when a finding of
    severity `fail` is open.
    """
    if (start is None) != (end is None):
        raise UsageError("give both --from and --to, or neither for what `hourline plan` lists")
    if problem is not None and (start is not None or metric or include_open or skip_open):
        raise UsageError("give --problem alone: it names its hours and metrics")
    if (include_open or skip_open) and start is None:
        raise UsageError("give --include-open or --skip-open with a range, --from and --to: the plan has closed hours")
    any_hour = takes_open(include_open, skip_open)
    declared = load(project, workspace)
    from batch_layer.decoding.to_decode import sources_to_decode
    from batch_layer.findings import look_and_record
    from batch_layer.plan import plan as plan_hours
    from batch_layer.plan import plan_problem, plan_range
    from batch_layer.recompute import recompute as recompute_hours

    if results:
        require_folder_of(results)
    metrics = chosen_metrics(declared, metric)
    began = wall_clock()
    lookups = _pin_lookups(declared, lookups_as_of, began)
    mark_stale(declared)
    choose_range = parse_range if any_hour else past_range
    hours = None if start is None or end is None else choose_range(start, end)

    def make_plan() -> "list[PlannedHour]":
        if problem is not None:
            return plan_problem(declared, problem)
        if hours is None:
            return plan_hours(declared, metrics)
        return plan_range(declared, hours, metrics)

    def plan_closed() -> "list[PlannedHour]":
        return [item for item in make_plan() if item.closed]

    planned, skipped = make_plan(), []
    if hours is not None and not include_open:
        if not skip_open:
            refuse_open(planned)
        skipped = [item for item in planned if not item.closed]
        planned = [item for item in planned if item.closed]
        report_open(skipped)
    done: list[Recomputed] = []
    if planned or sources_to_decode(declared):
        if planned:
            count = (
                f"{len({item.hour for item in planned})} hour(s) of {len({item.metric for item in planned})} metric(s)"
            )
            note(f"recomputing {count}{arrivals_in_words(planned)}")
        with recompute_progress("recompute") as move:
            done = recompute_hours(
                declared,
                planned,
                on_waiting=report_waiting,
                on_left_out=report_left_out,
                on_published=report_published,
                on_decoded=report_decoded,
                plan_again=make_plan if hours is None or include_open else plan_closed,
                on_progress=move,
                command=command_text(
                    "recompute",
                    ("--from", start),
                    ("--to", end),
                    *(("--metric", one) for one in metric or ()),
                    ("--problem", problem),
                    ("--include-open", include_open),
                    ("--skip-open", skip_open),
                    ("--lookups-as-of", lookups_as_of),
                ),
                lookups=lookups,
            )
    pending = note_pending(declared)
    if not planned and not done:
        say(nothing_in(hours, chosen=metrics is not None, all_open=bool(skipped), pending=bool(pending)))
    findings = look_and_record(declared, on_waiting=report_waiting)
    to_do = len({item.hour for item in planned}.union(*(one.hours for one in done)))
    write_results(results, declared, since or began, hours, findings, count=to_do, skipped=skipped, pending=pending)
    note_findings(findings)
    exit_if_blocked(done)
    if hours is None and problem is None and any(one.fails for one in findings):
        raise typer.Exit(FOUND)


def _pin_lookups(project: "Project", as_of: str | None, now: datetime) -> "LookupsAsOf | None":
    """The lookups as of a token or time. None: none was given. Raises UsageError, TableError."""
    if as_of is None:
        return None
    from hourline_core.lookups.as_of import pin_as_of
    from hourline_core.lookups.pinning import names_of

    names = {name for source in project.sources.values() for name in names_of(source)}
    kept = sorted(name for name in names if project.lookups[name].on_change == "keep")
    if kept and len(kept) == len(names):
        raise UsageError(
            f"--lookups-as-of has no lookup to choose versions of: {', '.join(kept)} declare(s) on_change: keep, so "
            "each event keeps the version of its micro-batch; leave the option out, or declare on_change: restate"
        )
    if kept:
        note(f"events keep their versions of {', '.join(kept)} (on_change: keep): --lookups-as-of is about the others")
    return pin_as_of(project, names - {*kept}, as_of, now)
