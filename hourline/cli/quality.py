"""``quality``: shows what the audits found. Needs neither Spark nor Java."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hourline.cli.chosen_hours import note_pending
from hourline.cli.findings import say_closed, say_finding
from hourline.cli.options import Format, ProjectFolder, ReportFormat, Workspace, load
from hourline.cli.output import note, say, say_facts, say_json, say_table, shortest_path
from hourline.cli.problems import format_number, say_problem, say_problems
from hourline.exit_status import MISTAKE
from hourline_core.errors import UsageError
from hourline_core.model.hours import parse_hour

if TYPE_CHECKING:
    from serving_layer.reports.quality import QualityReport

_CARDS = 4
"""The maximum number of problems that are shown as cards. More would not fit a screen or two."""


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
            "--failed",
            help="Show all audits that blocked an hour, including hours that were repaired or accepted since.",
        ),
    ] = False,
    blocked: Annotated[bool, typer.Option("--blocked", help="Show only what is blocked now.")] = False,
    problem: Annotated[str | None, typer.Option("--problem", help="Show only the problem with this id.")] = None,
    format: Format = ReportFormat.TEXT,
) -> None:
    """Show findings, what audits found, and what to do about it. Each problem of the last four weeks is shown once: as
    a card, or as a row of a table if there are many. The exit status is 1 when an hour is blocked, or a finding of
    severity `fail` is open.
    """
    declared = load(project, workspace)
    if failed and blocked:
        raise UsageError(
            "give --failed or --blocked, not both: --blocked shows what is blocked now, "
            "--failed shows what was ever blocked"
        )
    if metric is not None:
        declared.find_metric(metric)
    from serving_layer import connect
    from serving_layer.reports.quality import report_quality

    with connect(declared) as connection:
        report = report_quality(connection, parse_hour(hour) if hour else None, metric, failed=failed, blocked=blocked)
    if problem is not None:
        report.problems = [one for one in report.problems if one.id == problem]
        report.findings, report.closed = [], []
        if not report.problems:
            raise UsageError(f"no problem '{problem}' is open here; `hourline quality` lists those that are")
    if format is ReportFormat.JSON:
        say_json(report.model_dump())
    else:
        say_quality(report, findings=failed or hour is not None)
        note_pending(declared)
    if report.blocked or any(one.severity == "fail" for one in report.findings):
        raise typer.Exit(MISTAKE)


def say_quality(report: "QualityReport", findings: bool) -> None:
    """Print a report as text: first what a person must do, then the problems; with ``findings``, all that was found
    instead.
    """
    if not report.audited and findings:
        say("no such audit was found: there was none, or its findings are no longer kept")
        return
    if not findings:
        say(report.advice)
        for finding in report.findings:
            say("")
            say_finding(finding)
        if len(report.problems) > _CARDS:
            say("")
            say_problems(report.problems)
        else:
            for problem in report.problems:
                say("")
                say_problem(problem)
        if report.problems or report.findings:
            say("")
        say_closed(report.closed)
    elif report.hours:
        say_table(["hour (UTC)", "metric", "outcome", "severity", "expectation", "of", "found"], list(_rows(report)))
        say("")
        if told := list(dict.fromkeys(_tell_declared(report))):
            say_facts(told)
            say("")
    counts = ", ".join(
        f"{count:,} {outcome}"
        for outcome in ("passed", "warned", "accepted", "blocked")
        if (count := getattr(report, outcome))
    )
    since = f" since {report.since:%Y-%m-%d %H:%M}" if report.since else ""
    if report.audited:
        say(f"{report.audited:,} audited (hours × metrics){since}: {counts}")
    if report.site:
        note(f"the reports: {shortest_path(report.site)}")


def _tell_declared(report: "QualityReport") -> Iterator[tuple[str, tuple[str, ...]]]:
    """What the shown expectations mean, who is responsible for them, and where to read more."""
    for finding in (finding for audit in report.hours for finding in audit.findings):
        words = (finding.description, finding.owner and f"owner: {finding.owner}", finding.link)
        if told := tuple(filter(None, words)):
            yield f"{finding.about}: {finding.expectation}", told


def _rows(report: "QualityReport") -> Iterator[tuple[object, ...]]:
    """One row per finding. The first row of an audit has the values of the whole audit."""
    for audit in report.hours:
        own: tuple[object, ...] = (audit.hour, audit.metric, audit.outcome)
        for finding in audit.findings:
            severity = "" if finding.success else finding.severity
            yield (*own, severity, finding.expectation, finding.about, finding.found or format_number(finding.observed))
            own = ("", "", "")
