"""``reset``: reads a source from another position, makes a derived one anew, or computes a metric again."""

import re
import sys
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hourline.cli.chosen_hours import note_pending
from hourline.cli.declared_names import DeclaredName, find_declared
from hourline.cli.options import ProjectFolder, Workspace, load
from hourline.cli.output import note, say, say_table
from hourline_core.errors import UsageError
from hourline_core.model.hours import wall_clock
from hourline_core.runtime.lease import lease

if TYPE_CHECKING:
    from hourline_core.model import Project
    from speed_layer.reset import DerivedReset, MetricReset, SourceReset, Target

_OFFSET = re.compile(r"(?:(?P<topic>[A-Za-z0-9._-]+):)?(?P<partition>\d+)=(?P<offset>\d+)", re.ASCII)


def reset(
    name: DeclaredName,
    project: ProjectFolder = Path(),
    workspace: Workspace = None,
    to: Annotated[
        str | None,
        typer.Option(
            help="The position in a source's topic: earliest, latest, a time such as 2026-01-31T00:00:00Z, "
            "or offsets such as 0=120,1=88; clicks_eu:0=120 where the source reads several topics.",
            show_default="earliest",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what would change.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> None:
    """Read a source again, or make a derived one or a metric anew. No record is counted twice."""
    declared = load(project, workspace)
    kind, name = find_declared(declared, name)
    if kind == "metric" and to is not None:
        raise UsageError(
            "--to is for sources only; a metric is computed again from all archived events: leave --to out"
        )
    is_derived = kind == "source" and declared.sources[name].is_derived
    if is_derived and to is not None:
        raise UsageError(
            f"--to is for sources of topics only; source '{name}' is {declared.sources[name].origin_text}, "
            "and all of its events are made anew: leave --to out"
        )
    if kind == "source" and declared.sources[name].reads_files:
        raise UsageError(
            f"source '{name}' is {declared.sources[name].origin_text}, each row of which counts once: there is no "
            f"position to reset; `hourline recompute` decodes its rows anew if the declaration was changed"
        )
    target = _target(to or "earliest")
    if not (yes or dry_run or sys.stdin.isatty()):
        raise UsageError(
            "there is no terminal to ask for confirmation; add --yes to reset, or --dry-run to list what would change"
        )
    with ExitStack() as held:
        held.enter_context(lease(declared.workspace, "speed"))
        planned: MetricReset | DerivedReset | SourceReset
        if kind == "metric":
            planned = _plan_metric(declared, name, held)
        elif is_derived:
            planned = _plan_derived(declared, name, held)
        else:
            planned = _plan_source(declared, name, target, held)
        say_table(["touches", "how"], planned.touched)
        if dry_run:
            note("nothing was changed")
            return
        if not yes and not typer.confirm("Go on?"):
            note("nothing was changed")
            raise typer.Exit(1)
        sequence = planned.apply(wall_clock())
    after = "`hourline recompute` computes its hours again" if kind == "metric" else "`hourline up` reads on from there"
    if is_derived:
        after = "`hourline up` makes its events anew, and `hourline recompute` their results"
    say(f"{kind} '{name}' was reset, as sequence {sequence}; {after}")
    if kind == "metric":
        note_pending(declared)


def _plan_source(project: "Project", name: str, target: "Target", held: ExitStack) -> "SourceReset":
    from hourline_core.runtime.kafka import kafka_of
    from speed_layer.reset import SourceReset

    kafka = held.enter_context(kafka_of(project))
    planned = SourceReset(project, project.sources[name], kafka.address, target)
    columns = ["partition", "from", "to", "read again", "skipped"]
    say_table(
        ["topic", *columns],
        [(m.topic, m.partition, m.before, m.offset, m.again, m.skipped) for m in planned.moves],
        right=columns,
    )
    if skipped := sum(move.skipped for move in planned.moves):
        note(f"{skipped:,} offset(s) are skipped: their records are in no result until another reset goes back")
    say("")
    return planned


def _plan_derived(project: "Project", name: str, held: ExitStack) -> "DerivedReset":
    from speed_layer.reset import DerivedReset

    held.enter_context(lease(project.workspace, "batch"))
    return DerivedReset(project, project.sources[name])


def _plan_metric(project: "Project", name: str, held: ExitStack) -> "MetricReset":
    from speed_layer.reset import MetricReset

    held.enter_context(lease(project.workspace, "batch"))
    return MetricReset(project, project.metrics[name])


def _target(text: str) -> "Target":
    """The position in the text of --to. Raises UsageError."""
    match text:
        case "earliest" | "latest":
            return text
    if all(pairs := [_OFFSET.fullmatch(pair) for pair in text.split(",")]):
        offsets = {(pair["topic"], int(pair["partition"])): int(pair["offset"]) for pair in pairs if pair}
        if len(offsets) < len(pairs):
            raise UsageError(f"got --to {text}, allowed is each partition once")
        return offsets
    with suppress(ValueError, OverflowError):  # In UTC, it may be before the year 1, or after the year 9999.
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is not None:
            return moment.astimezone(UTC)
    raise UsageError(
        f"got --to {text}, allowed are earliest, latest, "
        "a time with its offset from UTC such as 2026-01-31T00:00:00Z, and offsets by partition such as 0=120,1=88"
    )
