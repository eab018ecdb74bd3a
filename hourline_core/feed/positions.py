"""Keeps how far each follower has come: a file in the workspace, which the follower alone writes."""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from hourline_core.model import Project
from hourline_core.runtime.notes import read_note, write_note

ASSETS, REPORTS = "assets", "reports"

FOLLOWERS = {
    ASSETS: "tells Airflow's assets which hours were published",
    REPORTS: "writes a page for each audit, and the overview",
}
"""By name, what a follower does."""


def read_position(project: Project, follower: str) -> int:
    """The newest publication that ``follower`` has dealt with. 0: none, or its file is gone: it begins with all that is
    published. Raises OSError.
    """
    said = read_note(_file(project, follower)) or {}
    position = said.get("publication")
    return position if isinstance(position, int) else 0


def read_confirmations(project: Project, follower: str) -> int:
    """The version of the table of confirmed gaps that ``follower`` has dealt with. 0: none is noted. Raises OSError."""
    version = (read_note(_file(project, follower)) or {}).get("confirmations")
    return version if isinstance(version, int) else 0


def read_closed(project: Project, follower: str) -> dict[str, datetime]:
    """By source, the end of the last closed hour (UTC) that ``follower`` has dealt with. A source that is left out is
    not known: it begins with the hours that close from now on. Raises OSError.
    """
    closed = (read_note(_file(project, follower)) or {}).get("closed", {})
    return {source: datetime.fromisoformat(moment) for source, moment in closed.items()}


def write_position(
    project: Project,
    follower: str,
    publication: int,
    confirmations: int = 0,
    closed: Mapping[str, str] | None = None,
) -> None:
    """Note that ``follower`` has dealt with all publications up to ``publication``, with the gaps that are confirmed at
    the version ``confirmations``, and with the hours that have closed up to ``closed`` (ISO text), by source. Raises
    OSError.
    """
    position = {"publication": publication, "confirmations": confirmations, "closed": dict(closed or {})}
    write_note(_file(project, follower), position)


def _file(project: Project, follower: str) -> Path:
    return project.workspace / "followers" / f"{follower}.json"
