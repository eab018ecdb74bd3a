"""``status``: shows what is wrong, how far each source has come, and the states of its hours. Needs neither Spark nor
Java.
"""

from collections.abc import Sequence
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hourline.cli.options import Format, ProjectFolder, ReportFormat, Workspace, load
from hourline.cli.output import note, say, say_json, say_table, shortest_path
from hourline.cli.progress import in_words
from hourline.cli.recompute_progress import hours_and_events
from hourline.cli.state_row import legend, state_row
from hourline_core.errors import UsageError, did_you_mean
from hourline_core.ledger.finding import subject_of
from hourline_core.model.natural_order import natural_key

if TYPE_CHECKING:
    from hourline_core.model import Project
    from serving_layer.reports.newest_hours import HourStatus
    from serving_layer.reports.partitions import PartitionStatus
    from serving_layer.reports.recomputing import Recomputation
    from serving_layer.reports.source_status import SourceStatus
    from serving_layer.reports.status import ProjectStatus
    from serving_layer.reports.wrong import Wrong

_WRONG = 10
"""The maximum number of lines about what is wrong, and about pending declarations."""
_SOURCES = 40
"""The maximum number of rows in the table of sources."""


class Order(StrEnum):
    """The order of sources."""

    NEED = "need"
    NAME = "name"


def status(
    project: ProjectFolder = Path(),
    workspace: Workspace = None,
    last: Annotated[int, typer.Option("--last", "-n", min=1, help="The number of hours to show of each source.")] = 24,
    source: Annotated[str | None, typer.Option("--source", "-s", help="Show only this source, and its hours.")] = None,
    sort: Annotated[
        Order, typer.Option("--sort", help="Show the sources that need a look first, or sort them by name.")
    ] = Order.NEED,
    partitions: Annotated[
        bool, typer.Option("--partitions", help="Show the partitions of each source instead of its hours.")
    ] = False,
    format: Format = ReportFormat.TEXT,
) -> None:
    """Show what is wrong, and the newest hours of each source. Its progress, lag and rejected records are shown, too.
    Of several sources, each has one row. Each recompute that runs has a line: hours, events and the time left.
    """
    declared = load(project, workspace)
    if source is not None and source not in declared.sources:
        raise UsageError(f"there is no source '{source}'{did_you_mean(source, declared.sources)}")
    from serving_layer.reports.status import report_project_status

    report = report_project_status(declared, last)
    if format is ReportFormat.JSON:
        say_json(report.model_dump())
        return
    say_status(declared, report, source, sort, partitions)


def say_status(
    declared: "Project", report: "ProjectStatus", source: str | None, sort: Order, partitions: bool = False
) -> None:
    """Print a report as text, of all sources or of one."""
    shown = [one for one in report.sources if source in (None, one.source)]
    if sort is Order.NAME:
        shown.sort(key=lambda one: natural_key(one.source))
    hours = [one for one in report.hours if source in (None, one.source)]
    say(f"{report.project}: {report.speed}")
    _say_some(list(map(_recomputing_text, report.recomputing)), "`hourline status --format json` has all")
    waiting = [*(one.words for one in report.changing), *(words for one in report.lacking for words in one.words)]
    _say_some(waiting, "`hourline status --format json` has all")
    _say_wrong(report, source)
    if len(shown) == 1:
        if waiting or any(source in (None, one.source) for one in report.wrong):
            say("")
        _say_source(declared, shown[0])
    else:
        _say_sources(shown, hours)
    for reason in dict.fromkeys(one.lag_unknown for one in shown if one.lag_unknown):
        note(f"the lag is not known: {reason}")
    if partitions:
        _say_partitions(shown)
    elif len(shown) == 1 and hours:
        _say_hours(hours)
    _say_silences(shown)


def _recomputing_text(one: "Recomputation") -> str:
    task = f", the task {one.task}," if one.task else ""
    done = f"{one.hours_done:,} of {one.hours:,} {hours_and_events(one.events_done, one.events)}"
    decoding = f"; decodes anew: {one.decoding}" if one.decoding else ""
    left = f", {in_words(timedelta(seconds=one.seconds_left))} left" if one.seconds_left else ""
    since = f"{one.since:%Y-%m-%d %H:%M:%S} UTC"
    return f"`{one.command}`{task} has run since {since} (process {one.process}): {done} done{left}{decoding}"


def _say_silences(sources: "list[SourceStatus]") -> None:
    """Print a line for each long silence, the newest first."""
    silences = [(source.source, one) for source in sources for one in source.long_silences]
    silences.sort(key=lambda of: of[1].start, reverse=True)
    lines = [
        f"{source}: silent {one.start:%Y-%m-%d %H:%M} – {one.end:%Y-%m-%d %H:%M}, {one.hours:,} hours"
        + (", incomplete" if one.state == "incomplete" else "")
        for source, one in silences
    ]
    _say_some(lines, '`hourline query "FROM long_silences"` has all')


def _say_some(lines: Sequence[str], rest: str) -> None:
    """Print the first lines, and the number of the others."""
    for line in lines[:_WRONG]:
        say(line)
    if len(lines) > _WRONG:
        say(f"… and {len(lines) - _WRONG:,} more; {rest}")


def _say_wrong(report: "ProjectStatus", source: str | None) -> None:
    wrong = [one for one in report.wrong if source in (None, one.source)]
    _say_some([_wrong_text(one) for one in wrong], "`hourline quality` lists the findings and the problems of hours")


def _wrong_text(wrong: "Wrong") -> str:
    newest = f", newest {wrong.hour:%Y-%m-%d %H:%M} UTC" if wrong.hour else ""
    remedy = f"; {wrong.remedy}" if wrong.remedy else ""
    return f"{wrong.metric or subject_of(wrong.source, wrong.finding)}: {wrong.sentence}{newest}{remedy}"


def _say_source(declared: "Project", source: "SourceStatus") -> None:
    """Print all numbers of one source, and what to know of its records."""
    counts = ["sequence", "accepted", "rejected", "duplicates", "tombstones"]
    counts += ["not_taken"] if source.not_taken else []
    counts += ["exploded", "empty"] if declared.sources[source.source].explode else []
    counts += ["late", "skipped", "lag"]
    names = [name.replace("_", " ") for name in counts]
    say_table(
        ["source", *names, "clock (UTC)"],
        [(source.source, *(getattr(source, name) for name in counts), source.clock)],
        right=names,
    )
    if source.files:
        left_out = (
            f", {source.files.left_out:,} left out, with the bytes of another one" if source.files.left_out else ""
        )
        say(f"{source.source}: {source.files.read:,} file(s) read{left_out}")
    if source.rejected:
        say(f"{source.source}: {source.rejected:,} record(s) rejected; {_why_rejected(source)}")
    if quiet := [f"{known.topic}[{known.partition}]" for known in source.partitions if known.idle]:
        say(f"idle partitions of {source.source}, which do not hold its clock: {', '.join(quiet)}")


def _why_rejected(source: "SourceStatus") -> str:
    return f'`hourline query "SELECT reason, count(*) FROM rejected_{source.source} GROUP BY ALL"` says why'


def _say_sources(sources: "list[SourceStatus]", hours: "list[HourStatus]") -> None:
    """Print a row for each source, with its last hours."""
    say("")
    states = {one.source: [hour.state for hour in hours if hour.source == one.source] for one in sources}
    longest = max(map(len, states.values()), default=0)
    say_table(
        ["source", "weakest", "lag", "accepted", "rejected", "late", "clock (UTC)", "oldest open", "last hours"],
        [
            (
                one.source,
                None if one.state is None else f"{one.hours:,} {one.state}",
                one.lag,
                one.accepted,
                one.rejected,
                one.late,
                one.clock and one.clock.replace(second=0, microsecond=0),
                one.oldest_open,
                state_row(states[one.source]).rjust(longest),
            )
            for one in sources[:_SOURCES]
        ],
        right=["weakest", "lag", "accepted", "rejected", "late"],
    )
    if len(sources) > _SOURCES:
        say(f"… and {len(sources) - _SOURCES:,} more; `hourline status --source NAME` shows one")
    if shown := legend(state for of in states.values() for state in of):
        say(shown)
    if rejecting := [one for one in sources if one.rejected]:
        others = f", and so for {len(rejecting) - 1:,} more" if len(rejecting) > 1 else ""
        say(f"records were rejected; {_why_rejected(rejecting[0])}{others}")


def _say_hours(hours: "list[HourStatus]") -> None:
    say("")
    say_table(
        ["hour (UTC)", "source", "state", "events", "late", "closed", "audit"],
        [(h.hour, h.source, h.state, h.events, h.late, h.closed, shortest_path(h.report)) for h in hours],
        right=["events", "late"],
    )


def _say_partitions(sources: "list[SourceStatus]") -> None:
    """Print a row for each partition, with the state of joins and upserts if there are any."""
    say("")
    numbers = ["partition", "offset", "lag", "skew", "records/s", "held back"]
    has_state = any(known.state_events is not None for source in sources for known in source.partitions)
    of_state = ["state events", "state since (UTC)"] if has_state else []
    say_table(
        ["source", "topic", *numbers[:3], "clock (UTC)", *numbers[3:], "holds the clock", *of_state],
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
                *((known.state_events, known.state_since) if has_state else ()),
            )
            for source in sources
            for known in source.partitions
        ],
        right=[*numbers, *of_state[:1]],
    )
    for source in sources:
        for known in source.partitions:
            if known.ahead:
                moments = ", ".join(f"{moment:%Y-%m-%d %H:%M}" for moment in known.ahead)
                say(
                    f"{source.source}, {known.topic}[{known.partition}]: {moments} UTC would move the clock by more "
                    "than an hour, and wait for further records to confirm it"
                )


def _say_hold(known: "PartitionStatus") -> str:
    """Whether a partition holds its source's clock, in words."""
    if known.clock is None:
        return "no event yet"
    return "idle" if known.idle else "yes" if known.holds_clock else "no"
