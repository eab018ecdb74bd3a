"""Keeps how far each follower has come: a file in the workspace, which the follower alone writes."""

from pathlib import Path

from hourline_core.model import Project
from hourline_core.runtime.notes import read_note, write_note

ASSETS, REPORTS = "assets", "reports"
NOTHING = "p0"
"""The token of the empty result."""

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


def read_token(project: Project, follower: str) -> str:
    """The token of the results that ``follower`` has dealt with. It is that of the empty result if none is noted."""
    token = (read_note(_file(project, follower)) or {}).get("token")
    return token if isinstance(token, str) else NOTHING


def read_confirmations(project: Project, follower: str) -> int:
    """The version of the table of confirmed gaps that ``follower`` has dealt with. 0: none is noted. Raises OSError."""
    version = (read_note(_file(project, follower)) or {}).get("confirmations")
    return version if isinstance(version, int) else 0


def write_position(
    project: Project, follower: str, publication: int, token: str | None = None, confirmations: int | None = None
) -> None:
    """Note that ``follower`` has dealt with all publications up to ``publication``, with the results of ``token``, and
    with the gaps that are confirmed at the version ``confirmations``. Raises OSError.
    """
    said = {"publication": publication, "token": token, "confirmations": confirmations}
    write_note(_file(project, follower), {name: value for name, value in said.items() if value is not None})


def _file(project: Project, follower: str) -> Path:
    return project.workspace / "followers" / f"{follower}.json"
