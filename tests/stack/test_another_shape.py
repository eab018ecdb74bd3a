"""A project of another shape: nested fields, no ids, local times over both changes of the clocks, epoch milliseconds, a
wall clock, huge numbers, windows that begin within an hour.
"""

import random
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

import serving_layer
from batch_layer.plan import PlannedHour, plan
from serving_layer.reports.lineage import explain_number
from tests.support import oracle
from tests.support.oracle import Body, MetricRule, SourceRule
from tests.support.project_files import write_project
from tests.support.stack_project import StackProject

FILES = {
    "hourline.yaml": """\
        kafka: {bootstrap: "${KAFKA}"}
        spark: {master: "local[2]"}
        speed: {max_records_per_batch: 300}
        batch: {hours_per_job: 4}
        """,
    "sources/meters.yaml": """\
        topic: another_meters
        fields:
          Meter: "struct<id: string, place: struct<town: string, floor: int>, tags: array<string>>"
          readings: array<double>
          limits: map<string, long>
          total: {type: long, required: true}
          cost: decimal(28,9)
          open: boolean
          measured: string
          day: date
        event_time:
          expression: measured
          encoding: local
          zone: Africa/Cairo
        derived:
          town: Meter.place.town
          top: array_max(readings)
        grace: 2h
        partitions: 2
        """,
    "sources/ticks.yaml": """\
        topic: another.ticks
        # From `key` on, all have names that Hourline uses itself somewhere; those from `Hour` on, the archive does.
        fields:
          ms: long
          symbol: string
          price: float
          Ratio: double
          key: string
          value: double
          reason: {type: string, required: true}
          arrived: long
          outcome: string
          repeated: boolean
          late: long
          started: long
          _first: long
          Hour: int
          event_time: long
          topic: string
          topic_id: long
          partition: double
          offset: string
          sequence: long
          duplicate: boolean
        expectations:
          - expect_column_values_to_be_between: {column: Hour, min_value: 0, max_value: 23}
          - expect_column_values_to_not_be_null: {column: offset}
        derived: {id_hash: arrived + 1, _counts: late is null}
        event_time: {expression: ms, encoding: epoch_milliseconds}
        clock: wall
        grace: 30m
        """,
    "metrics/by_town.yaml": """\
        source: meters
        dimensions: [town, {floor: Meter.place.floor}, open, {tags: Meter.tags}]
        measures:
          meters: distinct(Meter.id)
          readings: sum(size(readings))
          top: max(top)
          total: sum(total)
          mean_total: mean(total)
          cost: sum(cost)
          last_day: max(day)
          first_town: min(town)
        """,
    "metrics/everything.yaml": """\
        source: meters
        window: {size: 1 day, zone: Asia/Kolkata}
        measures:
          n: count
          total: sum(total)
          least: min(total)
          open: sum(open)
          limit: max(limits['high'])
          never: sum(if(total is null, total, null))
        """,
    "metrics/symbols.yaml": """\
        source: ticks
        window: 20m
        dimensions: {symbol: symbol, up: Ratio > 1}
        measures: {n: count, low: min(price), high: max(price), mean_price: mean(price), ratio: mean(Ratio), prices: distinct(price)}
        where: price > 0 or price is null
        """,
    "metrics/archive_names.yaml": """\
        source: ticks
        dimensions: {topic: topic, part: partition, hour_of_day: hour}
        where: offset <> 'none'
        measures:
          event_time: sum(event_time)
          topic_id: max(topic_id)
          offset: min(offset)
          numbers: distinct(sequence)
          duplicate: sum(duplicate)
        """,
    "metrics/own_names.yaml": """\
        source: ticks
        dimensions: {in_time: _counts, outcome: outcome}
        measures:
          key: min(key)
          value: max(value)
          reason: distinct(reason)
          arrived: sum(arrived)
          repeated: sum(repeated)
          started: max(started)
          first: sum(_first)
          id_hash: sum(id_hash)
        """,
}
CAIRO, KOLKATA = ZoneInfo("Africa/Cairo"), ZoneInfo("Asia/Kolkata")
NOW = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
TICKS_BEGIN = NOW - timedelta(days=1)
"""By wall time, all hours since then are there."""
TOWNS = [
    "Zürich",
    "東京",
    "🚀",
    "é",
    "e\u0301",
    "",
    " ",
    "o'Brien",
    'say "hi"',
    "back\\slash",
    "nul\u0000l",
    "line\nbreak",
    None,
]


def local_time(body: Body) -> datetime:
    return datetime.fromisoformat(body["measured"]).replace(tzinfo=CAIRO).astimezone(UTC)


def meter(*path: str) -> Any:
    def value(body: Body) -> Any:
        found: Any = body["Meter"]
        for name in path:
            found = None if found is None else found[name]
        return found

    return value


def cost(body: Body) -> Decimal | None:
    return None if body["cost"] is None else Decimal(body["cost"])


METERS = SourceRule(
    time=local_time,
    grace=timedelta(hours=2),
    metrics={
        "by_town": MetricRule(
            dimensions={
                "town": meter("place", "town"),
                "floor": meter("place", "floor"),
                "open": lambda b: b["open"],
                "tags": meter("tags"),
            },
            measures={
                "meters": ("distinct", meter("id")),
                # In Spark without ANSI mode the size of null is -1.
                "readings": ("sum", lambda b: -1 if b["readings"] is None else len(b["readings"])),
                "top": ("max", lambda b: max((x for x in b["readings"] or [] if x is not None), default=None)),
                "total": ("sum", lambda b: b["total"]),
                "mean_total": ("mean", lambda b: b["total"]),
                "cost": ("sum", cost),
                "last_day": ("max", lambda b: b["day"] and date.fromisoformat(b["day"])),
                "first_town": ("min", meter("place", "town")),
            },
        ),
        "everything": MetricRule(
            measures={
                "n": ("count", lambda b: 1),
                "total": ("sum", lambda b: b["total"]),
                "least": ("min", lambda b: b["total"]),
                "open": ("sum", lambda b: None if b["open"] is None else int(b["open"])),
                "limit": ("max", lambda b: (b["limits"] or {}).get("high")),
                "never": ("sum", lambda b: None),
            }
        ),
    },
)
TICKS = SourceRule(
    time=lambda b: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=b["ms"]),
    grace=timedelta(minutes=30),
    metrics={
        "symbols": MetricRule(
            where=lambda b: b["price"] is None or b["price"] > 0,
            dimensions={
                "symbol": lambda b: b["symbol"],
                "up": lambda b: None if b["Ratio"] is None else b["Ratio"] > 1,
            },
            measures={
                "n": ("count", lambda b: 1),
                "low": ("min", lambda b: b["price"]),
                "high": ("max", lambda b: b["price"]),
                "mean_price": ("mean", lambda b: b["price"]),
                "ratio": ("mean", lambda b: b["Ratio"]),
                "prices": ("distinct", lambda b: b["price"]),
            },
        ),
        "archive_names": MetricRule(
            dimensions={
                "topic": lambda b: b["topic"],
                "part": lambda b: b["partition"],
                "hour_of_day": lambda b: b["Hour"],
            },
            where=lambda b: b["offset"] != "none",
            measures={
                "event_time": ("sum", lambda b: b["event_time"]),
                "topic_id": ("max", lambda b: b["topic_id"]),
                "offset": ("min", lambda b: b["offset"]),
                "numbers": ("distinct", lambda b: b["sequence"]),
                "duplicate": ("sum", lambda b: None if b["duplicate"] is None else int(b["duplicate"])),
            },
        ),
        "own_names": MetricRule(
            dimensions={"in_time": lambda b: b["late"] is None, "outcome": lambda b: b["outcome"]},
            measures={
                "key": ("min", lambda b: b["key"]),
                "value": ("max", lambda b: b["value"]),
                "reason": ("distinct", lambda b: b["reason"]),
                "arrived": ("sum", lambda b: b["arrived"]),
                "repeated": ("sum", lambda b: None if b["repeated"] is None else int(b["repeated"])),
                "started": ("max", lambda b: b["started"]),
                "first": ("sum", lambda b: b["_first"]),
                "id_hash": ("sum", lambda b: None if b["arrived"] is None else b["arrived"] + 1),
            },
        ),
    },
)


@pytest.mark.long
def test_another_shape_of_project_gives_exact_answers_too(kafka: str, tmp_path: Path) -> None:
    project = StackProject(write_project(tmp_path, FILES), kafka, {"meters": METERS, "ticks": TICKS})
    rand = random.Random(11)  # noqa: S311 (the same numbers each time)
    # In 2010, the clocks went forward on 10 September and back on 1 October, at midnight: one local hour is not there,
    # and one is there twice.
    for begin in ("2010-09-09T22:00", "2010-09-30T21:00"):
        project.send("meters", [reading(rand, begin, minutes=4 * 60) for _ in range(200)])
    project.send("ticks", [tick(rand) for _ in range(200)])
    project.send_refused("ticks", [b'{"ms": 1715000000000, "key": "a", "value": 1, "arrived": 1}'])
    project.drain()
    assert project.check() > 1000
    (rejected,) = project.table("rejected", "ticks")
    assert (rejected["reason"], rejected["key"]) == ("required field 'reason' is missing or null", None)

    # Wall time closes the ticks, event time the meters.
    first = min(event.hour for event in project.events("ticks"))
    before, after = (first + timedelta(minutes=90, microseconds=micros) for micros in (-1, 0))
    assert {item.hour for item in plan(project.project, ["symbols"], clock=lambda: before)} == set()
    assert {item.hour for item in plan(project.project, ["symbols"], clock=lambda: after)} == {first}
    closed = oracle.closed_hours(METERS, project.events("meters"))
    assert {item.hour for item in plan(project.project) if item.source == "meters"} == closed

    done = project.recompute(few_without_events(project))
    assert len(done) > 2, "several jobs, of four hours each"
    assert project.check() > 1000

    project.send("meters", [reading(rand, "2010-09-30T22:00", minutes=180) for _ in range(100)])
    project.send("ticks", [tick(rand) for _ in range(100)])
    project.drain()
    assert project.check() > 1000
    project.recompute(few_without_events(project))
    assert project.check() > 1000
    with serving_layer.connect(project.project) as connection:
        days = connection.sql("SELECT window_start, n FROM everything").fetchall()
        thirds = connection.sql("SELECT window_start, sum(n) FROM symbols GROUP BY window_start").fetchall()
        explained = {
            ("outcome", "rejected"): explain_number(connection, "own_names", first, {"outcome": "rejected"}),
            ("topic", "b"): explain_number(connection, "archive_names", first, {"topic": "b"}),
        }
        fields = connection.sql(
            'SELECT hour, event_time, topic, topic_id, partition, "offset", sequence, duplicate FROM events_ticks '
            "WHERE _hourline_topic = 'another.ticks' AND NOT _hourline_duplicate AND _hourline_hour IS NOT NULL"
        ).fetchall()
    ticks = project.events("ticks")
    of_kolkata = (event.time.astimezone(KOLKATA).date() for event in project.events("meters"))
    assert Counter({start.astimezone(KOLKATA).date(): n for start, n in days}) == Counter(of_kolkata)
    counted = (event.time for event in ticks if event.body["price"] is None or event.body["price"] > 0)
    assert Counter(dict(thirds)) == Counter(
        time.replace(minute=time.minute // 20 * 20, second=0, microsecond=0) for time in counted
    )
    for (field, value), explanation in explained.items():
        of_cell = [event for event in ticks if (event.hour, event.body[field]) == (first, value)]
        assert explanation.events and explanation.events.events == len(of_cell) > 0
    names = ("Hour", "event_time", "topic", "topic_id", "partition", "offset", "sequence", "duplicate")
    assert Counter(fields) == Counter(tuple(event.body[name] for name in names) for event in ticks)


def few_without_events(project: StackProject) -> list[PlannedHour]:
    """What is planned, with only a few of the hundreds of hours in which nothing came."""
    planned = plan(project.project)
    silent = sorted({item.hour for item in planned if not item.events})
    assert len(silent) > 400
    return [item for item in planned if item.events or item.hour in silent[:4]]


def reading(rand: random.Random, begin: str, minutes: int) -> Body:
    at = datetime.fromisoformat(begin) + timedelta(microseconds=rand.randrange(minutes * 60_000_000))
    return {
        "Meter": maybe(
            rand,
            {
                "id": maybe(rand, f"m{rand.randrange(50)}"),
                "place": maybe(rand, {"town": rand.choice(TOWNS), "floor": maybe(rand, rand.randrange(2))}),
                "tags": maybe(rand, rand.choice([[], ["a"], ["a", None], ["a", "b"]])),
            },
        ),
        "readings": maybe(rand, [maybe(rand, rand.uniform(-5, 5)) for _ in range(rand.randrange(3))]),
        "limits": maybe(rand, rand.choice([{}, {"high": rand.randrange(100)}, {"high": None, "low": 1}])),
        "total": rand.choice([2**62, 2**63 - 1, -(2**63), 2**62 + rand.randrange(1000), rand.randrange(100)]),
        "cost": maybe(rand, f"{rand.randrange(10**18)}.{rand.randrange(10**9):09}"),
        "open": maybe(rand, rand.random() < 0.5),
        "measured": rand.choice([f"{at:%Y-%m-%dT%H:%M:%S.%f}", f"{at:%Y-%m-%d %H:%M:00}"]),
        "day": maybe(rand, f"{at:%Y-%m-%d}"),
    }


def tick(rand: random.Random) -> Body:
    return {
        "ms": int(TICKS_BEGIN.timestamp()) * 1000 + rand.randrange(3 * 3_600_000),
        "symbol": rand.choice(["ÄÖÜ", "X", None]),
        # Quarters, which 32 bits hold exactly.
        "price": maybe(rand, rand.randrange(-20, 400) / 4),
        "Ratio": maybe(rand, rand.uniform(0.5, 2)),
        "key": maybe(rand, rand.choice("abc")),
        "value": maybe(rand, rand.randrange(100) / 4),
        "reason": rand.choice(["sold", "bought"]),
        "outcome": maybe(rand, rand.choice(["accepted", "rejected", "tombstone"])),
        "repeated": maybe(rand, rand.random() < 0.5),
        **{name: maybe(rand, rand.randrange(1000)) for name in ("arrived", "late", "started", "_first")},
        **{name: maybe(rand, rand.randrange(1000)) for name in ("event_time", "topic_id", "sequence")},
        "Hour": maybe(rand, rand.randrange(24)),
        "topic": maybe(rand, rand.choice("ab")),
        "partition": maybe(rand, rand.randrange(3) / 2),
        "offset": rand.choice(["none", "some"]),
        "duplicate": maybe(rand, rand.random() < 0.5),
    }


def maybe(rand: random.Random, value: Any) -> Any:
    return None if rand.random() < 0.1 else value
