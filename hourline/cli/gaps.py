"""``gaps``: the records that Kafka deleted before they were read. Needs neither Spark nor Java."""

from datetime import MAXYEAR, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hourline.cli.options import Format, ProjectFolder, ReportFormat, Workspace, load
from hourline.cli.output import say, say_json, say_table
from hourline.cli.person import current_person
from hourline_core.errors import UsageError, did_you_mean
from hourline_core.model.hours import wall_clock

if TYPE_CHECKING:
    from hourline_core.model import Project
    from serving_layer.reports.gaps import GapReport


def gaps(
    project: ProjectFolder = Path(),
    workspace: Workspace = None,
    confirm: Annotated[
        str | None,
        typer.Option(
            "--confirm", metavar="GAP", help="Confirm the hours of this gap, so that they are no longer incomplete."
        ),
    ] = None,
    reason: Annotated[
        str | None, typer.Option("--reason", help="With --confirm: why their numbers are good enough. It is recorded.")
    ] = None,
    format: Format = ReportFormat.TEXT,
) -> None:
    """List records that Kafka deleted before they were read. It also lists the hours that may have lost records."""
    declared = load(project, workspace)
    from serving_layer import connect
    from serving_layer.reports.gaps import list_gaps

    with connect(declared) as connection:
        found = [gap for source in connection.snapshot.progress for gap in list_gaps(connection, source)]
    if confirm is not None:
        _confirm(declared, found, confirm, (reason or "").strip())
    elif reason is not None:
        raise UsageError("--reason belongs to --confirm, which names the gap")
    elif format is ReportFormat.JSON:
        say_json([gap.model_dump() for gap in found])
    elif found:
        _say_gaps(found)
    else:
        say("no gaps: Kafka has deleted no record before it was read")


def _say_gaps(found: "list[GapReport]") -> None:
    say_table(
        ["gap", "topic", "partition", "offsets", "records", "sent after", "sent before", "hours (UTC)", "confirmed"],
        [
            (
                gap.gap,
                gap.topic,
                gap.partition,
                f"{gap.first}-{gap.last}",
                gap.records,
                gap.sent_after,
                gap.sent_before,
                f"{f'{gap.first_hour:%Y-%m-%d %H:%M}' if gap.first_hour else ''} … {_until(gap.last_hour)}",
                f"by {gap.person}: {gap.reason}" if gap.confirmed else "no",
            )
            for gap in found
        ],
        right=["partition", "records"],
    )


def _until(last: datetime) -> str:
    # A lost row of a table may lack in all snapshots that follow.
    return "on" if last.year == MAXYEAR else f"{last:%Y-%m-%d %H:%M}"


def _confirm(project: "Project", found: "list[GapReport]", name: str, reason: str) -> None:
    """Raises UsageError."""
    from hourline_core.ledger.confirmations import confirm_gap

    if name not in (names := {gap.gap for gap in found}):
        raise UsageError(f"there is no gap '{name}'{did_you_mean(name, names)}")
    if not reason:
        raise UsageError("--confirm wants a --reason: say in a few words why the numbers of the hours are good enough")
    source, _, sequence = name.rpartition(".")
    person = current_person()
    confirm_gap(project, project.sources[source], int(sequence), person, reason, wall_clock())
    say(f"confirmed {name} by {person}: {reason}")
