"""Reports the recomputes that run, and how far they are."""

from datetime import datetime

from hourline_core.model import Project
from hourline_core.model.hours import Clock, wall_clock
from hourline_core.runtime.running_recomputes import list_recomputes
from serving_layer.described import Described


class Recomputation(Described):
    """A running recompute."""

    process: int
    """The id of its process."""
    command: str
    """The command, with the range, metrics or source that it was asked for."""
    task: str | None
    """The task of Airflow that runs the command. Null: Airflow does not run it."""
    since: datetime
    """When it began (UTC)."""
    hours: int
    """The number of hours to recompute, over all metrics."""
    hours_done: int
    """The number of hours that are done, also before an interruption of a backfill."""
    events: int
    """The number of events in these hours. An event of several metrics counts once."""
    events_done: int
    """The number of events in the hours that are done."""
    decoding: str | None
    """The last chunk of records that was decoded anew, in words. Null: there is none, or hours are recomputed."""
    seconds_left: float | None
    """The estimated time that is left, by events (seconds). Null: it is not known."""
    as_of: datetime
    """When its last job or chunk was done (UTC); before that, when the first one began. The numbers are of then."""


def report_recomputing(project: Project, clock: Clock = wall_clock) -> list[Recomputation]:
    """The recomputes that run, on the command line and in Airflow. One that was killed is not among them."""
    return [
        Recomputation(
            process=one.process,
            command=one.command,
            task=one.task,
            since=one.since,
            hours=one.progress.all.hours,
            hours_done=one.progress.done.hours,
            events=one.progress.all.events,
            events_done=one.progress.done.events,
            decoding=one.progress.decoding,
            seconds_left=one.progress.left.total_seconds() if one.progress.left else None,
            as_of=one.progress.at,
        )
        for one in list_recomputes(project.workspace, clock())
    ]
