"""What the DAG `assets` tells the assets, from real tables. `test_airflow.py` runs it on a real scheduler."""

import asyncio
import errno
from collections import Counter
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, TaskDeferred

import serving_layer
from hourline.airflow import Settings, WaitForPublication, confirm_told, tell_assets, told_before
from hourline.airflow.assets import PublicationTrigger
from hourline_core.feed.followers import report_followers
from hourline_core.feed.positions import ASSETS, read_closed, read_confirmations, read_position
from hourline_core.feed.told_partitions import Telling, note_telling, read_tellings, told_last
from hourline_core.ledger.confirmations import confirm_gap
from hourline_core.model import load_project
from hourline_core.model.hours import Clock, wall_clock
from serving_layer.change_feed import final_windows_of
from serving_layer.connection import Connection
from tests.support.bare_tables import BASE, SHOP, SOURCE, BareTables, hour
from tests.support.project_files import write_project

DAY = range(5, 29)


class Told:
    """What a task tells: by asset its partitions, and which assets are its outlets."""

    def __init__(self) -> None:
        self.partitions: dict[str, list[str]] = {}
        self.outlets: list[Any] = []
        self.events: dict[str, Any] = {}

    def __getitem__(self, asset: Any) -> Any:
        add = partial(self.partitions.__setitem__, asset.name)
        return self.events.setdefault(asset.name, SimpleNamespace(add_partitions=add))


def run(
    tables: BareTables, monkeypatch: pytest.MonkeyPatch, *, is_confirmed: bool = True, clock: Clock = wall_clock
) -> dict[str, list[str]]:
    """What a run of the DAG tells. Without a confirmation, it is killed before that."""
    return run_dag(tables, monkeypatch, is_confirmed=is_confirmed, clock=clock).partitions


def run_dag(
    tables: BareTables, monkeypatch: pytest.MonkeyPatch, *, is_confirmed: bool = True, clock: Clock = wall_clock
) -> Told:
    told = Told()
    monkeypatch.setattr("hourline.airflow.assets.get_current_context", lambda: {"outlet_events": told, "task": told})
    settings = Settings.of_project(str(tables.project.root))
    reached = tell_assets(settings, clock)
    if is_confirmed:
        confirm_told(settings, reached)
    assert sorted(asset.name for asset in told.outlets) == sorted(told.partitions)
    return told


@pytest.fixture
def tables(tmp_path: Path) -> BareTables:
    """A day in New York, which begins at five in UTC, and an hour after it."""
    tables = BareTables(write_project(tmp_path, SHOP), hours=[*DAY, 30, 10, 11])
    tables.start()
    tables.micro_batch(len(DAY) + 1)
    return tables


def keys(*numbers: int) -> list[str]:
    return [f"{hour(number):%Y-%m-%dT%H:%M:%S}" for number in numbers]


def changes_of(tables: BareTables, metric: str, event: Any, key: str) -> list[tuple[Any, ...]]:
    """What a run for a partition reads: what changed in a metric since it was told last."""
    since = told_before([event], key)
    assert since
    with serving_layer.connect(tables.project.root, since=since) as connection:
        query = f"SELECT window_start, before, after FROM changes WHERE metric = '{metric}' ORDER BY ALL"
        return connection.sql(query).fetchall()


def test_an_event_has_the_token_with_which_its_partition_was_told_last(
    tables: BareTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables.publish(*DAY, 30, metrics=["totals"])
    assert run_dag(tables, monkeypatch).events["shop.totals"].extra == {"publication": 1, "since": {}}
    tables.micro_batch(2)  # Late events of hours 10 and 11 count at once.
    tables.publish(30, metrics=["totals"])
    assert run(tables, monkeypatch) == {"shop.totals": keys(30), "shop.by_day": keys(30)}
    tables.publish(11, metrics=["totals"])
    assert "shop.by_day.windows" not in run(tables, monkeypatch), "hour 10 is revised"
    tables.publish(10, metrics=["totals"])
    for is_confirmed in (False, True):
        events = run_dag(tables, monkeypatch, is_confirmed=is_confirmed).events
        assert (hour(10), "1", "2") in changes_of(tables, "totals", events["shop.totals"], *keys(10))
        assert changes_of(tables, "by_day", events["shop.by_day.windows"], "2024-03-01") == [(hour(5), "24", "26")]
    tables.publish(10, 12, metrics=["totals"])
    events = run_dag(tables, monkeypatch).events
    assert changes_of(tables, "by_day", events["shop.by_day.windows"], "2024-03-01") == [], "they were told"
    assert changes_of(tables, "totals", events["shop.totals"], *keys(10)) == [], "also if another hour was not"
    assert (hour(10), "1", "2") in changes_of(tables, "totals", events["shop.totals"], *keys(12))


def test_tokens_that_are_too_old_or_of_deleted_tables_are_not_given(tmp_path: Path) -> None:
    at, kept = datetime(2024, 3, 2, tzinfo=UTC), timedelta(days=7)
    project = load_project(write_project(tmp_path, SHOP))
    for number in range(3):
        days = [str(day) for day in range(300 - 100 * number)]
        note_telling(project, Telling(number + 4, 1, f"p{number + 4}", at + number * kept / 2, {"day": days}))
    tellings = read_tellings(project, 6, 1, at + kept)
    assert [one.token for one in tellings] == ["p5", "p6"]
    tokens = told_last(tellings, "day", [str(day) for day in range(300)])
    assert Counter(tokens.values()) == {"p6": 100, "p5": 100}, "the most recent ones"
    note_telling(project, Telling(6, 2, "p6~g2", at + kept, {"day": ["1"]}))
    assert [one.token for one in read_tellings(project, 6, 2, at + kept)] == ["p5", "p6", "p6~g2"]
    assert read_tellings(project, 3, 2, at + kept) == []
    assert read_tellings(project, 6, 0, at + kept) == []


def test_each_published_hour_is_told_also_of_a_metric_over_another(
    tables: BareTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(tables, monkeypatch) == {}
    tables.publish(5, 6)
    both = keys(5, 6)
    everything = {"shop.totals": both, "shop.odd": both, "shop.by_day": both}
    assert run(tables, monkeypatch, is_confirmed=False) == everything
    assert run(tables, monkeypatch) == everything, "it was not confirmed"
    assert run(tables, monkeypatch) == {}
    tables.publish(7, metrics=["odd"])
    assert run(tables, monkeypatch) == {"shop.odd": keys(7)}


@pytest.mark.parametrize("file", ["assets.json.partial", "assets_told.json.partial"])
def test_a_full_disk_is_told_in_a_sentence_and_nothing_is_lost(
    tables: BareTables, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    write = Path.write_text

    def fail(path: Path, *arguments: Any, **named: Any) -> int:
        if path.name == file:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        return write(path, *arguments, **named)

    tables.publish(5, metrics=["totals"])
    settings = Settings.of_project(str(tables.project.root))
    told = Told()
    monkeypatch.setattr("hourline.airflow.assets.get_current_context", lambda: {"outlet_events": told, "task": told})
    reached = tell_assets(settings)
    with monkeypatch.context() as full, pytest.raises(AirflowException, match=r"^the disk of .* is full; make room"):
        full.setattr(Path, "write_text", fail)
        confirm_told(settings, reached)
    confirm_told(settings, reached)
    assert run(tables, monkeypatch) == {}
    assert read_position(tables.project, ASSETS) == 1
    (telling,) = read_tellings(load_project(tables.project.root), 1, 0, wall_clock())
    assert telling.partitions == {"shop.totals": keys(5), "shop.by_day": keys(5)}, "a run without news changes nothing"


def test_a_window_is_told_when_all_its_hours_are_final_and_again_when_one_was_restated(
    tables: BareTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables.publish(*DAY[:-1], metrics=["totals"])
    assert "shop.by_day.windows" not in run(tables, monkeypatch)
    tables.publish(DAY[-1], metrics=["totals"])
    assert run(tables, monkeypatch)["shop.by_day.windows"] == ["2024-03-01"]
    tables.micro_batch(1)  # a late event
    tables.publish(11, metrics=["totals"])
    assert "shop.by_day.windows" not in run(tables, monkeypatch), "one of its hours is revised"
    tables.publish(10, metrics=["totals"])
    assert run(tables, monkeypatch)["shop.by_day.windows"] == ["2024-03-01"]


def test_an_hour_or_window_that_is_final_by_a_confirmed_gap_alone_is_told_once(
    tables: BareTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    gap = tables.lose(10, 11)
    tables.publish(*DAY, metrics=["totals"])
    tables.publish(*(number for number in DAY if number != 11), metrics=["odd"])
    assert "shop.by_day.windows" not in run(tables, monkeypatch), "two of its hours are incomplete"
    assert run(tables, monkeypatch) == {}
    before = read_position(tables.project, ASSETS), read_confirmations(tables.project, ASSETS)
    confirm_gap(tables.project, SOURCE, gap, "ada", "it was a test", BASE)
    trigger = PublicationTrigger(str(tables.project.root), str(tables.project.workspace), *before)
    assert asyncio.run(first_event(trigger)) == before[0]
    day = {"shop.by_day.windows": ["2024-03-01"]}
    assert [one.gaps for one in report_followers(tables.project)] == [1, 0]
    final = {"shop.totals": keys(10, 11), "shop.by_day": keys(10, 11), "shop.odd": keys(10)}
    assert run(tables, monkeypatch, is_confirmed=False) == final | day
    assert run(tables, monkeypatch) == final | day, "it was not noted"
    assert [one.gaps for one in report_followers(tables.project)] == [0, 0]
    assert run(tables, monkeypatch) == {}


def test_a_window_that_ends_in_a_long_silence_is_told_by_the_clock_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An event of hour 5 lists the hours up to 749. The first two of them belong to the first of April."""
    by_wall = {"sources/clicks.yaml": SHOP["sources/clicks.yaml"].replace("topic:", "clock: wall\n        topic:")}
    tables = BareTables(write_project(tmp_path, SHOP | by_wall), hours=[5, 770])
    tables.start()
    tables.micro_batch(1)
    tables.publish(*range(5, 750), metrics=["totals"])

    def look(number: int, *, is_confirmed: bool = True) -> dict[str, list[str]]:
        return run(tables, monkeypatch, is_confirmed=is_confirmed, clock=lambda: hour(number))

    windows = look(772)["shop.by_day.windows"]
    assert (windows[0], windows[-1], len(windows)) == ("2024-03-01", "2024-03-31", 31)
    closed = {source: moment.isoformat() for source, moment in read_closed(tables.project, ASSETS).items()}
    assert closed == {"clicks": hour(771).isoformat()}
    day = {"shop.by_day.windows": ["2024-04-01"]}
    assert look(773, is_confirmed=False) == day
    assert look(773) == day, "it was not confirmed"
    assert look(350_000) == {}, "the days that lie wholly within 40 years of silence are not told"
    assert changes(tables, 772, 773) == [("by_day", hour(748), hour(772))]
    assert changes(tables, 773, 350_000) == []
    tables.micro_batch(1)  # a late event
    assert look(350_001) == {}, "the day is not final"
    tables.publish(770, 771, metrics=["totals"])
    assert look(350_001) == {"shop.totals": keys(770, 771), "shop.by_day": keys(770, 771)} | day
    monkeypatch.setattr("hourline.airflow.assets._SECONDS", 0)
    place = str(tables.project.root), str(tables.project.workspace)
    trigger = PublicationTrigger(*place, 2, 0, closed, clock=lambda: hour(773))
    assert asyncio.run(first_event(trigger)) == 2


def changes(tables: BareTables, before: int, after: int) -> list[tuple[str, datetime, datetime]]:
    """The windows that `/changes` tells between two times, without a publication."""
    project = load_project(tables.project.root)
    with Connection(project, lambda: hour(before)) as old, Connection(project, lambda: hour(after)) as new:
        return [(one.metric, one.start, one.end) for one in final_windows_of(old, new, [])]


async def first_event(trigger: PublicationTrigger) -> int:
    async for event in trigger.run():
        return int(event.payload)
    raise AssertionError("it ended without an event")


def test_the_trigger_fires_for_a_publication_that_was_not_told(tables: BareTables) -> None:
    tables.publish(5)
    path, arguments = PublicationTrigger(str(tables.project.root), str(tables.project.workspace), 0, 0).serialize()
    assert path == "hourline.airflow.assets.PublicationTrigger"
    assert asyncio.run(first_event(PublicationTrigger(**arguments))) == 1


def test_tables_that_cannot_be_read_are_waited_for(tables: BareTables) -> None:
    tables.publish(5)
    log = Path(tables.project.tables) / "coverage" / "_delta_log" / "00000000000000000000.json"
    log.write_text("{")
    settings = Settings.of_project(str(tables.project.root))
    with pytest.raises(TaskDeferred) as deferred:
        WaitForPublication(task_id="wait", settings=settings).execute({})
    trigger = deferred.value.trigger
    assert isinstance(trigger, PublicationTrigger)
    assert trigger.told == 0
