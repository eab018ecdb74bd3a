"""Options that many commands share, and how they find the project."""

from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hourline_core.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from hourline_core.model import Project
    from serving_layer.at_least.form import AtLeast

ProjectFolder = Annotated[
    Path,
    typer.Option(
        "--project",
        "-p",
        help="The folder of the project.",
        show_default="the current folder",
        envvar="HOURLINE_PROJECT",
    ),
]
Workspace = Annotated[
    Path | None,
    typer.Option(
        "--workspace",
        "-w",
        help="The folder of the workspace.",
        show_default="as in the settings",
        envvar="HOURLINE_WORKSPACE",
    ),
]


AcceptLoss = Annotated[
    bool,
    typer.Option(
        "--accept-loss",
        help="Continue without records that Kafka deleted before they were read. The gap is recorded.",
    ),
]


class ReportFormat(StrEnum):
    """Text for people, or JSON for programs."""

    TEXT = "text"
    JSON = "json"


Format = Annotated[ReportFormat, typer.Option("--format", "-f", help="Print text for people, or JSON for programs.")]

OneHour = Annotated[str | None, typer.Option("--hour", help="Show only this hour (UTC), such as 2013-01-05T14.")]
Metrics = Annotated[list[str] | None, typer.Option("--metric", "-m", help="Only this metric. May be repeated.")]
IncludeOpen = Annotated[bool, typer.Option("--include-open", help="Also recompute hours that have not closed yet.")]
SkipOpen = Annotated[bool, typer.Option("--skip-open", help="Leave out hours that have not closed yet, and name them.")]
Results = Annotated[Path | None, typer.Option("--results", help="Also write the outcome to this file, as JSON.")]
Since = Annotated[
    datetime | None,
    typer.Option(
        "--since",
        formats=["%Y-%m-%dT%H:%M:%S.%f%z"],
        metavar="TIME",
        help="With --results: only the outcome since this time.",
    ),
]
AtLeastCounted = Annotated[
    list[str] | None,
    typer.Option(
        "--at-least",
        metavar="TOPIC:PARTITION=OFFSET|now",
        help="Wait until the record at this offset is counted, or all that Kafka holds now. May be repeated.",
    ),
]
Wait = Annotated[
    float | None,
    typer.Option("--wait", metavar="SECONDS", help="With --at-least: how long to wait.", show_default="30"),
]
AsOf = Annotated[
    str | None,
    typer.Option(
        "--as-of",
        metavar="TOKEN|TIME",
        help="Query an earlier snapshot: its token, or a time such as 2026-03-02T10:00 (UTC).",
    ),
]


ON_LOADED: ContextVar[Callable[["Project"], None]] = ContextVar("on_loaded", default=lambda project: None)
"""Called with the project that the command has loaded."""

_LOADED: ContextVar["Project | None"] = ContextVar("loaded", default=None)


def load(folder: Path, workspace: Path | None, *, makes_workspace: bool = False) -> "Project":
    """The project in ``folder``. A command that ``makes_workspace`` makes its folder ``logs`` first, for what libraries
    write beside Python. Raises DeclarationError, UsageError.
    """
    from hourline.cli.output import note
    from hourline_core.ledger.power_cut import mend_after_power_cut
    from hourline_core.model import load_project

    project = load_project(folder, workspace=workspace)
    if makes_workspace:
        with suppress(OSError):  # The next file that is made there says why.
            (project.workspace / "logs").mkdir(parents=True, exist_ok=True)
    for lost in mend_after_power_cut(project):
        note(f"dropped, since a power failure has cut it short: {lost}")
    return _note_loaded(project)


def load_settings_alone(folder: Path, workspace: Path | None) -> "Project":
    """The project without its sources and metrics, whose mistakes do not matter then. Raises as ``load``."""
    from hourline_core.model import load_settings

    return _note_loaded(load_settings(folder, workspace=workspace))


def loaded_project() -> "Project | None":
    """The project that the command has loaded, for the sentence about a fault."""
    return _LOADED.get()


def _note_loaded(project: "Project") -> "Project":
    _LOADED.set(project)
    ON_LOADED.get()(project)
    return project


def parse_wait(at_least: list[str] | None, wait: float | None) -> "tuple[AtLeast | None, float]":
    """What an answer is to count (None: what it does), and how many seconds to wait for it. Raises UsageError."""
    from serving_layer.at_least.form import WAIT_SECONDS, parse_at_least

    if not at_least:
        if wait is not None:
            raise UsageError("--wait says how long --at-least waits: give that, too, or leave out --wait")
        return None, WAIT_SECONDS
    return parse_at_least(at_least), WAIT_SECONDS if wait is None else wait


def require_known(kind: str, name: str, allowed: list[str]) -> str:
    """``name`` if it is allowed. Raises UsageError with a near name."""
    if name not in allowed:
        raise UsageError(f"there is no {kind} '{name}'{did_you_mean(name, allowed)}")
    return name
