"""``sinks``: how far each sink is. Needs neither Spark nor Java."""

from dataclasses import asdict
from pathlib import Path

from hourline.cli.options import Format, ProjectFolder, ReportFormat, Workspace, load
from hourline.cli.output import say, say_json, say_table


def sinks(project: ProjectFolder = Path(), workspace: Workspace = None, format: Format = ReportFormat.TEXT) -> None:
    """List the sinks, what each has sent, and its lag. A sink that fails has the reason."""
    declared = load(project, workspace)
    from serving_layer.sinks.report import report_sinks

    found = report_sinks(declared)
    if format is ReportFormat.JSON:
        say_json([asdict(one) for one in found])
    elif found:
        say_table(
            ["sink", "metric", "to", "emit", "sent", "gone", "last sent (UTC)", "lag", "problem"],
            [
                (one.sink, one.metric, one.place, one.emit, one.sent, one.gone, one.last_sent, one.lag, one.problem)
                for one in found
            ],
            right=["sent", "gone"],
        )
    else:
        say("no sinks: a file in sinks/ declares one")
