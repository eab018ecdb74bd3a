"""Tells Airflow's assets which hours were published, whoever has published them: the DAG, a person, or an import. And
which hours and windows are final without a publication: by a gap that a person has confirmed, or windows by the clock.

One run of the DAG `assets` waits for any of these, tells of it, and confirms that. So no two runs tell of the same
hours, and an Airflow that was away tells of all that was published meanwhile.

The tables are read by packages that take long to import, and Airflow imports this file with each DAG file.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any, TypedDict
from zoneinfo import ZoneInfo

from airflow.sdk import BaseOperator, get_current_context
from airflow.sdk.exceptions import AirflowException
from airflow.triggers.base import BaseTrigger, TriggerEvent

from hourline.airflow.commands import log
from hourline.airflow.settings import Settings
from hourline_core.errors import HourlineError
from hourline_core.faults import explain_fault
from hourline_core.feed.positions import ASSETS, read_closed, read_confirmations, read_position, write_position
from hourline_core.feed.told_partitions import Telling, note_telling, read_tellings, told_last
from hourline_core.model import Project, load_project
from hourline_core.model.hours import Clock, wall_clock
from hourline_core.model.metric_window import MetricWindow
from hourline_core.model.session_window import SessionWindow
from hourline_core.runtime.fault_context import surroundings_of

_SECONDS = 5.0
"""The time between two looks for a publication."""
_LOOKS = 60
"""The number of them to each look at the clocks, which move with each micro-batch."""


class PublicationTrigger(BaseTrigger):
    """Fires once there is another publication, or another confirmed gap, than those that were told of last. Or once an
    hour has closed since, of a source whose metrics have windows: one of them may be final by that.
    """

    def __init__(
        self,
        folder: str,
        workspace: str,
        told: int,
        confirmed: int,
        closed: Mapping[str, str] | None = None,
        clock: Clock = wall_clock,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow's
        self.folder, self.workspace, self.told, self.confirmed = folder, workspace, told, confirmed
        self.closed, self._clock = dict(closed or {}), clock

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Its class, and the arguments that make it again."""
        arguments = {name: getattr(self, name) for name in ("folder", "workspace", "told", "confirmed", "closed")}
        return f"{type(self).__module__}.{type(self).__qualname__}", arguments

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Look every few seconds. Tables that cannot be read now are looked at again."""
        project = await asyncio.to_thread(load_project, Path(self.folder), workspace=Path(self.workspace))
        for look in count(1):
            newest, is_news = await asyncio.to_thread(self._look, project, look % _LOOKS == 0)
            if is_news:
                yield TriggerEvent(newest)  # type: ignore[no-untyped-call]  # Airflow's
                return
            await asyncio.sleep(_SECONDS)

    def _look(self, project: Project, at_clocks: bool) -> tuple[int, bool]:
        """The newest publication, and whether there is something to tell."""
        from hourline_core.feed.closed_hours import newest_closed

        try:
            newest = _newest(project)
            closed = newest_closed(project, _windowed_sources(project), self._clock) if at_clocks else {}
        except (HourlineError, OSError):
            return self.told, False
        has_closed = any(moment.isoformat() != self.closed.get(source) for source, moment in closed.items())
        return newest[0], newest != (self.told, self.confirmed) or has_closed


def _windowed_sources(project: Project) -> list[str]:
    """The sources of the metrics that have other windows than hours."""
    metrics = project.all_metrics.items()
    windowed = [project.base_of(name) for name, one in metrics if not (one.window.is_hour or one.session)]
    return sorted({project.metrics[base].source for base in windowed})


def _newest(project: Project) -> tuple[int, int]:
    """The newest publication, and the newest version of the confirmed gaps. Raises TableError."""
    from hourline_core.feed.confirmed_gaps import newest_confirmation
    from hourline_core.feed.published import newest_publication

    return newest_publication(project), newest_confirmation(project)


class WaitForPublication(BaseOperator):
    """Ends once hours were published, a gap was confirmed, or hours have closed, that no asset has told of. It waits in
    the triggerer, without a process.
    """

    def __init__(self, *, settings: Settings, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.folder, self.workspace = settings.folder, settings.workspace

    def execute(self, context: Any) -> None:
        """Look once here, so that what was published in between need not wait. It waits for tables that cannot be read
        now: if the run failed, another one would follow at once.
        """
        project = load_project(Path(self.folder), workspace=Path(self.workspace))
        told = newest = read_position(project, ASSETS), read_confirmations(project, ASSETS)
        try:
            newest = _newest(project)
        except HourlineError as error:
            log.warning("%s", error)
        if newest == told:
            closed = {source: moment.isoformat() for source, moment in read_closed(project, ASSETS).items()}
            trigger = PublicationTrigger(self.folder, self.workspace, *told, closed)
            self.defer(trigger=trigger, method_name=WaitForPublication.resume.__name__)

    def resume(self, context: Any, event: int) -> None:
        """Go on after the wait."""
        log.info("the newest publication is %d", event)


class Told(TypedDict):
    """What the assets have told, as a ``Telling`` that Airflow passes from task to task."""

    publication: int
    confirmations: int
    token: str
    at: str
    partitions: dict[str, list[str]]
    closed: dict[str, str]


def tell_assets(settings: Settings, clock: Clock = wall_clock) -> Told:
    """Give the asset of each metric an event for each hour that was published since the last time, or is final by a gap
    that was confirmed since. The asset of its windows gets one for each window that is final, and has such an hour, or
    one of such a gap, or has become final by the clock since. It is called in a task with ``settings.outlets`` as its
    outlets. Returns what they tell, for ``confirm_told``.

    An event's ``extra`` has the publication, and what ``told_before`` reads. Airflow has one ``extra`` for all
    partitions of an asset that a task tells.
    """
    from hourline_core.feed.confirmed_gaps import confirmed_after
    from hourline_core.feed.published import published_after
    from serving_layer.confirmed_hours import confirmed_hours
    from serving_layer.connection import Connection
    from serving_layer.silent_windows import closed_hours, silent_windows

    now = clock()
    with _errors_in_a_sentence(settings):
        project = _project(settings)
        gaps = confirmed_after(project, read_confirmations(project, ASSETS))
        # Before the hours are read, so that no change is left out next time.
        with Connection(project, clock) as connection:
            token, confirmed = connection.token, confirmed_hours(connection, gaps)
            closed = closed_hours(connection)
            silent = silent_windows(connection, read_closed(project, ASSETS), gaps)
        published = published_after(project, read_position(project, ASSETS))
        # An hour that is final by a confirmation alone is told again: it was told while it was incomplete.
        hours = {metric: {hour for hour, state in of.items() if state == "final"} for metric, of in confirmed.items()}
        for one in published.hours:
            hours.setdefault(one.metric, set()).add(one.hour)
        hours |= {name: hours[base] for name, base in settings.over.items() if base in hours}
        changed = {
            name: {*hours.get(name, ()), *confirmed.get(project.base_of(name), ())} for name in settings.windowed
        }
        windows = {name: _final_windows(project, clock, name, of) for name, of in changed.items()}
        tellings = read_tellings(project, published.up_to, gaps.up_to, now)
    told = [
        (asset, [_key(hour) for hour in sorted(of)])
        for name, asset in settings.assets.items()
        if (of := hours.get(name))
    ]
    for name, asset in settings.window_assets.items():
        window = project.all_metrics[name].window
        starts = sorted({*windows[name], *(start for start, _ in silent.get(name, ()))})
        told += [(asset, [_window_key(window, start) for start in starts])] if starts else []
    context: Any = get_current_context()
    for asset, keys in told:
        since = told_last(tellings, asset.name, keys)
        context["outlet_events"][asset].add_partitions(keys)
        context["outlet_events"][asset].extra = {"publication": published.up_to, "since": since}
        log.info("%s: %d partition(s) up to publication %d", asset.name, len(keys), published.up_to)
    # Without partitions on an outlet, Airflow would report a change of the run's own partition.
    context["task"].outlets = [asset for asset, _ in told]
    return {
        "publication": published.up_to,
        "confirmations": gaps.up_to,
        "token": token,
        "at": now.isoformat(),
        "partitions": {asset.name: keys for asset, keys in told},
        "closed": {source: moment.isoformat() for source, moment in closed.items()},
    }


def confirm_told(settings: Settings, told: Told) -> None:
    """Note what the assets have told. Airflow has the events by then: a task that is killed before it has ended well is
    tried again, and tells of the same hours again.
    """
    publication, confirmations, closed = told["publication"], told["confirmations"], told["closed"]
    at = datetime.fromisoformat(told["at"])
    with _errors_in_a_sentence(settings):
        project = _project(settings)
        write_position(project, ASSETS, publication, confirmations, closed)
        note_telling(project, Telling(publication, confirmations, told["token"], at, told["partitions"], closed))


def told_before(events: Sequence[Any], partition_key: str) -> str | None:
    """The token with which a partition was told last before these ``events`` of its asset: what is different since then
    is news. None: it was not told before, or too long ago. Then all of it is.
    """
    token: str | None = events[0].extra.get("since", {}).get(partition_key)
    return token


@contextmanager
def _errors_in_a_sentence(settings: Settings) -> Iterator[None]:
    """Errors in the block end the task with one sentence. Airflow tries it again."""
    try:
        yield
    except HourlineError as error:
        raise AirflowException(str(error)) from None
    except OSError as error:
        raise AirflowException(str(explain_fault(error, surroundings_of(_project(settings))))) from None


def _project(settings: Settings) -> Project:
    return load_project(Path(settings.folder), workspace=Path(settings.workspace))


def _final_windows(project: Project, clock: Clock, name: str, hours: Collection[datetime]) -> set[datetime]:
    """The starts of the final windows of a metric that share time with one of ``hours``."""
    from serving_layer.connection import Connection
    from serving_layer.final_windows import final_windows

    if not hours:
        return set()
    with Connection(project, clock) as connection:
        return {start for start, _ in final_windows(connection, name, sorted(hours))}


def _key(moment: datetime) -> str:
    """As PARTITION_KEY, by which strftime would write the year 987 in three digits."""
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat()


def _window_key(window: MetricWindow | SessionWindow, start: datetime) -> str:
    """The first day of a window of days, weeks, months or years in its zone, such as ``2026-03-02``. Of other windows,
    the start in UTC, such as ``2026-03-02T08:00:00``.
    """
    if isinstance(window, SessionWindow) or window.size.unit == "minute":
        return _key(start)
    return start.astimezone(ZoneInfo(window.zone or "UTC")).date().isoformat()
