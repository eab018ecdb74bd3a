"""``speed``, ``plan`` and ``recompute``: the speed and batch layers in the foreground."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hourline.cli.options import Format, ProjectFolder, ReportFormat, Workspace, known, load
from hourline.cli.output import note, say, say_json, say_table
from hourline.errors import UsageError
from hourline.hours import hour_text, parse_range, wall_clock

if TYPE_CHECKING:
    from batch_layer.plan import Wanted
    from batch_layer.recompute import Recomputed
    from hourline.declarations import Project
    from speed_layer.micro_batch import Finished

Metrics = Annotated[list[str] | None, typer.Option("--metric", "-m", help="Only this metric; may be given again.")]


def register(app: typer.Typer) -> None:
    """Add these commands to ``app``."""
    app.command()(speed)
    app.command()(plan)
    app.command()(recompute)


def speed(
    project: ProjectFolder = Path(),
    workspace: Workspace = None,
    drain: Annotated[bool, typer.Option("--drain", help="Stop when all that is in the topics has been processed.")] = False,
    ready_file: Annotated[Path | None, typer.Option(hidden=True)] = None,
) -> None:
    """Run the speed layer (and Kafka, unless the settings name one) until Ctrl-C."""
    declared = load(project, workspace)
    from hourline.background import announce
    from hourline.lease import lease
    from infra.kafka import kafka_of
    from speed_layer.run import run

    with _stop_on_signal() as stop, lease(declared.workspace, "speed"), kafka_of(declared, join=False) as kafka:

        def on_ready() -> None:
            note("ready; Ctrl-C stops")
            if ready_file:
                announce(ready_file, kafka.address)

        note(f"{declared.name}: Kafka at {kafka.address}; starting Spark")
        run(declared, kafka.address, drain=drain, stop=stop, kafka_alive=kafka.alive, on_ready=on_ready, on_finished=_report)
    note("drained" if drain and not stop.is_set() else "stopped")


def plan(project: ProjectFolder = Path(), workspace: Workspace = None, metric: Metrics = None, format: Format = ReportFormat.TEXT) -> None:
    """List the hours that want recomputing, and why."""
    declared = load(project, workspace)
    from batch_layer.plan import plan as plan_hours

    wanted = plan_hours(declared, _metrics(declared, metric))
    if format is ReportFormat.JSON:
        say_json([{"metric": item.metric, "hour": item.hour, "reason": item.reason, "events": item.events} for item in wanted])
    elif wanted:
        say_table(["hour (UTC)", "metric", "why", "events"], [(i.hour, i.metric, i.reason, i.events) for i in wanted], right=["events"])
    else:
        say("nothing wants recomputing")


def recompute(
    project: ProjectFolder = Path(),
    workspace: Workspace = None,
    start: Annotated[str | None, typer.Option("--from", help="First hour (UTC), such as 2013-01-05T14.")] = None,
    end: Annotated[str | None, typer.Option("--to", help="The hour after the last one (UTC).")] = None,
    metric: Metrics = None,
    unsettled: Annotated[bool, typer.Option("--unsettled", help="Also hours that have not settled yet.")] = False,
) -> None:
    """Recompute hours from the archived events and publish them: a range, or what `hourline plan` lists."""
    if (start is None) != (end is None):
        raise UsageError("give both --from and --to, or neither for what `hourline plan` lists")
    declared = load(project, workspace)
    from batch_layer.plan import plan as plan_hours
    from batch_layer.plan import plan_range
    from batch_layer.recompute import recompute as recompute_hours

    metrics = _metrics(declared, metric)
    if start is not None and end is not None:
        hours = parse_range(start, end)
        if hours.start > wall_clock():
            raise UsageError(f"the range {hours} lies in the future; it is now {hour_text(wall_clock())}")
        wanted = plan_range(declared, hours, metrics)
        _refuse_unsettled([item for item in wanted if not item.settled and not unsettled])
    else:
        wanted = plan_hours(declared, metrics)
    if not wanted:
        say("nothing to recompute" + ("" if start is None else ": no source has events in that range"))
        return
    note(f"recomputing {len({item.hour for item in wanted})} hour(s) of {len({item.metric for item in wanted})} metric(s); starting Spark")
    recompute_hours(declared, wanted, on_published=_report_published)


def _metrics(project: "Project", names: list[str] | None) -> list[str] | None:
    return [known("metric", name, list(project.metrics)) for name in names] if names else None


def _refuse_unsettled(unsettled: list["Wanted"]) -> None:
    if unsettled:
        raise UsageError(
            f"{hour_text(unsettled[0].hour)} has not settled yet: its events may still be arriving; give --unsettled to recompute it all the same"
        )


def _report(done: "Finished") -> None:
    told = ((done.again, "read before"), (done.rejected, "rejected"), (done.duplicates, "duplicate"), (done.late, "late"))
    parts = [f"{done.records:,} records", *(f"{count:,} {what}" for count, what in told if count)]
    say(f"{wall_clock():%H:%M:%S} {done.source} #{done.sequence}: {', '.join(parts)} in {done.seconds:.2f} s")


def _report_published(done: "Recomputed") -> None:
    first, last = hour_text(done.hours[0]), hour_text(done.hours[-1])
    span = first if first == last else f"{first} … {last}"
    say(f"published {len(done.hours)} hour(s), {span}, of {', '.join(done.metrics)}: {done.events:,} events counted")


@contextmanager
def _stop_on_signal() -> Iterator[threading.Event]:
    """An event that Ctrl-C and SIGTERM set; a second one interrupts at once."""
    stop = threading.Event()

    def on_signal(number: int, frame: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        note("stopping after the micro-batch under way")
        stop.set()

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
