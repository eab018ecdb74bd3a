"""Tells Airflow's assets which hours were published, whoever has published them: the DAG, a person, or an import. And
which windows a person has made final by confirming a gap.

One run of the DAG `assets` waits for either, tells of it, and confirms that. So no two runs tell of the same hours, and
an Airflow that was away tells of all that was published meanwhile.

The tables are read by packages that take long to import, and Airflow imports this file with each DAG file.
"""

import asyncio
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
from hourline_core.feed.positions import ASSETS, read_confirmations, read_position, write_position
from hourline_core.feed.told_partitions import Telling, note_telling, read_tellings, told_last
from hourline_core.model import Project, load_project
from hourline_core.model.hours import Clock, wall_clock
from hourline_core.model.metric_window import MetricWindow
from hourline_core.model.session_window import SessionWindow

_SECONDS = 5.0
"""The time between two looks for a publication."""


class PublicationTrigger(BaseTrigger):
    """Fires once there is another publication, or another confirmed gap, than those that were told of last."""

    def __init__(self, folder: str, workspace: str, told: int, confirmed: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow's
        self.folder, self.workspace, self.told, self.confirmed = folder, workspace, told, confirmed

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Its class, and the arguments that make it again."""
        arguments = {name: getattr(self, name) for name in ("folder", "workspace", "told", "confirmed")}
        return f"{type(self).__module__}.{type(self).__qualname__}", arguments

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Look every few seconds. Tables that cannot be read now are looked at again."""
        project = await asyncio.to_thread(load_project, Path(self.folder), workspace=Path(self.workspace))
        told = (self.told, self.confirmed)
        while (newest := await asyncio.to_thread(self._look, project)) == told:
            await asyncio.sleep(_SECONDS)
        yield TriggerEvent(newest[0])  # type: ignore[no-untyped-call]  # Airflow's

    def _look(self, project: Project) -> tuple[int, int]:
        try:
            return _newest(project)
        except (HourlineError, OSError):
            return self.told, self.confirmed


def _newest(project: Project) -> tuple[int, int]:
    """The newest publication, and the newest version of the confirmed gaps. Raises TableError."""
    from hourline_core.feed.confirmed_gaps import newest_confirmation
    from hourline_core.feed.published import newest_publication

    return newest_publication(project), newest_confirmation(project)


class WaitForPublication(BaseOperator):
    """Ends once hours were published, or a gap was confirmed, that no asset has told of. It waits in the triggerer,
    without a process.
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
            trigger = PublicationTrigger(self.folder, self.workspace, *told)
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


def tell_assets(settings: Settings, clock: Clock = wall_clock) -> Told:
    """Give the asset of each metric an event for each hour that was published since the last time, and the asset of its
    windows one for each window that has such an hour, or one of a gap that was confirmed since, and is final. It is
    called in a task with ``settings.outlets`` as its outlets. Returns what they tell, for ``confirm_told``.

    An event's ``extra`` has the publication, and what ``told_before`` reads. Airflow has one ``extra`` for all
    partitions of an asset that a task tells.
    """
    from hourline_core.feed.confirmed_gaps import confirmed_after
    from hourline_core.feed.published import published_after
    from serving_layer import connect
    from serving_layer.confirmed_hours import confirmed_hours

    now = clock()
    try:
        project = _project(settings)
        gaps = confirmed_after(project, read_confirmations(project, ASSETS))
        with connect(project) as connection:  # before the hours are read, so that no change is left out next time
            token, confirmed = connection.token, confirmed_hours(connection, gaps)
        published = published_after(project, read_position(project, ASSETS))
        hours: dict[str, list[datetime]] = {}
        for one in published.hours:
            hours.setdefault(one.metric, []).append(one.hour)
        hours |= {name: hours[base] for name, base in settings.over.items() if base in hours}
        changed = {
            name: {*hours.get(name, ()), *confirmed.get(project.base_of(name), ())} for name in settings.windowed
        }
        windows = {name: _final_windows(project, name, sorted(of)) for name, of in changed.items() if of}
    except HourlineError as error:
        raise AirflowException(str(error)) from None
    told = [(asset, [_key(hour) for hour in hours[name]]) for name, asset in settings.assets.items() if name in hours]
    told += [(settings.window_assets[name], keys) for name, keys in windows.items() if keys]
    tellings = read_tellings(project, published.up_to, gaps.up_to, now)
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
    }


def confirm_told(settings: Settings, told: Told) -> None:
    """Note what the assets have told. Airflow has the events by then: a task that is killed before it has ended well is
    tried again, and tells of the same hours again.
    """
    project = _project(settings)
    write_position(project, ASSETS, told["publication"], told["confirmations"])
    at = datetime.fromisoformat(told["at"])
    note_telling(project, Telling(told["publication"], told["confirmations"], told["token"], at, told["partitions"]))


def told_before(events: Sequence[Any], partition_key: str) -> str | None:
    """The token with which a partition was told last before these ``events`` of its asset: what is different since then
    is news. None: it was not told before, or too long ago. Then all of it is.
    """
    token: str | None = events[0].extra.get("since", {}).get(partition_key)
    return token


def _project(settings: Settings) -> Project:
    return load_project(Path(settings.folder), workspace=Path(settings.workspace))


def _final_windows(project: Project, name: str, hours: list[datetime]) -> list[str]:
    """The partition keys of the final windows of a metric that share time with one of ``hours`` (sorted)."""
    from serving_layer import connect
    from serving_layer.final_windows import final_windows

    with connect(project) as connection:
        found = final_windows(connection, name, hours)
    return [_window_key(project.all_metrics[name].window, start) for start, _ in found]


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
