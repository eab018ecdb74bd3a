"""``speed``, ``plan`` and ``recompute``: the speed and batch layers in the foreground."""

import json
import signal
import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hourline.cli.options import Format, ProjectFolder, ReportFormat, Workspace, known, load
from hourline.cli.output import note, say, say_json, say_table
from hourline_core.errors import UsageError
from hourline_core.model.hours import HOUR, HourRange, hour_text, parse_hour, parse_range, wall_clock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from batch_layer.job import Recomputed
    from batch_layer.plan import PlannedHour
    from hourline_core.model import Project
    from speed_layer.micro_batch import Finished

_NAMED = 6
"""So many hours that do not follow one another are named, each."""

BLOCKED = 3
"""The exit status of a recompute that came to its end, and of which an hour did not pass its audit."""

Metrics = Annotated[list[str] | None, typer.Option("--metric", "-m", help="Only this metric; may be given again.")]
Results = Annotated[
    Path | None, typer.Option("--results", help="Also write what came of it to this file, as JSON, for a program.")
]
Since = Annotated[
    datetime | None,
    typer.Option(
        "--since",
        formats=["%Y-%m-%dT%H:%M:%S.%f%z"],
        metavar="TIME",
        help="With --results: what came of it since then.",
    ),
]


def register(app: typer.Typer) -> None:
    """Add these commands to ``app``."""
    app.command()(speed)
    app.command()(plan)
    app.command()(recompute)


def speed(
    project: ProjectFolder = Path(),
    workspace: Workspace = None,
    drain: Annotated[
        bool, typer.Option("--drain", help="Stop when all that is in the topics has been processed.")
    ] = False,
    standby: Annotated[
        bool,
        typer.Option(
            "--standby", help="Warm up, wait, and take over when the one that runs has ended, however it did."
        ),
    ] = False,
    ready_file: Annotated[Path | None, typer.Option(hidden=True)] = None,
) -> None:
    """Run the speed layer (and Kafka, unless the settings name one) until Ctrl-C."""
    declared = load(project, workspace)
    from hourline_core.compute.check import refuse_unresolved
    from hourline_core.runtime.background import announce
    from hourline_core.runtime.kafka import kafka_of
    from hourline_core.runtime.lease import lease
    from speed_layer.run import run, speed_session, warm_up

    with stop_on_signal() as stop, ExitStack() as held:
        if standby:
            spark = _stand_by(declared, stop, held)
            declared = load(project, workspace)  # as it is now, not as it was when the wait began
            refuse_unresolved(spark, declared)
        else:
            held.enter_context(lease(declared.workspace, "speed"))
        kafka = held.enter_context(kafka_of(declared, join=False))

        def on_ready() -> None:
            note("ready; Ctrl-C stops")
            if ready_file:
                announce(ready_file, kafka.address)

        if not standby:
            note(f"{declared.name}: starting Spark, with Kafka at {kafka.address}")
            spark = held.enter_context(speed_session(declared))
            if not drain:
                warm_up(spark, declared)
        kafka.wait()
        run(
            spark,
            declared,
            kafka.address,
            drain=drain,
            stop=stop,
            kafka_alive=kafka.alive,
            on_ready=on_ready,
            on_finished=_report,
        )
    note("drained" if drain and not stop.is_set() else "stopped")


def _stand_by(declared: "Project", stop: threading.Event, held: ExitStack) -> "SparkSession":
    """Warm up and wait for the lease of the one that runs; ``held`` then holds both. Raises typer.Exit when ``stop`` is
    set before.
    """
    from hourline_core.runtime.lease import lease
    from speed_layer.run import speed_session, warm_up

    with lease(declared.workspace, "standby"):
        note(f"{declared.name}: starting Spark")
        spark = held.enter_context(speed_session(declared))
        warm_up(spark, declared)

        def waiting() -> None:
            if stop.is_set():
                note("stopped")
                raise typer.Exit
            spark.conf.get("spark.app.name")  # which fails when its Java process has ended: then this is no standby

        note("standing by; Ctrl-C stops")
        held.enter_context(lease(declared.workspace, "speed", waiting))
    note("taking over")
    return spark


def plan(
    project: ProjectFolder = Path(),
    workspace: Workspace = None,
    metric: Metrics = None,
    hour: Annotated[str | None, typer.Option("--hour", help="Also say whether this hour (UTC) has closed.")] = None,
    format: Format = ReportFormat.TEXT,
    results: Results = None,
) -> None:
    """List the hours that want recomputing, and why."""
    declared = load(project, workspace)
    from batch_layer.plan import plan as plan_hours

    wanted = plan_hours(declared, chosen_metrics(declared, metric))
    tell_not_started(declared)
    if hour is not None:
        _say_open(declared, parse_hour(hour))
    if results is not None:
        results.write_text(json.dumps({"wanted": len(wanted), "hours": len({item.hour for item in wanted})}))
    if format is ReportFormat.JSON:
        say_json(
            [
                {"metric": item.metric, "hour": item.hour, "reason": item.reason, "events": item.events}
                for item in wanted
            ]
        )
    elif wanted:
        say_table(
            ["hour (UTC)", "metric", "why", "events"],
            [(i.hour, i.metric, i.reason, i.events) for i in wanted],
            right=["events"],
        )
    else:
        say("nothing wants recomputing")


def recompute(
    project: ProjectFolder = Path(),
    workspace: Workspace = None,
    start: Annotated[str | None, typer.Option("--from", help="First hour (UTC), such as 2013-01-05T14.")] = None,
    end: Annotated[str | None, typer.Option("--to", help="The hour after the last one (UTC).")] = None,
    metric: Metrics = None,
    unsettled: Annotated[bool, typer.Option("--include-open", help="Also hours that have not closed yet.")] = False,
    results: Results = None,
    since: Since = None,
) -> None:
    """Recompute hours from the archived events and publish them: a range, or what `hourline plan` lists."""
    if (start is None) != (end is None):
        raise UsageError("give both --from and --to, or neither for what `hourline plan` lists")
    declared = load(project, workspace)
    from batch_layer.plan import plan as plan_hours
    from batch_layer.plan import plan_range
    from batch_layer.recompute import recompute as recompute_hours

    metrics = chosen_metrics(declared, metric)
    tell_not_started(declared)
    began = wall_clock()
    hours = None if start is None or end is None else past_range(start, end)
    if hours is not None:
        wanted = plan_range(declared, hours, metrics)
        refuse_open([item for item in wanted if not item.closed and not unsettled])
    else:
        wanted = plan_hours(declared, metrics)
    done: list[Recomputed] = []
    if wanted:
        note(
            f"recomputing {len({item.hour for item in wanted})} hour(s) of {len({item.metric for item in wanted})} metric(s); starting Spark"
        )
        done = recompute_hours(
            declared, wanted, on_waiting=report_waiting, on_left_out=report_left_out, on_published=report_published
        )
    else:
        say("nothing to recompute" + ("" if hours is None else ": no source has events in that range"))
    write_results(results, declared, since or began, hours)
    exit_if_blocked(done)


def write_results(file: Path | None, declared: "Project", since: datetime, hours: HourRange | None) -> None:
    """Write what has come of ``hours`` (all, if None) since a moment (UTC) to the file of --results."""
    if file is not None:
        from batch_layer.results import results_since

        file.write_text(json.dumps(results_since(declared, since, hours)))


def exit_if_blocked(done: Iterable["Recomputed"]) -> None:
    """Raises typer.Exit with the status for it when an hour did not pass its audit."""
    if any(one.blocked for one in done):
        note("`hourline quality --open` says why; readers keep what they had")
        raise typer.Exit(BLOCKED)


def past_range(start: str, end: str) -> HourRange:
    """The range from --from and --to. Raises UsageError when it is reversed, empty, not on the hour, or in the future."""
    hours = parse_range(start, end)
    if hours.start > wall_clock():
        raise UsageError(f"the range {hours} lies in the future; it is now {hour_text(wall_clock())}")
    return hours


def tell_not_started(project: "Project") -> None:
    """Name the metrics of which nothing can be planned yet."""
    from batch_layer.plan import not_started

    for name in not_started(project):
        note(
            f"metric '{name}' is new or has changed: the speed layer takes it up when it starts again (`hourline down`, `hourline up`)"
        )


def _say_open(project: "Project", hour: datetime) -> None:
    """Say of an hour that it has not closed, and when it will."""
    from batch_layer.plan import clocks

    for source, clock in clocks(project).items():
        closes = hour + HOUR + project.sources[source].grace
        if clock is None or clock < closes:
            now = (
                f"the clock of '{source}' stands at {clock:%Y-%m-%d %H:%M} UTC"
                if clock
                else f"'{source}' has no events yet"
            )
            say(f"{hour_text(hour)} closes at {closes:%Y-%m-%d %H:%M} UTC, and {now}: it is left to a later run")


def chosen_metrics(project: "Project", names: list[str] | None) -> list[str] | None:
    """The metrics of --metric; None: all. Raises UsageError with a near name."""
    return [known("metric", name, list(project.metrics)) for name in names] if names else None


def refuse_open(unsettled: list["PlannedHour"]) -> None:
    """Raises UsageError when there is one."""
    if unsettled:
        raise UsageError(
            f"{hour_text(unsettled[0].hour)} has not closed yet: its events may still be arriving; give --include-open to recompute it all the same"
        )


def _report(done: "Finished") -> None:
    told = (
        (done.again, "read before"),
        (done.rejected, "rejected"),
        (done.duplicates, "duplicate"),
        (done.late, "late"),
    )
    parts = [f"{done.records:,} records", *(f"{count:,} {what}" for count, what in told if count)]
    say(f"{wall_clock():%H:%M:%S} {done.source} #{done.sequence}: {', '.join(parts)} in {done.seconds:.2f} s")


def report_waiting(process: int) -> None:
    """Say whom a recompute waits for."""
    note(f"waiting for process {process}, which recomputes hours of this project; Ctrl-C gives up")


def report_left_out(left_out: list["PlannedHour"]) -> None:
    """Say what a recompute need not do any more."""
    metrics = ", ".join(sorted({item.metric for item in left_out}))
    say(
        f"left out {hours_in_words({item.hour for item in left_out})}, of {metrics}: recomputed by another process meanwhile"
    )


def report_published(done: "Recomputed") -> None:
    """What came of a job: which hours were published, and which are blocked."""
    if done.published:
        say(f"published {_of(done.published)}: {done.events:,} events counted")
    if done.blocked:
        say(f"blocked {_of(done.blocked)}: what was recomputed did not pass its audit")


def _of(pairs: Iterable[tuple[str, datetime]]) -> str:
    """Which hours of which metrics; those of the same hours are named together."""
    hours: dict[str, set[datetime]] = {}
    for metric, hour in pairs:
        hours.setdefault(metric, set()).add(hour)
    together: dict[frozenset[datetime], list[str]] = {}
    for metric in sorted(hours):
        together.setdefault(frozenset(hours[metric]), []).append(metric)
    return "; ".join(f"{hours_in_words(of)}, of {', '.join(metrics)}" for of, metrics in together.items())


def hours_in_words(hours: Iterable[datetime]) -> str:
    """How many, and which: the first and the last of many."""
    ordered = sorted(hours)
    names = [hour_text(hour) for hour in ordered]
    if len(ordered) > 2 and ordered[-1] - ordered[0] != (len(ordered) - 1) * HOUR:
        return f"{len(ordered)} hour(s), {', '.join(names) if len(names) <= _NAMED else f'between {names[0]} and {names[-1]}'}"
    return f"{len(ordered)} hour(s), {names[0] if len(names) == 1 else f'{names[0]} … {names[-1]}'}"


@contextmanager
def stop_on_signal(stopping: str = "stopping after the micro-batch under way") -> Iterator[threading.Event]:
    """An event that Ctrl-C and SIGTERM set; a second one interrupts at once."""
    stop = threading.Event()

    def on_signal(number: int, frame: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        note(stopping)
        stop.set()

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
