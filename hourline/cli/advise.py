"""``advise grace``: how late events come, and what each grace would cost. Needs neither Spark nor Java."""

import math
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hourline.cli.options import Format, ProjectFolder, ReportFormat, Workspace, load, require_known
from hourline.cli.output import say, say_json, say_table
from hourline_core.model.hours import hour_text, parse_hour, parse_range
from hourline_core.model.times import duration_text

if TYPE_CHECKING:
    from serving_layer.reports.grace import Arrivals, GraceCost, GraceReport

_ENOUGH = timedelta(days=1)
"""The shortest time that advice is based on."""
_BAR = 12
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_SHOWN_SECONDS = (0, 60, 600, 3_600, 21_600, 86_400)
"""The graces in the tables by partition and by hour of the day, beside the declared one."""

app = typer.Typer(
    name="advise", help="Advice on settings, from the archive.", no_args_is_help=True, rich_markup_mode=None
)


@app.command()
def grace(
    source: Annotated[str, typer.Argument(help="The name of the source.")],
    project: ProjectFolder = Path(),
    workspace: Workspace = None,
    start: Annotated[
        str | None,
        typer.Option("--from", help="The first hour, such as 2013-01-01T05.", show_default="28 days before the end"),
    ] = None,
    end: Annotated[
        str | None,
        typer.Option("--to", help="The end, which is exclusive.", show_default="the last hour that has ended"),
    ] = None,
    format: Format = ReportFormat.TEXT,
) -> None:
    """Show how late events arrived, and the cost of each grace. For each grace, it shows the share of the source's
    events that arrived in time, and the number of revisions per day. Times are by the source's clock.
    """
    declared = load(project, workspace)
    from serving_layer import connect
    from serving_layer.reports.grace import advise_grace

    chosen = declared.sources[require_known("source", source, list(declared.sources))]
    if start and end:
        parse_range(start, end)
    first, last = (parse_hour(text) if text else None for text in (start, end))
    with connect(declared) as connection:
        report = advise_grace(connection, chosen, first, last)
    if format is ReportFormat.JSON:
        say_json(report.model_dump())
    else:
        _say_report(report)


def _say_report(report: "GraceReport") -> None:
    say(f"{report.source}: {report.events:,} events of {hour_text(report.start)} to {hour_text(report.end)}")
    if report.imported:
        say(f"left out: {report.imported:,} imported events, which are never late")
    if report.unknown:
        say(f"left out: {report.unknown:,} events of an earlier Hourline 0.2, which have no time of arrival")
    say("")
    floor = min(99, math.floor(100 * min(cost.in_time for cost in report.graces)))
    say_table(
        ["grace", "in time (%)", f"{f'{floor} %':<{_BAR - 5}}100 %", "late events", "revised hours", "revisions a day"],
        [
            (
                _text(cost.grace_seconds),
                _percent(cost.in_time),
                _bar((100 * cost.in_time - floor) / (100 - floor)),
                cost.late,
                cost.revised,
                f"{cost.revisions_per_day:,.1f}",
            )
            for cost in report.graces
        ],
        right=["grace", "in time (%)", "late events", "revised hours", "revisions a day"],
    )
    _say_parts("partition", report, report.partitions)
    _say_parts("hour (UTC)", report, report.hours_of_day)
    say("")
    for line in _advice(report):
        say(line)


def _say_parts(name: str, report: "GraceReport", parts: list["Arrivals"]) -> None:
    """Print the share of each part's events that had come within a grace, in percent."""
    shown = [
        (number, _text(cost.grace_seconds))
        for number, cost in enumerate(report.graces)
        if cost.grace_seconds in (*_SHOWN_SECONDS, report.declared_seconds)
    ]
    say("")
    say_table(
        [name, "events", *(text for _, text in shown)],
        [(part.part, part.events, *(_percent(part.in_time[number]) for number, _ in shown)) for part in parts],
        right=["events", *(text for _, text in shown)],
    )


def _advice(report: "GraceReport") -> list[str]:
    if report.end - report.start < _ENOUGH:
        return [
            f"{hour_text(report.start)} to {hour_text(report.end)} is too short to advise a grace: give a day or more."
        ]
    costs = {cost.grace_seconds: cost for cost in report.graces}
    declared = costs[report.declared_seconds]
    if report.advised_seconds is None:
        longest = report.graces[-1]
        return [
            f"Each of these costs more than one revision a day, even {_cost(longest)}.",
            f"The declared grace is {_cost(declared)}. The numbers are right with any grace.",
        ]
    advised = costs[report.advised_seconds]
    if advised == declared:
        return [f"The declared grace is the least of these with at most one revision a day: {_cost(declared)}."]
    change = timedelta(seconds=abs(advised.grace_seconds - declared.grace_seconds))
    then = f"{duration_text(change)} {'later' if advised.grace_seconds > declared.grace_seconds else 'earlier'}"
    return [
        f"{_cost(advised)} is the least of these with at most one revision a day.",
        f"The declared grace is {_cost(declared)}. Hours would be final {then} with",
        "",
        f"  grace: {_text(advised.grace_seconds)}",
    ]


def _cost(cost: "GraceCost") -> str:
    return f"{_text(cost.grace_seconds)} ({cost.revisions_per_day:,.1f} a day)"


def _text(seconds: float) -> str:
    return duration_text(timedelta(seconds=seconds))


def _percent(share: float) -> str:
    """Rounded down, so that only all is 100."""
    return f"{math.floor(10_000 * share) / 100:.2f}"


def _bar(share: float) -> str:
    full, part = divmod(round(share * _BAR * 8), 8)
    return "█" * full + _EIGHTHS[part].strip()
