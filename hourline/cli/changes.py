"""``late`` and ``drift``: which numbers have changed after people could have seen them, by how much, and why. Neither
needs Spark or Java.
"""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hourline.cli.options import Format, ProjectFolder, ReportFormat, Workspace, known, load
from hourline.cli.output import say, say_json, say_table
from hourline_core.model.hours import hour_text, parse_hour

if TYPE_CHECKING:
    from serving_layer.reports.drift import DriftReport
    from serving_layer.reports.late import LateHour, Move

OneHour = Annotated[str | None, typer.Option("--hour", help="Only this hour (UTC), such as 2013-01-05T14.")]
_MOST_EVENTS = 50


def register(app: typer.Typer) -> None:
    """Add these commands to ``app``."""
    app.command()(late)
    app.command()(drift)


def late(
    project: ProjectFolder = Path(),
    workspace: Workspace = None,
    hour: OneHour = None,
    format: Format = ReportFormat.TEXT,
) -> None:
    """List the hours that got events after they had closed: how late those were, and what they changed. None is ever
    dropped.
    """
    declared = load(project, workspace)
    from serving_layer import connect
    from serving_layer.reports.late import late_events, late_hours

    chosen = parse_hour(hour) if hour else None
    with connect(declared) as connection:
        found = late_hours(connection, chosen)
        events = late_events(connection, chosen) if chosen else []
    if format is ReportFormat.JSON:
        say_json(
            [
                {
                    **item.model_dump(),
                    **({"late_events": [e for e in events if e["source"] == item.source]} if chosen else {}),
                }
                for item in found
            ]
        )
        return
    if not found:
        say("no late events" if chosen is None else f"no late events in {hour_text(chosen)}")
        return
    say_table(
        ["hour (UTC)", "source", "state", "late events", "up to", "arrived (UTC)", "metric", "moved"],
        list(_late_rows(found)),
        right=["late events", "up to"],
    )
    if events:
        say("")
        shown = events[:_MOST_EVENTS]
        say_table(
            ["event time (UTC)", "late by", "arrived (UTC)", "sequence", "topic", "partition", "offset"],
            [
                (
                    f"{e['event_time']:%Y-%m-%d %H:%M:%S}",
                    _span(e["late_seconds"]),
                    f"{e['arrived']:%Y-%m-%d %H:%M:%S}",
                    str(e["sequence"]),
                    e["topic"],
                    str(e["partition"]),
                    str(e["offset"]),
                )
                for e in shown
            ],
        )
        if len(events) > len(shown):
            say(f"and {len(events) - len(shown):,} more; `hourline query 'FROM late_events'` gives all")


def drift(
    project: ProjectFolder = Path(),
    workspace: Workspace = None,
    hour: OneHour = None,
    metric: Annotated[str | None, typer.Option("--metric", "-m", help="Only this metric.")] = None,
    format: Format = ReportFormat.TEXT,
) -> None:
    """Show by how much recomputed hours changed, split by cause."""
    declared = load(project, workspace)
    from serving_layer import connect
    from serving_layer.reports.drift import drift_report

    if metric is not None:
        known("metric", metric, list(declared.metrics))
    with connect(declared) as connection:
        report = drift_report(connection, parse_hour(hour) if hour else None, metric)
    if format is ReportFormat.JSON:
        say_json(report.model_dump())
        return
    if told := [c for c in report.causes if c.cause != "rounding"]:
        say_table(
            ["hour (UTC)", "metric", "measure", "at_close", "provisional", "final", "cause", "amount", "groups"],
            [
                (
                    c.hour,
                    c.metric,
                    c.measure,
                    _number(c.at_close),
                    _number(c.provisional),
                    _number(c.final),
                    c.cause,
                    _signed(c.amount),
                    c.cells,
                )
                for c in told
            ],
            right=["at_close", "provisional", "final", "amount", "groups"],
        )
        say("")
    say(_summary(report, narrowed=bool(hour or metric)))


def _summary(report: "DriftReport", *, narrowed: bool) -> str:
    if not report.recomputed:
        return "nothing of that was ever recomputed" if narrowed else "nothing has been recomputed yet"
    hours: Counter[str] = Counter()
    for cause, *_ in {(c.cause, c.hour, c.metric, c.published) for c in report.causes}:
        hours[cause] += 1
    hours["unexplained"] += 0
    causes = ", ".join(
        f"{cause} {count:,}"
        for cause, count in sorted(hours.items(), key=lambda item: (item[0] == "unexplained", item[0]))
    )
    return f"{report.recomputed:,} recomputed (hours × metrics), {report.changed:,} of them changed: {causes}"


def _late_rows(found: Iterable["LateHour"]) -> Iterable[tuple[object, ...]]:
    """One row per hour and metric; what is the hour's stands in its first one."""
    for item in found:
        first, last = f"{item.first_arrived:%Y-%m-%d %H:%M:%S}", f"{item.last_arrived:%Y-%m-%d %H:%M:%S}"
        own: tuple[object, ...] = (
            item.hour,
            item.source,
            item.state,
            item.events,
            _span(item.late_seconds),
            first if first == last else f"{first} … {last}",
        )
        for metric, moves in item.moved.items() or [("", {})]:
            yield (*own, metric, ", ".join(_moved(measure, move) for measure, move in moves.items()))
            own = ("",) * len(own)


def _moved(measure: str, move: "Move") -> str:
    return f"{measure} {_signed(move.amount)}" if move.amount else f"{measure} changed"


def _signed(amount: float | None) -> str:
    return "" if amount is None else f"{amount:+,.6g}" if abs(amount) < 1 else f"{amount:+,.15g}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.15g}"


def _span(seconds: int) -> str:
    """``3:25:10``, or ``2 d 3:25:10``."""
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"{f'{days} d ' if days else ''}{hours}:{minutes:02}:{seconds:02}"
