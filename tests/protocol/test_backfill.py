"""A backfill that was interrupted goes on where it stopped, and says how long it will take."""

import json
from datetime import timedelta
from pathlib import Path
from unittest.mock import patch

import pytest

from batch_layer.backfill import Backfill, jobs_of, plan_backfill
from batch_layer.estimate import estimate
from batch_layer.plan import plan
from hourline_core.errors import TableError
from hourline_core.model.hours import HourRange
from tests.support.bare_tables import BareTables, hour

ALL = HourRange(hour(0), hour(6))


def test_a_backfill_goes_on_where_it_was_interrupted(tmp_path: Path) -> None:
    tables = started(tmp_path, [0, 1, 2, 3, 0, 5])
    tables.publish(0, 1)  # covered before: to be done all the same
    planned = plan_backfill(tables.project, ALL)
    assert hours_of(planned) == {"totals": [0, 1, 2, 3, 4, 5], "odd": [0, 1, 2, 3, 4, 5]}, "an hour without events, too"
    assert not planned.resumed
    interrupt(planned, lambda: tables.publish(0, 2, metrics=["totals"]))

    tables.publish(3, metrics=["odd"])  # by the hourly recompute
    planned = plan_backfill(tables.project, ALL)
    assert planned.resumed
    assert hours_of(planned) == {"totals": [1, 3, 4, 5], "odd": [0, 1, 2, 4, 5]}
    assert plan_backfill(tables.project, HourRange(hour(0), hour(2))).resumed is False, (
        "another range, another backfill"
    )
    assert plan_backfill(tables.project, ALL, ["odd"]).resumed is False, "other metrics, another backfill"

    interrupt(planned, lambda: tables.publish(*range(6)))
    planned = plan_backfill(tables.project, ALL)
    assert planned.left == []
    planned.run()
    assert not plan_backfill(tables.project, ALL).resumed, "it was done"
    assert len(plan_backfill(tables.project, ALL).left) == 12
    tables.check()


def test_a_late_event_does_not_make_an_hour_be_done_twice(tmp_path: Path) -> None:
    tables = BareTables(tmp_path, [0, 1, 5, 0])
    tables.start()
    tables.micro_batch(3)
    interrupt(plan_backfill(tables.project, ALL), lambda: tables.publish(0))
    tables.micro_batch(1)
    assert hours_of(plan_backfill(tables.project, ALL)) == {"totals": [1, 2, 3, 4, 5], "odd": [1, 2, 3, 4, 5]}
    assert next((item.hour, item.reason) for item in plan(tables.project)) == (hour(0), "revised")


def test_open_hours_are_skipped_also_when_it_is_planned_again(tmp_path: Path) -> None:
    tables = BareTables(tmp_path, [0, 1, 3])
    tables.start()
    tables.micro_batch(3)
    planned = plan_backfill(tables.project, ALL, ["totals"], skip_open=True)
    assert hours_of(planned) == {"totals": [0, 1], "odd": []}
    assert [item.hour for item in planned.skipped] == [hour(2), hour(3)]
    assert planned.plan_again
    assert planned.plan_again() == planned.left
    every = plan_backfill(tables.project, ALL, ["totals"])
    assert (hours_of(every), every.skipped) == ({"totals": [0, 1, 2, 3], "odd": []}, [])


def test_what_it_remembers_must_be_readable(tmp_path: Path) -> None:
    tables = started(tmp_path, [0])
    planned = plan_backfill(tables.project, ALL)
    interrupt(planned, lambda: None)
    assert planned.file
    planned.file.write_text('{"begun": ')
    with pytest.raises(TableError, match="delete it to begin again"):
        plan_backfill(tables.project, ALL)


def test_an_estimate_by_the_pace_of_past_recomputes(tmp_path: Path) -> None:
    tables = started(tmp_path, [0, 1, 2, 2, 2])
    assert estimate(tables.project, jobs_of(tables.project, plan_backfill(tables.project, ALL).wanted)) is None
    tables.publish(0, 1)
    left = plan_backfill(tables.project, ALL).left
    assert estimate(tables.project, jobs_of(tables.project, left)) is None, "it was not timed"
    assert sum(item.events for item in left) == 10
    assert len({item.hour for item in left if not item.events}) == 3
    for events, seconds in ((100, 7.0), (300, 11.0)):  # 5 s a job, 20 ms an event
        tables.publish(0, cost={"events": events, "seconds": seconds})
    assert len(jobs_of(tables.project, left)) == 1
    found = estimate(tables.project, jobs_of(tables.project, left))
    assert found is not None
    assert abs(found.total_seconds() - 5.2) < 1e-6
    # One without events has not used Spark, and says nothing about those that do.
    tables.publish(0, cost={"events": 0, "seconds": 0.5})
    assert estimate(tables.project, jobs_of(tables.project, left)) == found
    # One that recomputed much in no time does not make anything take less than none.
    tables.publish(0, cost={"events": 100_000, "seconds": 0.1})
    found = estimate(tables.project, jobs_of(tables.project, left))
    assert found is not None
    assert 0 < found.total_seconds() < 11
    assert estimate(tables.project, jobs_of(tables.project, [item for item in left if not item.events])) == timedelta(0)


def started(folder: Path, hours: list[int]) -> BareTables:
    """Tables with these events, all of which are closed."""
    tables = BareTables(folder, [*hours, 30])
    tables.start()
    tables.micro_batch(len(hours) + 1)
    return tables


def interrupt(planned: Backfill, after: object) -> None:
    """Run it until ``after`` has been done."""

    def recompute(*arguments: object, **options: object) -> None:
        assert callable(after)
        after()
        raise KeyboardInterrupt

    with patch("batch_layer.backfill.recompute", recompute), pytest.raises(KeyboardInterrupt):
        planned.run()
    assert planned.file
    assert set(json.loads(planned.file.read_text())) == {"begun", "pinned"}


def hours_of(planned: Backfill) -> dict[str, list[int]]:
    return {
        metric: [
            hours for hours in range(6) for item in planned.left if (item.metric, item.hour) == (metric, hour(hours))
        ]
        for metric in ("totals", "odd")
    }
