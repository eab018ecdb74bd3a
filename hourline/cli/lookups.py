"""``lookups``: how current the tables are whose rows expressions name. Needs neither Spark nor Java."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hourline.cli.mark_stale import mark_stale
from hourline.cli.options import Format, ProjectFolder, ReportFormat, Workspace, load
from hourline.cli.output import say, say_json, say_table
from hourline_core.errors import TableError
from hourline_core.model.hours import iso_text, wall_clock

if TYPE_CHECKING:
    from hourline_core.lookups.refresh import LookupState


def lookups(
    project: ProjectFolder = Path(),
    workspace: Workspace = None,
    refresh: Annotated[
        bool, typer.Option("--refresh", help="Read their tables again first. A table that cannot be used is refused.")
    ] = False,
    format: Format = ReportFormat.TEXT,
) -> None:
    """List the lookups, with the version that is used.

    It also says how many rows that has, and why the last refresh was refused, if it was.
    """
    declared = load(project, workspace, makes_workspace=refresh)
    from hourline_core.lookups.refresh import read_state
    from hourline_core.lookups.refresh import refresh as read_again

    found = [
        read_again(declared, lookup, wall_clock) if refresh else read_state(declared, lookup)
        for _, lookup in sorted(declared.lookups.items())
    ]
    if format is ReportFormat.JSON:
        say_json([_as_json(state) for state in found])
    elif found:
        say_table(
            ["lookup", "version", "since (UTC)", "rows", "null keys", "refreshed (UTC)", "problem"],
            [_as_row(state) for state in found],
            right=["version", "rows", "null keys"],
        )
    else:
        say("no lookups: a file in lookups/ declares one")
    if refresh:
        mark_stale(declared)
    if refused := [f"lookup '{state.lookup.name}': {state.problem}" for state in found if refresh and state.problem]:
        raise TableError("; ".join(refused))


def _as_row(state: "LookupState") -> tuple[Any, ...]:
    version = state.version
    of_version = (version.number, version.committed, version.rows) if version else (None, None, None)
    return (state.lookup.name, *of_version, state.null_keys, state.refreshed, state.problem)


def _as_json(state: "LookupState") -> dict[str, Any]:
    version = state.version
    return {
        "lookup": state.lookup.name,
        "version": version and {**asdict(version), "committed": iso_text(version.committed)},
        "null_keys": state.null_keys,
        "refreshed": state.refreshed and iso_text(state.refreshed),
        "problem": state.problem,
    }
