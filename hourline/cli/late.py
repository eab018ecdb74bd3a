"""``late``: the events that came after their hour had closed, and what they changed. Needs neither Spark nor Java."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from hourline.cli.options import Format, OneHour, ProjectFolder, ReportFormat, Workspace, load
from hourline.cli.output import say, say_json, say_table, signed_number
from hourline_core.model.hours import hour_text, parse_hour

if TYPE_CHECKING:
    from serving_layer.reports.late import LateHour, Move

_MOST_EVENTS = 50
_MOST_MOVES = 4


def late(
    project: ProjectFolder = Path(),
    workspace: Workspace = None,
    hour: OneHour = None,
    format: Format = ReportFormat.TEXT,
) -> None:
    """List the hours that got events after they had closed. It shows how late the events were, and how they changed the
    measures. Late events are never dropped.
    """
    declared = load(project, workspace)
    from serving_layer import connect
    from serving_layer.reports.late import list_imports, list_late_events, list_late_hours

    chosen = parse_hour(hour) if hour else None
    with connect(declared) as connection:
        hours = list_late_hours(connection, chosen)
        events = list_late_events(connection, chosen) if chosen else []
        imports = list_imports(connection, chosen)
    if format is ReportFormat.JSON:
        say_json(
            [
                {
                    **item.model_dump(),
                    **({"late_events": [e for e in events if e["source"] == item.source]} if chosen else {}),
                }
                for item in hours
            ]
        )
        return
    for source, revised, count in imports:
        say(f"{hour_text(revised)} of {source} is revised by import, {count:,} events; `hourline plan` lists it")
    if not hours:
        say("no late events" if chosen is None else f"no late events in {hour_text(chosen)}")
        return
    say_table(
        ["hour (UTC)", "source", "state", "late events", "up to", "arrived (UTC)", "metric", "moved"],
        list(_rows(hours)),
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


def _rows(hours: Iterable["LateHour"]) -> Iterable[tuple[object, ...]]:
    """One row per hour and metric. The first row of an hour has the values of the whole hour."""
    for item in hours:
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
            yield (*own, metric, _format_moves(moves))
            own = ("",) * len(own)


def _format_moves(moves: "dict[str, Move]") -> str:
    """``views +5, clicks +3, 17 others changed``. Those without a number are no more than counted."""
    shown = [f"{name} {signed_number(move.amount)}" for name, move in moves.items() if move.amount][:_MOST_MOVES]
    if not shown and len(moves) <= _MOST_MOVES:
        return f"{', '.join(moves)} changed" if moves else ""
    if others := len(moves) - len(shown):
        shown.append(f"{others:,} {'other' if others == 1 else 'others'} changed" if shown else f"{others:,} changed")
    return ", ".join(shown)


def _span(seconds: int) -> str:
    """``3:25:10``, or ``2 d 3:25:10``."""
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"{f'{days} d ' if days else ''}{hours}:{minutes:02}:{seconds:02}"
