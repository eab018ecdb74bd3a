"""The hours and metrics that are given to ``plan``, ``recompute`` and ``backfill``."""

from dataclasses import replace
from typing import TYPE_CHECKING

from hourline.cli.output import note
from hourline.cli.waiting import note_missing
from hourline_core.errors import UsageError
from hourline_core.model.hours import HourRange, hour_text, parse_range, wall_clock

if TYPE_CHECKING:
    from batch_layer.plan import PlannedHour
    from hourline_core.model import Project


def chosen_metrics(project: "Project", names: list[str] | None) -> list[str] | None:
    """The metrics of --metric. None: all. Raises UsageError with a near name."""
    return [project.find_metric(name).name for name in names] if names else None


def past_range(start: str, end: str) -> HourRange:
    """The range from --from and --to. Raises UsageError if it is reversed, empty, not on the hour, or in the future."""
    hours = parse_range(start, end)
    if hours.start > wall_clock():
        raise UsageError(f"the range {hours} lies in the future; it is now {hour_text(wall_clock())}")
    return hours


def refuse_open(planned: list["PlannedHour"]) -> None:
    """Raise UsageError when an hour of ``planned`` has not closed."""
    if still_open := [item for item in planned if not item.closed]:
        raise UsageError(
            f"{hour_text(still_open[0].hour)} has not closed yet: its events may still be arriving; "
            "give --include-open to recompute it all the same"
        )


def note_pending(project: "Project") -> bool:
    """Note the declarations that readers do not get yet, and the open hours that results lack: each with the command
    that ends it. Whether a declaration is pending.
    """
    from serving_layer import connect
    from serving_layer.reports.changing_metrics import list_changes

    with connect(project) as connection:
        changes = list_changes(connection)
        for change in changes:
            note(change.words)
        # Those that have closed are in the plan.
        note_missing(replace(one, closed=()) for one in connection.missing)
    return bool(changes)
