"""``plan``: lists the hours to recompute, and why."""

import json
from collections import defaultdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hourline.cli.chosen_hours import chosen_metrics, note_pending
from hourline.cli.findings import note_findings
from hourline.cli.options import Format, Metrics, ProjectFolder, ReportFormat, Results, Workspace, load
from hourline.cli.output import note, say, say_json, say_table
from hourline_core.model.hours import hour_text, parse_hour, wall_clock
from hourline_core.model.natural_order import natural_key
from hourline_core.model.windows import HOURLY

if TYPE_CHECKING:
    from batch_layer.plan import PlannedHour
    from hourline_core.model import Project

_HOURS = 40
"""The maximum number of hours that are listed one by one."""
_ROWS = 40
"""The maximum number of rows about many hours."""


def plan(
    project: ProjectFolder = Path(),
    workspace: Workspace = None,
    metric: Metrics = None,
    hour: Annotated[str | None, typer.Option("--hour", help="Also show whether this hour (UTC) has closed.")] = None,
    format: Format = ReportFormat.TEXT,
    results: Results = None,
) -> None:
    """List the hours that need a recompute, and why."""
    declared = load(project, workspace)
    from batch_layer.changed_lookups import find_outdated_lookups
    from batch_layer.decoding.missing_bytes import find_hours_without_bytes
    from batch_layer.decoding.to_decode import sources_to_decode
    from batch_layer.findings import has_news, look_now
    from batch_layer.plan import plan as plan_hours

    planned = plan_hours(declared, chosen_metrics(declared, metric))
    to_decode = [source.name for source in sources_to_decode(declared)]
    pending = note_pending(declared)
    for name in to_decode:
        note(
            f"{name}: another declaration has decoded archived records, which may belong to further hours; "
            "`hourline recompute` decodes them anew, and recomputes these hours, too"
        )
    for name, hours in find_hours_without_bytes(declared).items():
        note(
            f"{name}: {len(hours):,} hour(s) are missing for metrics over changed fields, since their records' bytes "
            f"were not kept; `hourline reset {name}` reads those again that Kafka still has (then `hourline up`)"
        )
    outdated = find_outdated_lookups(declared)
    for name in outdated:
        note(
            f"lookup {name} has a newer version than that of some published hours; `hourline recompute` finds those "
            "whose events it touches, and recomputes these, too"
        )
    if hour is not None:
        _say_open(declared, parse_hour(hour))
    findings = look_now(declared)
    note_findings(findings)
    if results is not None:
        count = {
            "planned": len(planned),
            "hours": len({item.hour for item in planned}),
            "to_decode": len(to_decode),
            "outdated_lookups": len(outdated),
        }
        results.write_text(json.dumps({**count, "findings": has_news(declared, findings, wall_clock())}))
    if format is ReportFormat.JSON:
        columns = ("metric", "hour", "reason", "events")
        say_json([{name: getattr(item, name) for name in columns} for item in planned])
    elif planned:
        say_planned(planned)
    elif not to_decode and not outdated:
        say("No hour needs a recompute." + (" A declaration is pending." if pending else ""))


def say_planned(planned: "list[PlannedHour]") -> None:
    """Print the hours, or a row for all hours of a metric with the same reason if there are many."""
    if len(planned) <= _HOURS:
        say_table(
            ["hour (UTC)", "metric", "why", "events"],
            [(item.hour, item.metric, item.reason, item.events) for item in planned],
            right=["events"],
        )
        return
    groups: dict[tuple[str, str], list[PlannedHour]] = defaultdict(list)
    for item in planned:
        groups[item.metric, item.reason].append(item)
    ordered = sorted(groups.items(), key=lambda group: (-len(group[1]), natural_key(group[0][0]), group[0][1]))
    say_table(
        ["metric", "why", "hours", "first (UTC)", "last (UTC)", "events"],
        [
            (
                metric,
                reason,
                len(items),
                min(item.hour for item in items),
                max(item.hour for item in items),
                sum(item.events for item in items),
            )
            for (metric, reason), items in ordered[:_ROWS]
        ],
        right=["hours", "events"],
    )
    more = f"… and {len(ordered) - _ROWS:,} more rows; " if len(ordered) > _ROWS else ""
    say(f"{more}{len(planned):,} hours × metrics in all; `hourline plan --format json` lists them")


def _say_open(project: "Project", hour: datetime) -> None:
    """When an open hour will close, by the clock of each source."""
    from batch_layer.plan import read_clocks

    for source, clock in read_clocks(project).items():
        closes = hour + HOURLY.complete_after(project.sources[source].grace)
        if clock is None or clock < closes:
            now = (
                f"the clock of '{source}' stands at {clock:%Y-%m-%d %H:%M} UTC"
                if clock
                else f"'{source}' has no events yet"
            )
            say(f"{hour_text(hour)} closes at {closes:%Y-%m-%d %H:%M} UTC, and {now}: it is left to a later run")
