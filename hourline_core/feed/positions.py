"""Keeps how far each follower has come: a file in the workspace, which the follower alone writes."""

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


def write_position(project: Project, follower: str, publication: int) -> None:
    """Note that ``follower`` has dealt with all publications up to ``publication``. Raises OSError."""
    write_note(_file(project, follower), {"publication": publication})


def _file(project: Project, follower: str) -> Path:
    return project.workspace / "followers" / f"{follower}.json"
