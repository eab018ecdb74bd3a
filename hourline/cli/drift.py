"""``drift``: how much recomputed hours changed, and why. Needs neither Spark nor Java."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hourline.cli.options import Format, OneHour, ProjectFolder, ReportFormat, Workspace, load
from hourline.cli.output import say, say_json, say_table, signed_number
from hourline_core.model.hours import parse_hour

if TYPE_CHECKING:
    from serving_layer.reports.drift import DriftReport


def drift(
    project: ProjectFolder = Path(),
    workspace: Workspace = None,
    hour: OneHour = None,
    metric: Annotated[str | None, typer.Option("--metric", "-m", help="Show only this metric.")] = None,
    format: Format = ReportFormat.TEXT,
) -> None:
    """Show how much recomputed hours changed, split by cause."""
    declared = load(project, workspace)
    from serving_layer import connect
    from serving_layer.reports.drift import report_drift

    if metric is not None:
        declared.find_metric(metric)
    with connect(declared) as connection:
        report = report_drift(connection, parse_hour(hour) if hour else None, metric)
    if format is ReportFormat.JSON:
        say_json(report.model_dump())
        return
    if causes := [c for c in report.causes if c.cause != "rounding"]:
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
                    signed_number(c.amount),
                    c.cells,
                )
                for c in causes
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


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.15g}"
