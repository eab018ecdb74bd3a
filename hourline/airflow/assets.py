"""Tells Airflow's assets which hours were published, whoever has published them: the DAG, a person, or an import.

One run of the DAG `assets` waits for a publication, tells of its hours, and confirms that. So no two runs tell of the
same hours, and an Airflow that was away tells of all that was published meanwhile.

The tables are read by packages that take long to import, and Airflow imports this file with each DAG file.
"""

import asyncio
from bisect import bisect_right
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypedDict
from zoneinfo import ZoneInfo

from airflow.sdk import BaseOperator, get_current_context
from airflow.sdk.exceptions import AirflowException
from airflow.triggers.base import BaseTrigger, TriggerEvent

from hourline.airflow.commands import log
from hourline.airflow.settings import Settings
from hourline_core.errors import HourlineError
from hourline_core.feed.positions import ASSETS, read_position, write_position
from hourline_core.feed.told_partitions import Telling, note_telling, read_tellings, told_last
from hourline_core.model import Project, load_project
from hourline_core.model.hours import HOUR, Clock, wall_clock
from hourline_core.model.metric_window import MetricWindow
from hourline_core.model.session_window import SessionWindow

_SECONDS = 5.0
"""The time between two looks for a publication."""


class PublicationTrigger(BaseTrigger):
    """Fires once there is another publication than the one that was told of last."""

    def __init__(self, folder: str, workspace: str, told: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow's
        self.folder, self.workspace, self.told = folder, workspace, told

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Its class, and the arguments that make it again."""
        arguments = {"folder": self.folder, "workspace": self.workspace, "told": self.told}
        return f"{type(self).__module__}.{type(self).__qualname__}", arguments

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Look every few seconds. Tables that cannot be read now are looked at again."""
        project = await asyncio.to_thread(load_project, Path(self.folder), workspace=Path(self.workspace))
        while (newest := await asyncio.to_thread(self._look, project)) == self.told:
            await asyncio.sleep(_SECONDS)
        yield TriggerEvent(newest)  # type: ignore[no-untyped-call]  # Airflow's

    def _look(self, project: Project) -> int:
        from hourline_core.feed.published import newest_publication

        try:
            return newest_publication(project)
        except (HourlineError, OSError):
            return self.told


class WaitForPublication(BaseOperator):
    """Ends once hours were published that no asset has told of. It waits in the triggerer, without a process."""

    def __init__(self, *, settings: Settings, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.folder, self.workspace = settings.folder, settings.workspace

    def execute(self, context: Any) -> None:
        """Look once here, so that what was published in between need not wait. It waits for tables that cannot be read
        now: if the run failed, another one would follow at once.
        """
        from hourline_core.feed.published import newest_publication

        project = load_project(Path(self.folder), workspace=Path(self.workspace))
        told = newest = read_position(project, ASSETS)
        try:
            newest = newest_publication(project)
        except HourlineError as error:
            log.warning("%s", error)
        if newest == told:
            trigger = PublicationTrigger(self.folder, self.workspace, told)
            self.defer(trigger=trigger, method_name=WaitForPublication.resume.__name__)

    def resume(self, context: Any, event: int) -> None:
        """Go on after the wait."""
        log.info("publication %d is new", event)


class Told(TypedDict):
    """What the assets have told, as a ``Telling`` that Airflow passes from task to task."""

    publication: int
    token: str
    at: str
    partitions: dict[str, list[str]]


def tell_assets(settings: Settings, clock: Clock = wall_clock) -> Told:
    """Give the asset of each metric an event for each hour that was published since the last time, and the asset of its
    windows one for each window that has such an hour and is final. It is called in a task with ``settings.outlets`` as
    its outlets. Returns what they tell, for ``confirm_told``.

    An event's ``extra`` has the publication, and what ``told_before`` reads. Airflow has one ``extra`` for all
    partitions of an asset that a task tells.
    """
    from hourline_core.feed.published import published_after
    from serving_layer import connect

    now = clock()
    try:
        project = _project(settings)
        with connect(project) as connection:  # before the hours are read, so that no change is left out next time
            token = connection.token
        published = published_after(project, read_position(project, ASSETS))
        hours: dict[str, list[datetime]] = {}
        for one in published.hours:
            hours.setdefault(one.metric, []).append(one.hour)
        hours |= {name: hours[base] for name, base in settings.over.items() if base in hours}
        windows = {name: _final_windows(project, name, hours[name]) for name in settings.windowed if name in hours}
    except HourlineError as error:
        raise AirflowException(str(error)) from None
    told = [(asset, [_key(hour) for hour in hours[name]]) for name, asset in settings.assets.items() if name in hours]
    told += [(settings.window_assets[name], keys) for name, keys in windows.items() if keys]
    tellings = read_tellings(project, published.up_to, now)
    context: Any = get_current_context()
    for asset, keys in told:
        since = told_last(tellings, asset.name, keys)
        context["outlet_events"][asset].add_partitions(keys)
        context["outlet_events"][asset].extra = {"publication": published.up_to, "since": since}
        log.info("%s: %d partition(s) up to publication %d", asset.name, len(keys), published.up_to)
    # Without partitions on an outlet, Airflow would report a change of the run's own partition.
    context["task"].outlets = [asset for asset, _ in told]
    partitions = {asset.name: keys for asset, keys in told}
    return {"publication": published.up_to, "token": token, "at": now.isoformat(), "partitions": partitions}


def confirm_told(settings: Settings, told: Told) -> None:
    """Note what the assets have told. Airflow has the events by then: a task that is killed before it has ended well is
    tried again, and tells of the same hours again.
    """
    project = _project(settings)
    write_position(project, ASSETS, told["publication"])
    at = datetime.fromisoformat(told["at"])
    note_telling(project, Telling(told["publication"], told["token"], at, told["partitions"]))


def told_before(events: Sequence[Any], partition_key: str) -> str | None:
    """The token with which a partition was told last before these ``events`` of its asset: what is different since then
    is news. None: it was not told before, or too long ago. Then all of it is.
    """
    token: str | None = events[0].extra.get("since", {}).get(partition_key)
    return token


def _project(settings: Settings) -> Project:
    return load_project(Path(settings.folder), workspace=Path(settings.workspace))


def _final_windows(project: Project, name: str, hours: list[datetime]) -> list[str]:
    """The partition keys of the windows of a metric that share time with one of ``hours`` (sorted), and are final."""
    from serving_layer import connect

    first, end = hours[0].isoformat(), (hours[-1] + HOUR).isoformat()
    among = f"metric = '{name}' AND window_end > '{first}' AND window_start < '{end}'"
    with connect(project) as connection:
        query = f"SELECT window_start, window_end FROM windows WHERE {among} AND state = 'final' ORDER BY ALL"
        rows = connection.sql(query).fetchall()
    # The first hour that ends after the window's start is one of the window if it begins before the window's end.
    found = ((start, end, bisect_right(hours, start - HOUR)) for start, end in rows)
    window = project.all_metrics[name].window
    return [_window_key(window, start) for start, end, at in found if at < len(hours) and hours[at] < end]


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
