"""A project to whose published hours two more have come: what is expected of them, found in them, and told to readers."""

import json
import textwrap
from datetime import datetime, timedelta
from typing import Any

from pyspark.sql import SparkSession

import serving_layer
from batch_layer.job import open_job
from batch_layer.plan import PlannedHour, plan_range
from batch_layer.publication import Publication
from batch_layer.publish import Recomputed
from batch_layer.recompute import run_job
from hourline_core.model.hours import HOUR, HourRange, wall_clock
from tests.support import oracle, parcels
from tests.support.stack_project import StackProject

FIRST = parcels.BEGIN + timedelta(hours=6)
SECOND = FIRST + timedelta(hours=1)


def with_expectations(project: StackProject, file: str, text: str) -> StackProject:
    """The project with ``text`` added to one of its files."""
    with (project.root / file).open("a") as lines:
        lines.write(textwrap.dedent(text))
    changed = StackProject(project.root, project.kafka, project.rules)
    changed.sent, changed.cutoffs, changed.blocked, changed.mended = (
        project.sent,
        project.cutoffs,
        project.blocked,
        project.mended,
    )
    return changed


def answers(project: StackProject, metric: str, hour: datetime) -> list[dict[str, Any]]:
    """What readers see of one hour, but for its state."""
    with serving_layer.connect(project.project) as connection:
        rows = (
            connection.sql(f"SELECT * EXCLUDE (state) FROM {metric} WHERE hour = '{hour.isoformat()}' ORDER BY ALL")
            .to_arrow_table()
            .to_pylist()
        )
    return [dict(row) for row in rows]


def new_hours(project: StackProject) -> list[PlannedHour]:
    """Of every metric, the two hours that have come."""
    return plan_range(project.project, HourRange(FIRST, SECOND + HOUR))


def recompute_new_hours(project: StackProject, spark: SparkSession) -> Recomputed:
    publication = Publication(project.project)
    with open_job(project.project, new_hours(project), wall_clock, lambda: spark) as job:
        return run_job(publication, job)


def quality(project: StackProject, *options: str) -> dict[str, Any]:
    """What `hourline quality` tells, whose status is 1 where something is blocked."""
    return dict(json.loads(project.command("quality", "--format", "json", *options, status=None)))


def lacking(project: StackProject) -> set[datetime]:
    """The hours whose events, as a recompute counts them now, lack a depot."""
    depots: dict[datetime, set[str]] = {}
    rule, events = project.rules["scans"], project.events("scans")
    everything = dict.fromkeys((("flow", event.hour) for event in events), project.last_sequence("scans"))
    for event in oracle.counted(rule, "flow", events, everything):
        depots.setdefault(event.hour, set()).add(event.body["depot"])
    return {hour for hour, found in depots.items() if found != {"north", "south", "west"}}
