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


def read_confirmations(project: Project, follower: str) -> int:
    """The version of the table of confirmed gaps that ``follower`` has dealt with. 0: none is noted. Raises OSError."""
    version = (read_note(_file(project, follower)) or {}).get("confirmations")
    return version if isinstance(version, int) else 0


def write_position(project: Project, follower: str, publication: int, confirmations: int = 0) -> None:
    """Note that ``follower`` has dealt with all publications up to ``publication``, and with the gaps that are
    confirmed at the version ``confirmations``. Raises OSError.
    """
    write_note(_file(project, follower), {"publication": publication, "confirmations": confirmations})


def _file(project: Project, follower: str) -> Path:
    return project.workspace / "followers" / f"{follower}.json"
