"""The hours and metrics that are given to ``plan``, ``recompute`` and ``backfill``."""

from typing import TYPE_CHECKING

from hourline.cli.output import note
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
    """Note the declarations that readers do not get yet. Whether there is one."""
    from hourline_core.ledger.pending_declarations import find_pending
    from hourline_core.ledger.snapshot import take_snapshot

    pending = find_pending(project, take_snapshot(project))
    for one in pending:
        note(one.in_words())
    return bool(pending)
