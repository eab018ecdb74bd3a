"""``publish``: publishes blocked hours by a person's decision. Starts Spark only to explain drift."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hourline.cli.options import ProjectFolder, Workspace, load
from hourline.cli.output import note, say
from hourline.cli.person import current_person
from hourline_core.errors import UsageError
from hourline_core.model.hours import hour_text, parse_hour, wall_clock

if TYPE_CHECKING:
    from batch_layer.accept import Accepted


def publish(
    accept: Annotated[
        list[str],
        typer.Option(
            "--accept",
            metavar="PROBLEM",
            help="A problem, as `hourline quality` prints it: ID@PUBLICATION. Its hours up to that publication are "
            "published, unless another problem blocks them. May be repeated. Or the name of a metric, with HOUR.",
        ),
    ],
    reason: Annotated[str, typer.Option("--reason", help="Why the rows are right. The reason is recorded.")],
    hour: Annotated[str | None, typer.Argument(metavar="HOUR", help="After a metric: its blocked hour (UTC).")] = None,
    project: ProjectFolder = Path(),
    workspace: Workspace = None,
) -> None:
    """Publish blocked hours although their audit did not pass. This publishes the rows that were audited."""
    declared = load(project, workspace)
    if not reason.strip():
        raise UsageError(
            "the reason is empty; say in a few words why the hour is right, as in --reason 'the strike of that day'"
        )
    person = current_person()
    if hour is None:
        for name in (one for one in accept if one in declared.metrics):
            raise UsageError(
                f"'{name}' is a metric, and its HOUR is missing: `hourline publish --accept {name} HOUR --reason …`; "
                "or give the id of a problem, from `hourline quality`"
            )
        from batch_layer.accept import accept_problems

        _say_accepted(accept_problems(declared, accept, person, reason.strip(), wall_clock), person, reason.strip())
        return
    if len(accept) > 1:
        raise UsageError(f"got {len(accept)} times --accept with an hour; allowed is one metric, and its hour")
    metric, moment = declared.find_metric(accept[0]), parse_hour(hour)
    from batch_layer.accept import accept as accept_hour

    accept_hour(declared, metric, moment, person, reason.strip(), wall_clock)
    say(f"published {hour_text(moment)} of {metric.name}, accepted by {person}: {reason.strip()}")


def _say_accepted(accepted: "Accepted", person: str, reason: str) -> None:
    hours = sorted(hour for _, hour in accepted.published)
    metrics = ", ".join(sorted({metric for metric, _ in accepted.published}))
    count = len(set(hours))
    first, last = hour_text(hours[0]), hour_text(hours[-1])
    when = first if count == 1 else f"{count:,} hours, {first} … {last},"
    say(f"published {when} of {metrics}, accepted by {person}: {reason}")
    for problem, cells in accepted.left.items():
        note(f"problem '{problem}' still blocks {len(cells):,} of these hours")
    if accepted.since:
        note(f"{len({hour for _, hour in accepted.since}):,} hour(s) failed since; `hourline quality` shows them")
