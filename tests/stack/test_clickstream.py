"""The example ``examples/clickstream`` on the real stack: visits are all clicks that follow each other, and a source by
arrival counts its records when they come.
"""

import json
import shutil
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import serving_layer
from batch_layer.plan import plan_range
from examples.clickstream.make_clicks import FILE, make_clicks
from hourline_core.model.hours import HourRange, time_text
from tests.support import oracle
from tests.support.oracle import Body, Event, MetricRule, SourceRule
from tests.support.stack_project import StackProject

ORDERS = ("count_if", lambda b: b["ordered"] is not None)
CLICKS = SourceRule(
    time=lambda b: datetime.fromisoformat(b["at"]).astimezone(UTC),
    id=lambda b: b["id"],
    metrics={
        "visits": MetricRule(
            dimensions={"visitor": lambda b: b["visitor"]},
            measures={
                "clicks": ("count", lambda b: 1),
                "landing": ("first", lambda b: b["page"]),
                "exit": ("last", lambda b: b["page"]),
                "orders": ORDERS,
                "orders_per_click": ("share", lambda b: b["ordered"] is not None),
            },
        ),
        "sections": MetricRule(
            where=lambda b: b["page"] != "/",
            dimensions={"visitor": lambda b: b["visitor"], "section": lambda b: b["page"].split("/")[1]},
            measures={"clicks": ("count", lambda b: 1), "pages": ("distinct", lambda b: b["page"])},
        ),
        "days": MetricRule(
            measures={"clicks": ("count", lambda b: 1), "visitors": ("distinct", lambda b: b["visitor"])}
        ),
    },
)
BUSY = MetricRule(measures={"clicks": ("count", lambda b: 1), "orders": ORDERS})
VISIT = timedelta(minutes=30)
GAPS = {
    "visits": (CLICKS.metrics["visits"], VISIT),
    "sections": (CLICKS.metrics["sections"], timedelta(minutes=10)),
    "busy": (BUSY, VISIT),
}
BERLIN, MINUTE = timedelta(hours=2), timedelta(minutes=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
PINGS = {
    "sources/pings.yaml": "topic: pings\nfields: {name: string}\nevent_time: record.arrived\nclock: wall\n",
    "metrics/by_arrival.yaml": "source: pings\nwindow: 5m\ndimensions: [name]\nmeasures: {pings: count}\n",
}


def split(events: list[Event], gap: timedelta) -> list[list[Event]]:
    """The events of one group, one session after the other."""
    found: list[list[Event]] = []
    for event in sorted(events, key=lambda event: (event.time, event.partition, event.offset)):
        if found and event.time - found[-1][-1].time <= gap:
            found[-1].append(event)
        else:
            found.append([event])
    assert all(one[-1].time - one[0].time < timedelta(hours=24) for one in found)
    return found


def rows_of(rule: MetricRule, keys: tuple[Any, ...], events: list[Event]) -> tuple[Any, ...]:
    return *keys, *(oracle.value(kind, [of(event.body) for event in events]) for kind, of in rule.measures.values())


def seconds_until_order(visit: list[Event]) -> float | None:
    """From the first click of a visit to its first order."""
    ordered = [event.time for event in visit if event.body["ordered"] is not None]
    return (ordered[0] - visit[0].time).total_seconds() if ordered else None


def check_windows(project: StackProject) -> int:
    """Compare all sessions and days with those of the events that count; returns how many there are."""
    events, compared = project.events("clicks"), 0
    with serving_layer.connect(project.project) as connection:
        for metric, (rule, gap) in GAPS.items():
            base = "visits" if metric == "busy" else metric
            groups: dict[tuple[Any, ...], list[Event]] = {}
            for event in oracle.counted(CLICKS, base, events, project.cutoffs):
                groups.setdefault(tuple(of(event.body) for of in rule.dimensions.values()), []).append(event)
            wanted = [
                rows_of(rule, (one[0].time, one[-1].time + gap, *group), one)
                for group, of_group in groups.items()
                for one in split(of_group, gap)
            ]
            columns = ", ".join(["window_start", "window_end", *rule.dimensions, *rule.measures])
            found = connection.sql(f"SELECT {columns} FROM {metric}").fetchall()
            assert sorted(found) == sorted(wanted)
            compared += len(found)
        days: dict[datetime, list[Event]] = {}
        for event in oracle.counted(CLICKS, "days", events, project.cutoffs):
            local = event.time + BERLIN
            days.setdefault(datetime(local.year, local.month, local.day, tzinfo=UTC) - BERLIN, []).append(event)
        found = connection.sql("SELECT window_start, clicks, visitors FROM days").fetchall()
        assert sorted(found) == sorted(rows_of(CLICKS.metrics["days"], (day,), of) for day, of in days.items())
        found = connection.sql("SELECT window_start, visitor, until_order FROM journeys").fetchall()
        visitors = {event.body["visitor"] for event in events}
        counted = list(oracle.counted(CLICKS, "visits", events, project.cutoffs))
        assert sorted(found, key=repr) == sorted(
            [
                (visit[0].time, visitor, seconds_until_order(visit))
                for visitor in visitors
                for visit in split([event for event in counted if event.body["visitor"] == visitor], VISIT)
            ],
            key=repr,
        )
        ends = "FROM visits WHERE last_click + INTERVAL 30 MINUTES <> window_end"
        assert connection.sql(ends).fetchall() == []
    return compared + len(found)


@pytest.fixture(scope="module")
def project(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> StackProject:
    root = tmp_path_factory.mktemp("clickstream") / "clickstream"
    shutil.copytree(FILE.parent, root)
    (root / "hourline.yaml").write_text(
        'kafka: {bootstrap: "${KAFKA}"}\nspark: {master: "local[2]"}\nspeed: {max_records_per_batch: 120}\n'
    )
    for name, text in PINGS.items():
        (root / name).write_text(text)
    source = root / "sources" / "clicks.yaml"
    source.write_text(source.read_text().replace("topic: clicks", "topic: clickstream\npartitions: 2"))
    return StackProject(root, kafka, {"clicks": CLICKS})


def test_the_file_is_what_its_script_makes() -> None:
    assert FILE.read_text().splitlines() == make_clicks()


@pytest.mark.long
def test_visits_are_all_clicks_that_follow_each_other(project: StackProject) -> None:
    clicks: list[Body] = [json.loads(line) for line in make_clicks()]
    for part in (clicks[:180], clicks[180:]):
        project.send("clicks", part)
        project.drain()
        assert check_windows(project) > 20
        assert project.check() > 300
        assert len(project.recompute()) > 0
        assert check_windows(project) > 20
    assert project.check() > 300
    with serving_layer.connect(project.project) as connection:
        long = "SELECT window_start, window_end, visitor, clicks FROM visits WHERE clicks > 16 AND state = 'final'"
        told = "SELECT DISTINCT found FROM quality WHERE metric = 'visits' AND unit = 'window' AND NOT success"
        wanted = {
            f"session {time_text(start)} to {time_text(end)}, visitor {visitor}: clicks: {clicks}"
            for start, end, visitor, clicks in connection.sql(long).fetchall()
        }
        assert {found for (found,) in connection.sql(told).fetchall()} == wanted
        assert len(wanted) == 2


def test_a_source_by_arrival_counts_each_record_when_it_comes(project: StackProject) -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    for _ in range(2):  # A record that is sent again arrives again.
        project.send("pings", [{"name": name} for name in ("a", "b", "a")])
        project.drain()
    arrived = [row["event_time"] for row in project.table("events", "pings")]
    assert before <= min(arrived) < max(arrived) <= datetime.now(UTC)
    wanted = Counter(time - (time - EPOCH) % (5 * MINUTE) for time in arrived)
    assert pings(project) == wanted
    first = before.replace(minute=0, second=0)
    project.recompute(plan_range(project.project, HourRange(first, first + timedelta(hours=3)), ["by_arrival"]))
    assert pings(project) == wanted


def pings(project: StackProject) -> dict[datetime, int]:
    """By the start of its window. None is late."""
    with serving_layer.connect(project.project) as connection:
        assert connection.sql("FROM late_events WHERE source = 'pings'").fetchall() == []
        return dict(connection.sql("SELECT window_start, sum(pings)::INT FROM by_arrival GROUP BY ALL").fetchall())
