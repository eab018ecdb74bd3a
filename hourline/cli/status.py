"""``status``: shows how far each source has come, and the states of its hours. Needs neither Spark nor Java."""

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hourline.cli.options import Format, ProjectFolder, ReportFormat, Workspace, load
from hourline.cli.output import note, say, say_json, say_table, shortest_path
from hourline_core.model.branches import branches_of
from hourline_core.model.hours import hour_text, wall_clock
from hourline_core.model.topics import topic_text

if TYPE_CHECKING:
    from serving_layer.reports.partitions import PartitionStatus
    from serving_layer.reports.status import SourceStatus


def status(
    project: ProjectFolder = Path(),
    workspace: Workspace = None,
    last: Annotated[int, typer.Option("--last", "-n", min=1, help="The number of hours to show of each source.")] = 24,
    partitions: Annotated[
        bool, typer.Option("--partitions", help="Show the partitions of each source instead of its hours.")
    ] = False,
    format: Format = ReportFormat.TEXT,
) -> None:
    """Show the progress of each source, and its last hours. Lag, rejected records and the state of each hour are shown,
    too.
    """
    declared = load(project, workspace)
    from serving_layer.reports.status import report_project_status

    report = report_project_status(declared, last)
    if format is ReportFormat.JSON:
        say_json(report.model_dump())
        return
    say(f"{report.project}: {report.speed}")
    for item in (*(one.words for one in report.changing), *(words for one in report.lacking for words in one.words)):
        say(item)
    counts = ["sequence", "accepted", "rejected", "duplicates", "tombstones"]
    counts += ["not_taken"] if any(s.not_taken for s in report.sources) else []
    counts += ["exploded", "empty"] if any(source.explode for source in declared.sources.values()) else []
    counts += ["late", "skipped", "lag"]
    say_table(
        ["source", *(name.replace("_", " ") for name in counts), "clock (UTC)"],
        [(s.source, *(getattr(s, name) for name in counts), s.clock) for s in report.sources],
        right=[name.replace("_", " ") for name in counts],
    )
    for s in report.sources:
        if s.rejected:
            why = f"SELECT reason, count(*) FROM rejected_{s.source} GROUP BY ALL"
            say(f'{s.source}: {s.rejected:,} record(s) rejected; `hourline query "{why}"` says why')
        if s.quarantined:
            why = f"SELECT metric, message, count(*) FROM quarantine_{s.source} GROUP BY ALL"
            say(
                f"{s.source}: {s.quarantined:,} event(s) in quarantine: a class fails for them, so its metric does not "
                f'count them; `hourline query "{why}"` says why; mend the class and recompute'
            )
        branches = branches_of(declared.sources.values(), declared.sources[s.source])
        if s.taken_by_none and branches and branches.counts_untaken:
            topics = topic_text(branches.source.topic)
            say(f"no branch takes {s.taken_by_none:,} record(s) of {topics}; see `hourline graph`")
    for reason in dict.fromkeys(s.lag_unknown for s in report.sources if s.lag_unknown):
        note(f"the lag is not known: {reason}")
    for source in report.sources:
        _say_what_matters(source)
    for ahead in report.ahead:
        hours = f"SELECT * FROM hours WHERE name = '{ahead.source}' AND hour >= '{hour_text(ahead.first)}'"
        say(
            f"{ahead.source}: {ahead.events:,} event(s) are in {ahead.hours:,} hour(s) after its clock, "
            f"{hour_text(ahead.first)} … {hour_text(ahead.last)}, and do not move it; "
            f'`hourline query "{hours}"` lists these hours'
        )
    if partitions:
        _say_partitions(report.sources)
    elif report.hours:
        say("")
        say_table(
            ["hour (UTC)", "source", "state", "events", "late", "closed", "audit"],
            [(h.hour, h.source, h.state, h.events, h.late, h.closed, shortest_path(h.report)) for h in report.hours],
            right=["events", "late"],
        )


def _say_what_matters(source: "SourceStatus") -> None:
    """Print what a person should know of a source beside its numbers."""
    for absent in source.waits_for:
        say(
            f"{source.source}: its topic '{absent.topic}' was deleted, and it has waited for a new one since "
            f"{absent.since:%Y-%m-%d %H:%M:%S} UTC; create the topic, or restart the speed layer, which creates "
            "it: `hourline down` and `hourline up`"
        )
    if waiting := {gap.gap for gap in source.gaps if gap.confirmed is None}:
        lost = sum(gap.records for gap in source.gaps if gap.confirmed is None)
        say(
            f"{source.source}: Kafka deleted at most {lost:,} record(s) before they were read "
            f"({', '.join(sorted(waiting))}); their hours are "
            "incomplete until somebody confirms them, see `hourline gaps`"
        )
    if source.in_transaction:
        say(f"{source.source}: {_say_held_back(source)}")
    if quiet := [f"{known.topic}[{known.partition}]" for known in source.partitions if known.idle]:
        say(f"idle partitions of {source.source}, which do not hold its clock: {', '.join(quiet)}")


def _say_partitions(sources: "list[SourceStatus]") -> None:
    """Print a row for each partition."""
    say("")
    numbers = ["partition", "offset", "lag", "skew", "records/s", "held back"]
    say_table(
        ["source", "topic", *numbers[:3], "clock (UTC)", *numbers[3:], "holds the clock"],
        [
            (
                source.source,
                known.topic,
                known.partition,
                known.offset,
                known.lag,
                known.clock,
                None if known.skew is None else str(timedelta(seconds=round(known.skew))),
                f"{known.rate:,.1f}",
                known.held_back + len(known.ahead),
                _say_hold(known),
            )
            for source in sources
            for known in source.partitions
        ],
        right=numbers,
    )
    for source in sources:
        for known in source.partitions:
            if known.ahead:
                moments = ", ".join(f"{moment:%Y-%m-%d %H:%M}" for moment in known.ahead)
                say(
                    f"{source.source}, {known.topic}[{known.partition}]: {moments} UTC would move the clock by more "
                    "than an hour, and wait for further records to confirm it"
                )


def _say_held_back(source: "SourceStatus") -> str:
    """What open transactions hold back, and since when, in words."""
    records = f"{source.in_transaction:,} offset(s) are held back by an open transaction, and not in the lag"
    if source.in_transaction_since is None:
        return records
    age = timedelta(seconds=round((wall_clock() - source.in_transaction_since).total_seconds()))
    return f"{records}; the first was sent at {source.in_transaction_since:%Y-%m-%d %H:%M:%S} UTC, {age} ago"


def _say_hold(known: "PartitionStatus") -> str:
    """Whether a partition holds its source's clock, in words."""
    if known.clock is None:
        return "no event yet"
    return "idle" if known.idle else "yes" if known.holds_clock else "no"
