"""Marks the published hours whose events meet other rows of lookups now, and says so."""

from typing import TYPE_CHECKING

from hourline.cli.output import note
from hourline.cli.recompute_report import report_waiting

if TYPE_CHECKING:
    from hourline_core.model import Project


def mark_stale(project: "Project") -> None:
    """Mark them, unless no lookup is declared. Raises TableError, ConflictError."""
    if not project.lookups:
        return
    from batch_layer.changed_lookups import mark_stale_hours
    from hourline_core.runtime.lease import turn

    with turn(project.workspace, "batch", report_waiting):
        marked = mark_stale_hours(project, note)
    if marked:
        note(f"{marked:,} published hour(s) are stale: their events meet other rows of lookups now")
