"""``quality``: shows what the audits found. Needs neither Spark nor Java."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hourline.cli.chosen_hours import note_pending
from hourline.cli.options import Format, ProjectFolder, ReportFormat, Workspace, load, require_known
from hourline.cli.output import note, say, say_json, say_table, shortest_path
from hourline.exit_status import MISTAKE
from hourline_core.errors import UsageError
from hourline_core.model.hours import parse_hour

if TYPE_CHECKING:
    from serving_layer.reports.quality import QualityReport

_ROWS_SHOWN = 3


def quality(
    project: ProjectFolder = Path(),
    workspace: Workspace = None,
    hour: Annotated[
        str | None,
        typer.Option("--hour", help="Show everything that the newest audit of this hour (UTC) found."),
    ] = None,
    metric: Annotated[str | None, typer.Option("--metric", "-m", help="Show only this metric.")] = None,
    failed: Annotated[
        bool,
        typer.Option(
            "--failed", help="Show all audits that blocked an hour, including hours that were mended or accepted since."
        ),
    ] = False,
    blocked: Annotated[bool, typer.Option("--blocked", help="Show only what is blocked now.")] = False,
    format: Format = ReportFormat.TEXT,
) -> None:
    """Show what the audits of the last four weeks found. The exit status is 1 when an hour of them is blocked."""
    declared = load(project, workspace)
    if failed and blocked:
        raise UsageError(
            "give --failed or --blocked, not both: --blocked is what is blocked now, --failed what ever was"
        )
    if metric is not None:
        require_known("metric", metric, list(declared.metrics))
    from serving_layer import connect
    from serving_layer.reports.quality import report_quality

    with connect(declared) as connection:
        report = report_quality(connection, parse_hour(hour) if hour else None, metric, failed=failed, blocked=blocked)
    if format is ReportFormat.JSON:
        say_json(report.model_dump())
    else:
        say_quality(report)
        note_pending(declared)
    if report.blocked:
        raise typer.Exit(MISTAKE)


def say_quality(report: "QualityReport") -> None:
    """Print a report as text."""
    if report.hours:
        say_table(["hour (UTC)", "metric", "outcome", "severity", "expectation", "of", "found"], list(_rows(report)))
        say("")
    blocked = [audit for audit in report.hours if audit.outcome == "blocked"]
    for audit in blocked:
        where = f"{audit.hour:%Y-%m-%d %H:%M}  {audit.metric}"
        for finding in (finding for finding in audit.findings if not finding.success and finding.severity == "fail"):
            for row in finding.rows[:_ROWS_SHOWN]:
                say(f"{where}: {', '.join(f'{name}={value}' for name, value in row.items() if name != 'hour')}")
            if (finding.unexpected or 0) > _ROWS_SHOWN:
                say(f"{where}: {finding.unexpected:,} rows in all")
    for page in dict.fromkeys(audit.report for audit in blocked if audit.report):
        say(f"the rows in full: {shortest_path(page)}")
    if not report.audited:
        say(
            "no audit of what was asked for is kept: there was none, or it was long ago"
            if report.since is None
            else "nothing has been audited yet"
        )
        return
    counts = ", ".join(
        f"{count:,} {outcome}"
        for outcome in ("passed", "warned", "accepted", "blocked")
        if (count := getattr(report, outcome))
    )
    since = f" since {report.since:%Y-%m-%d %H:%M}" if report.since else ""
    say(f"{report.audited:,} audited (hours × metrics){since}: {counts}")
    if blocked:
        note(
            "once it is mended, `hourline recompute` tries again; "
            "`hourline publish --accept METRIC HOUR --reason …` publishes it as it is"
        )
    if report.site:
        note(f"the reports: {shortest_path(report.site)}")


def _rows(report: "QualityReport") -> Iterator[tuple[object, ...]]:
    """One row per finding. The first row of an audit has the values of the whole audit."""
    for audit in report.hours:
        own: tuple[object, ...] = (audit.hour, audit.metric, audit.outcome)
        for finding in audit.findings:
            severity = "" if finding.success else finding.severity
            yield (*own, severity, finding.expectation, finding.about, finding.found or _observed(finding.observed))
            own = ("", "", "")


def _observed(value: float | None) -> str:
    return "" if value is None else f"{value:,.6g}"
