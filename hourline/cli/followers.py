"""``followers``: those who are told what was published, and how far each has come. Needs neither Spark nor Java."""

from dataclasses import asdict
from pathlib import Path

from hourline.cli.options import Format, ProjectFolder, ReportFormat, Workspace, load
from hourline.cli.output import say_json, say_table
from hourline_core.model.hours import iso_text


def followers(project: ProjectFolder = Path(), workspace: Workspace = None, format: Format = ReportFormat.TEXT) -> None:
    """List who is told what is published, and the lag of each."""
    declared = load(project, workspace)
    from hourline_core.feed.followers import report_followers

    found = report_followers(declared)
    if format is ReportFormat.JSON:
        say_json([{**asdict(one), "since": one.since and iso_text(one.since)} for one in found])
        return
    say_table(
        ["follower", "what it does", "up to publication", "newest", "hours waiting", "since (UTC)", "gaps waiting"],
        [(one.name, one.about, one.publication, one.newest, one.waiting, one.since, one.gaps) for one in found],
        right=["up to publication", "newest", "hours waiting", "gaps waiting"],
    )
