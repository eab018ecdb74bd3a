"""``audit``: tries expectations on past hours, before they block one."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hourline.cli.audit_report import say_trial, trial_as_json
from hourline.cli.chosen_hours import past_range
from hourline.cli.declared_names import DeclaredName, find_declared
from hourline.cli.options import Format, ProjectFolder, ReportFormat, Workspace, load
from hourline.cli.output import note, say_json
from hourline.cli.progress import progress
from hourline.exit_status import MISTAKE
from hourline_core.errors import DeclarationError
from hourline_core.model.hours import wall_clock

if TYPE_CHECKING:
    from hourline_core.model import Project


def audit(
    name: DeclaredName,
    start: Annotated[str, typer.Option("--from", help="The first hour (UTC), such as 2013-01-05T14.")],
    end: Annotated[str, typer.Option("--to", help="The hour after the last one (UTC).")],
    project: ProjectFolder = Path(),
    workspace: Workspace = None,
    expectations: Annotated[
        Path | None,
        typer.Option(
            "--expectations", help="A YAML file with `expectations`, to try in the place of the declared ones."
        ),
    ] = None,
    format: Format = ReportFormat.TEXT,
) -> None:
    """Try expectations on past hours.

    They are evaluated on the published results of a metric, or on the archived events of a source. Nothing is
    published, and no table is changed. The exit status is 1 when an hour would be blocked.
    """
    declared = load(project, workspace)
    kind, name = find_declared(declared, name)
    hours = past_range(start, end)
    declared = _with_trial(declared, kind, name, expectations)
    from batch_layer.audit.trial import try_on_events, try_on_results

    with ExitStack() as stack:

        def on_hours(total: int) -> Callable[[int], None]:
            return stack.enter_context(progress("auditing", "hours", total))

        trial = (
            try_on_results(declared, declared.metrics[name], hours, wall_clock, on_hours)
            if kind == "metric"
            else try_on_events(declared, declared.sources[name], hours, wall_clock, on_hours)
        )
    blocked = trial.hours_that_would_be("blocked")
    if format is ReportFormat.JSON:
        say_json(trial_as_json(kind, name, trial))
    else:
        say_trial(trial)
        if blocked or expectations is not None:
            when = "" if expectations is None else "once these expectations are declared, "
            note(f"published hours stay as they are; {when}`hourline recompute --from … --to …` audits hours again")
    if blocked:
        raise typer.Exit(MISTAKE)


def _with_trial(project: "Project", kind: str, name: str, file: Path | None) -> "Project":
    """``project`` with the expectations of ``file``. Raises DeclarationError with the mistakes of those to try."""
    from batch_layer.audit.expectation_mistakes import find_mistakes_in
    from batch_layer.audit.validator import Validator
    from hourline_core.model.trial import with_expectations

    def declaration() -> Any:
        return project.metrics[name] if kind == "metric" else project.sources[name]

    if file is not None:
        project = with_expectations(project, declaration(), file)
    if mistakes := find_mistakes_in(project, declaration(), Validator()):
        raise DeclarationError("\n".join(mistakes))
    return project
