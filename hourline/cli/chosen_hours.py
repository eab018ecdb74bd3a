"""The hours and metrics that are given to ``plan``, ``recompute`` and ``backfill``."""

from dataclasses import replace
from typing import TYPE_CHECKING

from hourline.cli.output import note
from hourline.cli.waiting import note_missing
from hourline_core.errors import UsageError
from hourline_core.model.hours import HourRange, hour_text, parse_range, wall_clock

if TYPE_CHECKING:
    from batch_layer.plan import PlannedHour
    from hourline_core.ledger.snapshot import Snapshot
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


def takes_open(include_open: bool, skip_open: bool) -> bool:
    """Whether a range may have open hours, and hours in the future: if an option says what becomes of them. Raises
    UsageError when both options are given.
    """
    if include_open and skip_open:
        raise UsageError(
            "give --skip-open or --include-open, not both: --skip-open leaves open hours out, --include-open does not"
        )
    return include_open or skip_open


def refuse_open(planned: list["PlannedHour"]) -> None:
    """Raise UsageError when an hour of ``planned`` has not closed."""
    if still_open := [item for item in planned if not item.closed]:
        raise UsageError(
            f"{hour_text(still_open[0].hour)} has not closed yet: its events may still be arriving; "
            "give --skip-open to leave open hours out, or --include-open to recompute them all the same"
        )


def nothing_in(hours: HourRange | None, *, chosen: bool, all_open: bool, pending: bool) -> str:
    """Why there is nothing to recompute in ``hours``. None: in the plan. ``chosen``: of some metrics alone.
    ``all_open``: its hours were left out. ``pending``: a declaration is not in use yet, and has no hours until it is.
    """
    if hours is None:
        return "nothing to recompute"
    if all_open:
        return "nothing to recompute: no hour of that range has closed yet"
    if hours.start > wall_clock():
        return f"nothing to recompute: that range lies in the future; it is now {hour_text(wall_clock())}"
    if pending:
        return f"nothing to recompute: no {'chosen ' if chosen else ''}metric that is in use has an hour in that range"
    return f"nothing to recompute: {'no chosen metric' if chosen else 'no source'} has an hour in that range"


def note_pending(project: "Project") -> list[str]:
    """Note the declarations that readers do not get yet, and the open hours that results lack: each with the command
    that ends it. Returns the sentences about declarations.
    """
    from hourline_core.ledger.pending_declarations import find_pending
    from hourline_core.sql.database import open_database
    from hourline_core.sql.missing_hours import read_missing_hours

    def needed(snapshot: "Snapshot") -> set[str]:
        return {f"hourline.hours_{tables.name}" for tables in snapshot.metrics if tables.complete_from > 1}

    with open_database(project, needed=needed) as (database, snapshot):
        found = {
            tables.name: read_missing_hours(tables, lambda query: database.execute(query).fetchall())
            for tables in snapshot.metrics
        }
        pending = find_pending(project, snapshot)
        sentences = [one.in_words(found.get(f"{one.metric}_{one.declaration}")) for one in pending]
        for sentence in sentences:
            note(sentence)
        # Those that have closed are in the plan.
        lacking = (missing for tables in snapshot.served if (missing := found[tables.name]))
        note_missing(replace(missing, closed=()) for missing in lacking)
    return sentences
