"""``status``: shows how far each source has come, and the states of its hours. Needs neither Spark nor Java."""

from pathlib import Path
from typing import Annotated

import typer

from hourline.cli.options import Format, ProjectFolder, ReportFormat, Workspace, load
from hourline.cli.output import note, say, say_json, say_table, shortest_path


def status(
    project: ProjectFolder = Path(),
    workspace: Workspace = None,
    last: Annotated[int, typer.Option("--last", "-n", min=1, help="The number of hours to show of each source.")] = 24,
    format: Format = ReportFormat.TEXT,
) -> None:
    """Show the progress, lag and rejected records of each source, and the state of its last hours."""
    declared = load(project, workspace)
    from serving_layer.reports.status import report_project_status

    report = report_project_status(declared, last)
    if format is ReportFormat.JSON:
        say_json(report.model_dump())
        return
    say(f"{report.project}: {report.speed}")
    for item in report.changing:
        waits = (
            "until the speed layer starts again"
            if item.missing is None
            else f"until the {item.missing:,} hour(s) it lacks have closed and are recomputed"
        )
        say(f"metric '{item.metric}' has changed; it answers by its older declaration {waits}")
    say_table(
        [
            "source",
            "sequence",
            "accepted",
            "rejected",
            "duplicates",
            "tombstones",
            "late",
            "skipped",
            "lag",
            "clock (UTC)",
        ],
        [
            (
                s.source,
                s.sequence,
                s.accepted,
                s.rejected,
                s.duplicates,
                s.tombstones,
                s.late,
                s.skipped,
                s.lag,
                s.clock,
            )
            for s in report.sources
        ],
        right=["sequence", "accepted", "rejected", "duplicates", "tombstones", "late", "skipped", "lag"],
    )
    for reason in dict.fromkeys(s.lag_unknown for s in report.sources if s.lag_unknown):
        note(f"the lag is not known: {reason}")
    if report.hours:
        say("")
        say_table(
            ["hour (UTC)", "source", "state", "events", "late", "closed", "audit"],
            [(h.hour, h.source, h.state, h.events, h.late, h.closed, shortest_path(h.report)) for h in report.hours],
            right=["events", "late"],
        )
