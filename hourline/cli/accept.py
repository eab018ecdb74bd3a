"""``accept``: publishes blocked hours by a person's decision. Starts Spark only to explain drift."""

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


def accept(
    what: Annotated[
        list[str],
        typer.Argument(
            metavar="PROBLEM... | METRIC HOUR",
            help="Problems, as `hourline quality` prints them: ID@PUBLICATION. Their hours up to that publication are "
            "published, unless another problem blocks them. Or a metric, and its blocked hour (UTC).",
        ),
    ],
    reason: Annotated[str, typer.Option("--reason", help="Why the rows are right. The reason is recorded.")],
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
    # The name of a metric may be misspelt. An hour has a "-", and the id of a problem has none.
    if what[0] not in declared.metrics and not (len(what) == 2 and "-" in what[1]):
        from batch_layer.accept import accept_problems

        _say_accepted(accept_problems(declared, what, person, reason.strip(), wall_clock), person, reason.strip())
        return
    if len(what) != 2:
        raise UsageError(
            f"got {' '.join(what)}, want one metric and one hour: `hourline accept {what[0]} HOUR --reason …`; "
            "or give the id of a problem, from `hourline quality`"
        )
    metric, moment = declared.find_metric(what[0]), parse_hour(what[1])
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
