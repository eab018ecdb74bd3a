"""Events meet the rows that Kafka Streams' joins with tables give them, until a recompute gives them the newest rows.

The differences are by design. docs/concepts/compared-with.md has their numbers.
"""

import json
import random
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pytest

import serving_layer
from batch_layer.plan import plan_range
from batch_layer.recompute import recompute
from benchmarks.peers.streams import WITH_ROCKSDB, Event, Row, join
from hourline import Project, load_project
from hourline_core.model.hours import HourRange
from hourline_core.runtime.lease import lease
from speed_layer.import_files import find_history, import_files
from speed_layer.spark_session import speed_session
from tests.support.kafka_streams import iso_time, milliseconds, skip_without, stated_numbers
from tests.support.project_files import write_project

# In CI, test_source_as_table.py and test_lookups.py compare with plain Python.
pytestmark = pytest.mark.long

BASE = datetime(2026, 3, 2, tzinfo=UTC)
DAYS, ROUNDS, OF_ROUND = 3, 4, 100
TAILS = [f"N{number}" for number in range(12)]
MAKERS = ["Airbus", "Boeing", "Embraer", None]
HALF_HOUR = timedelta(minutes=30)
RETENTION = timedelta(days=1)
LOOKUPS = ("newest", "valid")
FLIGHTS = """
fields: {number: int, tail: string, at: timestamp}
event_time: at
grace: 0s
lookups:
  newest: {lookup: plane, key: tail}
  valid: {lookup: lease, key: tail}
"""
FILES = {
    "hourline.yaml": "",
    "sources/flights.yaml": f"topic: flights{FLIGHTS}",
    **{
        f"sources/with_{lookup}.yaml": f"topic: {lookup}{FLIGHTS}where: {lookup}.tail IS NOT NULL\n"
        for lookup in LOOKUPS
    },
    "lookups/plane.yaml": "table: planes.csv\nkey: tail\ncolumns: {tail: string, maker: string}\n",
    "lookups/lease.yaml": """
        table: leases.csv
        key: tail
        columns: {tail: string, maker: string, since: timestamp, until: timestamp}
        valid_from: since
        valid_to: until
        """,
    "metrics/met.yaml": """
        source: flights
        dimensions: {number: number, newest: newest.maker, valid: valid.maker}
        measures: {flights: count}
        """,
    **{
        f"metrics/met_{lookup}.yaml": f"""
        source: with_{lookup}
        dimensions: {{number: number, maker: {lookup}.maker}}
        measures: {{flights: count}}
        """
        for lookup in LOOKUPS
    },
}
Values = Mapping[int, str | None]
"""Those that events have met, by the number of the event."""


class Round(NamedTuple):
    """What comes together: changes of the table, then events."""

    changes: Sequence[Row]
    """A time is that from which the value is the one of its key. It may be earlier than that of other changes."""
    events: Sequence[Event]


class Met(NamedTuple):
    """The values that events have met, in a left join and in an inner one."""

    newest: Values
    valid: Values
    inner_newest: Values
    inner_valid: Values


def make_rounds() -> list[Round]:
    """Events out of order, some with a key that is null or unknown, and changes that are known after later ones. Times
    are half hours, so that many events come just when a row begins.
    """
    choice = random.Random(142)  # noqa: S311 (the same each time)

    def moment() -> int:
        return milliseconds(BASE + choice.randrange(DAYS * 48) * HALF_HOUR)

    return [
        Round(
            [Row(choice.choice(TAILS), choice.choice(MAKERS), moment()) for _ in range(8)],
            [Event(choice.choice([*TAILS, "N99", None]), moment()) for _ in range(OF_ROUND)],
        )
        for _ in range(ROUNDS)
    ]


@pytest.fixture(scope="module")
def rounds() -> list[Round]:
    return make_rounds()


@pytest.fixture(scope="module")
def by_kafka_streams(rounds: list[Round]) -> Mapping[str, Values]:
    """The values of each kind of join. ``first``: all changes come before the events. ``in order``: all come in the order
    of their times.
    """
    skip_without(WITH_ROCKSDB)
    in_turn: list[Row | Event] = []
    for one in rounds:
        in_turn += one.changes
        in_turn += one.events
    first = sorted(in_turn, key=lambda record: isinstance(record, Event))
    forever = milliseconds(timedelta(days=99))
    kinds = {
        "global": "global",
        "table": "left",
        "versioned": f"left,{forever}",
        "inner table": "inner",
        "inner versioned": f"inner,{forever}",
    }
    cases: dict[str, tuple[str, Sequence[Row | Event]]] = {kind: (table, in_turn) for kind, table in kinds.items()}
    cases |= {f"{kind} first": (table, first) for kind, table in kinds.items()}
    # A store that forgets takes no change that is older than what it keeps, so they come in the order of their times.
    by_time = sorted(first, key=lambda record: (isinstance(record, Event), isinstance(record, Row) and record.time))
    cases["retention"] = (f"left,{milliseconds(RETENTION)}", by_time)
    # A row counts for the events of its own time.
    in_order = sorted(in_turn, key=lambda record: (record.time, isinstance(record, Event)))
    ordered = {f"{kind} in order": (kinds[kind], in_order) for kind in ("inner table", "inner versioned")}
    found = dict(zip([*cases, *ordered], join([*cases.values(), *ordered.values()]), strict=True))
    events = [event for one in rounds for event in one.events]
    numbers = sorted(range(len(events)), key=lambda number: events[number].time)
    return found | {case: {numbers[at]: value for at, value in found[case].items()} for case in ordered}


@pytest.fixture(scope="module")
def by_hourline(rounds: list[Round], tmp_path_factory: pytest.TempPathFactory) -> tuple[Met, Met]:
    """What the events have met when they were read, and once all hours were recomputed."""
    root = write_project(tmp_path_factory.mktemp("air"), FILES)
    project = load_project(root)
    known: list[Row] = []
    with lease(project.workspace, "speed"), speed_session(project) as spark:
        for number, one in enumerate(rounds):
            known += one.changes
            write_tables(root, known)
            history = root / f"{number}.jsonl"
            history.write_text("".join(line(number * OF_ROUND + at, event) for at, event in enumerate(one.events)))
            for source in project.sources.values():
                import_files(spark, project, source, find_history(project, source, [str(history)]))
    when_read = read(project)
    # The last hour is open, since nothing follows it.
    everything = HourRange(BASE, BASE + timedelta(days=DAYS))
    recompute(project, plan_range(project, everything))
    with serving_layer.connect(project) as connection:
        states = connection.sql("SELECT DISTINCT state FROM hours WHERE name LIKE 'met%'").fetchall()
    assert states == [("final",)]
    return when_read, read(project)


def test_when_they_are_read_events_meet_the_rows_that_kafka_streams_gives_them(
    by_kafka_streams: Mapping[str, Values], by_hourline: tuple[Met, Met]
) -> None:
    when_read, _ = by_hourline
    assert when_read.newest == by_kafka_streams["global"] == by_kafka_streams["table"]
    assert when_read.valid == by_kafka_streams["versioned"]
    assert when_read.inner_newest == by_kafka_streams["inner table"]
    assert when_read.inner_valid == by_kafka_streams["inner versioned"]


def test_recomputed_events_meet_the_rows_of_a_kafka_streams_that_knew_the_table_before(
    by_kafka_streams: Mapping[str, Values], by_hourline: tuple[Met, Met]
) -> None:
    _, recomputed = by_hourline
    assert recomputed.newest == by_kafka_streams["global first"] == by_kafka_streams["table first"]
    assert recomputed.valid == by_kafka_streams["versioned first"]
    assert recomputed.inner_newest == by_kafka_streams["inner table first"]
    assert recomputed.inner_valid == by_kafka_streams["inner versioned first"]


@pytest.mark.parametrize("kind", ["inner table", "inner versioned"])
def test_in_order_an_inner_join_of_kafka_streams_has_the_recomputed_rows_of_event_time(
    kind: str, by_kafka_streams: Mapping[str, Values], by_hourline: tuple[Met, Met]
) -> None:
    _, recomputed = by_hourline
    assert by_kafka_streams[f"{kind} in order"] == recomputed.inner_valid


def test_a_versioned_store_forgets_rows_that_a_lookup_keeps(
    rounds: list[Round], by_kafka_streams: Mapping[str, Values], by_hourline: tuple[Met, Met]
) -> None:
    _, recomputed = by_hourline
    changes = [row for one in rounds for row in one.changes]
    kept = max(row.time for row in changes) - milliseconds(RETENTION)
    events = [event for one in rounds for event in one.events]
    newest = [max([row.time for row in changes if row.key == event.key], default=0) for event in events]
    assert by_kafka_streams["retention"] == {
        # What is newest of its key is never forgotten.
        number: None if events[number].time < min(kept, newest[number]) else value
        for number, value in recomputed.valid.items()
    }


def test_the_page_has_the_numbers_of_the_differences(
    by_kafka_streams: Mapping[str, Values], by_hourline: tuple[Met, Met]
) -> None:
    when_read, recomputed = by_hourline
    numbers = {
        "without a row, which an inner join drops": sum(one is None for one in when_read.newest.values()),
        "met another row after a recompute, latest row": count(when_read.newest, recomputed.newest),
        "met another row after a recompute, row valid at event time": count(when_read.valid, recomputed.valid),
        "no row in a versioned store that keeps a day": count(by_kafka_streams["retention"], recomputed.valid),
        "in an inner join, latest row": len(when_read.inner_newest),
        "in it only after a recompute, latest row": len(recomputed.inner_newest.keys() - when_read.inner_newest.keys()),
        "in it only before a recompute, latest row": len(
            when_read.inner_newest.keys() - recomputed.inner_newest.keys()
        ),
        "in an inner join, row valid at event time": len(when_read.inner_valid),
        "in it only after a recompute, row valid at event time": len(
            recomputed.inner_valid.keys() - when_read.inner_valid.keys()
        ),
    }
    assert min(numbers.values()) > 0
    assert stated_numbers("Joins with a table") == numbers


def count(one: Values, other: Values) -> int:
    return sum(one[number] != value for number, value in other.items())


def write_tables(root: Path, known: Sequence[Row]) -> None:
    """The table with the newest value of each key, and the one with the validity of each."""
    newest = {row.key: row.value for row in known}
    planes = [f"{key},{value}" for key, value in newest.items() if value]
    leases = []
    for key in newest:
        values = {row.time: row.value for row in known if row.key == key}
        times = sorted(values)
        for since, until in zip(times, [*times[1:], None], strict=True):
            if values[since]:
                leases.append(f"{key},{values[since]},{iso_time(since)},{'' if until is None else iso_time(until)}")
    (root / "planes.csv").write_text("\n".join(["tail,maker", *planes, ""]))
    (root / "leases.csv").write_text("\n".join(["tail,maker,since,until", *leases, ""]))


def read(project: Project) -> Met:
    with serving_layer.connect(project) as connection:
        rows = connection.sql("SELECT number, newest, valid, flights FROM met ORDER BY number").fetchall()
        inner = [connection.sql(f"SELECT number, maker, flights FROM met_{lookup}").fetchall() for lookup in LOOKUPS]
    assert [(number, flights) for number, *_, flights in rows] == [(number, 1) for number in range(ROUNDS * OF_ROUND)]
    assert {flights for of in inner for *_, flights in of} == {1}
    return Met(
        {number: newest for number, newest, _, _ in rows},
        {number: valid for number, _, valid, _ in rows},
        *({number: maker for number, maker, _ in of} for of in inner),
    )


def line(number: int, event: Event) -> str:
    return json.dumps({"number": number, "tail": event.key, "at": iso_time(event.time)}) + "\n"
