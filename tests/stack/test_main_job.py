"""The main job on the real broker and Spark: provisional, final, late, recomputed; every answer equals the oracle at
every moment.
"""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

from deltalake import DeltaTable

import serving_layer
from batch_layer.plan import plan, plan_range
from hourline_core.model.hours import HourRange
from tests.support import oracle, parcels
from tests.support.stack_project import StackProject

METRICS = ("flow", "fragile")


def hour(number: int) -> datetime:
    return parcels.BEGIN + timedelta(hours=number)


def test_every_answer_is_exact_at_five_moments(kafka: str, tmp_path: Path) -> None:
    project = parcels.make(tmp_path, kafka, topic="main_job", own=True)

    # All provisional. Bad records and tombstones lie between the events.
    project.send("scans", parcels.scans(project.random, 1200, first_hour=0, hours=5))
    project.send_refused("scans", [b"{", None, b'{"depot": null, "at": "2024-05-06T20:00:00Z"}', None, b""])
    project.send("scans", parcels.scans(project.random, 1000, first_hour=2, hours=3))
    assert len(project.drain()) > 3, "several micro-batches, or this test shows little"
    assert project.check() > 1000
    assert wanted(project) == expected_plan(project)
    # The events end late in hour 4, which closes all hours but the last two.
    assert max(wanted(project)) == (hour(2), "fragile")

    # Some hours final, others not; one hour of one metric alone.
    project.recompute()
    assert project.check() > 1000
    assert wanted(project) == {}
    project.recompute(plan_range(project.project, HourRange(hour(3), hour(4)), ["fragile"]))
    assert project.check() > 1000

    # Late events in covered hours, among them repetitions of what is covered; and new ones, which close more hours,
    # among them some without events.
    repeated = [record.body for record in project.sent["scans"][:40] if record.body]
    late = parcels.scans(project.random, 300, first_hour=1, hours=1)
    project.send("scans", [*late, *repeated, *parcels.scans(project.random, 300, first_hour=8, hours=2)])
    project.drain()
    assert project.check() > 1000
    assert wanted(project) == expected_plan(project)
    assert wanted(project)[hour(1), "flow"] == "revised"
    assert {wanted(project)[hour(number), "flow"] for number in (4, 5, 6)} == {"never covered"}

    # Recomputed: of each id the first counts, whatever came late.
    project.recompute()
    assert project.check() > 1000
    assert wanted(project) == {}

    # Recomputed twice: nothing changes.
    before = exact_answers(project)
    project.recompute(plan_range(project.project, HourRange(hour(0), hour(6))))
    assert exact_answers(project) == before
    # Hours without events need no Spark, and their empty results have the columns that Spark has made.
    columns = columns_of_final(project)
    silent = plan_range(project.project, HourRange(hour(5), hour(7)))
    with patch("batch_layer.recompute.spark_session", side_effect=AssertionError("Spark was started")):
        (done,) = project.recompute(silent)
    assert (len(done.published), done.blocked, done.events) == (4, [], 0)
    assert columns_of_final(project) == columns
    assert exact_answers(project) == before
    assert project.check() > 1000
    check_day_sums(project)


def wanted(project: StackProject) -> dict[tuple[datetime, str], str]:
    return {(item.hour, item.metric): item.reason for item in plan(project.project)}


def expected_plan(project: StackProject) -> dict[tuple[datetime, str], str]:
    events, rule = project.events("scans"), project.rules["scans"]
    reasons = {"provisional": "never covered", "revised": "revised"}
    closed = oracle.closed_hours(rule, events)
    return {
        (hour, metric): reasons[state]
        for metric in METRICS
        for hour, state in oracle.states(rule, metric, events, project.cutoffs).items()
        if hour in closed and state in reasons
    }


def columns_of_final(project: StackProject) -> dict[str, list[tuple[str, str]]]:
    """By table, the names and types of the columns."""
    paths = sorted(Path(project.project.tables, "final").glob("*/*"))
    tables = {path.parent.name: DeltaTable(path).to_pyarrow_table().schema for path in paths}
    assert tables.keys() == set(METRICS)
    return {metric: [(column.name, str(column.type)) for column in schema] for metric, schema in tables.items()}


def exact_answers(project: StackProject) -> list[tuple[Any, ...]]:
    """The metric without sums of doubles, whose last digits may differ each time."""
    with serving_layer.connect(project.project) as connection:
        return connection.sql("FROM fragile ORDER BY ALL").fetchall()


def check_day_sums(project: StackProject) -> None:
    """What the hours add up to is the answer for the day; distinct counts merge as sketches."""
    rule, events = project.rules["scans"], project.events("scans")
    of_hours = oracle.answer(rule, "flow", events, project.cutoffs)
    days = {key[0].date() for key in of_hours}
    parcels_of = {day: set[int]() for day in days}
    for event in oracle.counted(rule, "flow", events, project.cutoffs):
        parcels_of[event.hour.date()] |= {event.body["parcel"]} - {None}
    with serving_layer.connect(project.project) as connection:
        sums = connection.sql("SELECT hour::DATE, sum(scans), sum(price) FROM flow GROUP BY 1").fetchall()
        distinct = connection.sql("SELECT hour::DATE, distinct_count(parcels) FROM flow_states GROUP BY 1").fetchall()
    assert len(days) > 1
    assert {day: (scans, price) for day, scans, price in sums} == {
        day: tuple(
            sum(value[name] or 0 for key, value in of_hours.items() if key[0].date() == day)
            for name in ("scans", "price")
        )
        for day in days
    }
    assert dict(distinct) == {day: len(seen) for day, seen in parcels_of.items()}
