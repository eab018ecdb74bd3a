"""Two streams have the pairs of Kafka Streams' joins of them, and those that it has forgotten a partner of.

The difference is by design. docs/concepts/compared-with.md has its numbers.
"""

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Literal, NamedTuple, get_args

import pytest

import serving_layer
from batch_layer.plan import plan_range
from batch_layer.recompute import recompute
from benchmarks.peers.streams import (
    WITH_ROCKSDB,
    Alone,
    JoinWindows,
    Pair,
    SideEvent,
    join_streams,
    join_streams_outer,
)
from hourline import Project
from hourline_core.model.hours import HourRange
from tests.support.kafka_streams import iso_time, milliseconds, skip_without, stated_columns, stated_numbers
from tests.support.project_files import write_project
from tests.support.stack_project import StackProject

# In CI, test_joins.py and test_joins_of_joins.py compare with nested loops.
pytestmark = pytest.mark.long

BASE = datetime(2026, 3, 2, tzinfo=UTC)
HOURS, EVENTS = 8, 360
CLOSED = milliseconds(BASE + timedelta(hours=HOURS + 5))
MINUTE = milliseconds(timedelta(minutes=1))
WITHIN = JoinWindows(20 * MINUTE, 40 * MINUTE, 30 * MINUTE)
WITH_ANY_GRACE = JoinWindows(WITHIN.before, WITHIN.after, milliseconds(timedelta(days=9)))
KEYS = ["apple", "pear", "fig", "plum", "quince", None]
Outer = Literal["outer", "left"]
OUTER: tuple[Outer, ...] = get_args(Outer)
"""The joins that have events without a partner: of both sides, or of the left one."""
FILES = {
    "hourline.yaml": """
        kafka: {bootstrap: "${KAFKA}"}
        spark: {master: "local[2]"}
        speed: {max_records_per_batch: 30}
        """,
    "sources/ordered.yaml": """
        topic: beside_orders
        fields: {number: int, product: string, at: timestamp}
        event_time: at
        grace: 0s
        """,
    "sources/paid.yaml": """
        topic: beside_payments
        fields: {number: int, product: string, at: timestamp}
        event_time: at
        grace: 0s
        """,
    "sources/both.yaml": """
        join: {left: ordered, right: paid, on: product, within: {before: 20m, after: 40m}}
        grace: 0s
        """,
    "sources/all.yaml": """
        join: {left: ordered, right: paid, on: product, within: {before: 20m, after: 40m}, type: full}
        grace: 0s
        """,
    "sources/all_ordered.yaml": """
        join: {left: ordered, right: paid, on: product, within: {before: 20m, after: 40m}, type: left}
        grace: 0s
        """,
    "sources/itself.yaml": """
        join: {left: ordered, right: {source: ordered, as: other}, on: product, within: {before: 20m, after: 40m}}
        grace: 0s
        """,
    "metrics/met_itself.yaml": """
        source: itself
        dimensions: {left_number: ordered_number, right_number: other_number, later: event_time}
        measures: {pairs: count}
        """,
    **{
        f"metrics/{metric}.yaml": f"""
        source: {source}
        dimensions: {{left_number: ordered_number, right_number: paid_number, later: event_time}}
        measures: {{pairs: count}}
        """
        for metric, source in (("met", "both"), ("met_outer", "all"), ("met_left", "all_ordered"))
    },
}


class Joined(NamedTuple):
    """A join of the two streams."""

    pairs: list[Pair]
    alone: list[Alone]


class OuterJoined(NamedTuple):
    """A join of Kafka Streams with events without a partner. At the end, the windows of all events close."""

    in_time: Joined
    """With the grace."""
    ever: Joined
    """With a grace that is longer than all."""
    in_order: Joined
    """With the grace, of the same events in the order of their times."""


class Pairs(NamedTuple):
    """The pairs of Hourline."""

    provisional: list[Pair]
    final: list[Pair]
    outer: Mapping[Outer, Joined]
    """Those with events without a partner, in final."""
    itself: list[Pair]
    """The pairs of the left events with one another, in final."""


@pytest.fixture(scope="module")
def events() -> list[SideEvent]:
    """Events of both sides in the order in which they come. Many times are tens of minutes, or a millisecond beside, so
    that many are just as far apart as partners may be. Some events come later than windows and grace.
    """
    choice = random.Random(143)  # noqa: S311 (the same each time)

    def event() -> SideEvent:
        time = milliseconds(BASE) + choice.randrange(HOURS * 6) * 10 * MINUTE + choice.choice([0, 0, 0, -1, 1])
        return SideEvent(choice.choice(KEYS), max(time, milliseconds(BASE)), choice.choice(("left", "right")))

    lateness = [choice.choice([0, 0, choice.randrange(30), choice.randrange(120), 300]) for _ in range(EVENTS)]
    arrivals = [
        (one.time + late * MINUTE, one) for one, late in zip((event() for _ in lateness), lateness, strict=True)
    ]
    return [one for _, one in sorted(arrivals, key=lambda arrival: arrival[0])]


@pytest.fixture(scope="module")
def nested(events: list[SideEvent]) -> list[Pair]:
    """The pairs of nested loops."""
    return sorted(
        (number, other, max(left.time, right.time))
        for (number, left), (other, right) in product(enumerate(events), repeat=2)
        if (left.side, right.side) == ("left", "right")
        and left.key is not None
        and left.key == right.key
        and left.time - WITHIN.before <= right.time <= left.time + WITHIN.after
    )


@pytest.fixture(scope="module")
def by_kafka_streams(events: list[SideEvent]) -> tuple[list[Pair], list[Pair]]:
    """The pairs with the grace, and with one that is longer than all."""
    skip_without(WITH_ROCKSDB)
    in_time, ever = join_streams([(WITHIN, events), (WITH_ANY_GRACE, events)])
    return sorted(in_time), sorted(ever)


@pytest.fixture(scope="module")
def outer_by_kafka_streams(events: list[SideEvent]) -> Mapping[Outer, OuterJoined]:
    skip_without(WITH_ROCKSDB)
    as_they_come = list(range(EVENTS))
    in_order = sorted(as_they_come, key=lambda number: events[number].time)
    asked = ((WITHIN, as_they_come), (WITH_ANY_GRACE, as_they_come), (WITHIN, in_order))
    after = milliseconds(BASE + timedelta(days=20))
    closing = [SideEvent("closing", after, side) for side in ("left", "right")]
    joined = {}
    for kind in OUTER:
        cases = [(replace(of, kind=kind), [*(events[number] for number in numbers), *closing]) for of, numbers in asked]
        found = zip(join_streams_outer(cases), asked, strict=True)
        joined[kind] = OuterJoined(*(numbered(one, numbers) for one, (_, numbers) in found))
    return joined


@pytest.fixture(scope="module")
def itself_by_kafka_streams(events: list[SideEvent]) -> list[Pair]:
    """The pairs of the left events with one another, with a grace that is longer than all."""
    skip_without(WITH_ROCKSDB)
    of_left = [number for number, one in enumerate(events) if one.side == "left"]
    (found,) = join_streams([(replace(WITH_ANY_GRACE, kind="self"), [events[number] for number in of_left])])
    return sorted((of_left[one], of_left[other], time) for one, other, time in found)


@pytest.fixture(scope="module")
def by_hourline(events: list[SideEvent], kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Pairs:
    sent = StackProject(write_project(tmp_path_factory.mktemp("shop"), FILES), kafka, {})
    for side, source in (("left", "ordered"), ("right", "paid")):
        sent.send(
            source,
            (
                {"number": number, "product": event.key, "at": iso_time(event.time)}
                for number, event in enumerate(events)
                if event.side == side
            ),
        )
        # With these, the clock passes the interval behind all others.
        sent.send(source, ({"number": -1, "product": source, "at": iso_time(CLOSED + step)} for step in range(6)))
    sent.drain()
    assert sent.last_sequence("both") > 1, "all was joined in one micro-batch"
    provisional = read(sent.project)
    everything = HourRange(BASE, BASE + timedelta(hours=HOURS))
    recompute(sent.project, plan_range(sent.project, everything))
    with serving_layer.connect(sent.project) as connection:
        asked = f"SELECT DISTINCT state FROM hours WHERE name LIKE 'met%' AND hour < '{everything.end.isoformat()}'"
        states = connection.sql(asked).fetchall()
    assert states == [("final",)]
    return Pairs(
        provisional.pairs,
        read(sent.project).pairs,
        {kind: read(sent.project, f"met_{kind}") for kind in OUTER},
        read(sent.project, "met_itself").pairs,
    )


def test_all_pairs_of_nested_loops_are_joined_in_both_layers(nested: list[Pair], by_hourline: Pairs) -> None:
    assert by_hourline.provisional == nested
    assert by_hourline.final == nested


def test_kafka_streams_joins_the_same_pairs_with_a_grace_that_is_longer_than_all(
    by_kafka_streams: tuple[list[Pair], list[Pair]], by_hourline: Pairs
) -> None:
    _, ever = by_kafka_streams
    assert ever == by_hourline.final


def test_kafka_streams_lacks_just_the_pairs_of_which_it_has_forgotten_a_partner(
    events: list[SideEvent], by_kafka_streams: tuple[list[Pair], list[Pair]], by_hourline: Pairs
) -> None:
    in_time, _ = by_kafka_streams
    assert in_time == [pair for pair in by_hourline.final if not is_forgotten(events, pair)]
    assert all(is_late(events, pair) for pair in set(by_hourline.final) - set(in_time))


@pytest.mark.parametrize("kind", OUTER)
def test_the_events_without_a_partner_are_those_of_nested_loops(
    kind: Outer, events: list[SideEvent], nested: list[Pair], by_hourline: Pairs
) -> None:
    assert by_hourline.outer[kind] == (nested, without_partner(events, kind, nested))


@pytest.mark.parametrize("kind", OUTER)
def test_in_order_kafka_streams_has_the_same_pairs_and_events_without_a_partner(
    kind: Outer, outer_by_kafka_streams: Mapping[Outer, OuterJoined], by_hourline: Pairs
) -> None:
    assert outer_by_kafka_streams[kind].in_order == by_hourline.outer[kind]


@pytest.mark.parametrize("kind", OUTER)
def test_kafka_streams_has_these_and_those_whose_partner_came_too_late(
    kind: Outer,
    events: list[SideEvent],
    by_kafka_streams: tuple[list[Pair], list[Pair]],
    outer_by_kafka_streams: Mapping[Outer, OuterJoined],
    by_hourline: Pairs,
) -> None:
    in_time, ever, _ = outer_by_kafka_streams[kind]
    assert (in_time.pairs, ever.pairs) == by_kafka_streams
    truly = set(by_hourline.outer[kind].alone)
    assert in_time.alone == without_partner(events, kind, in_time.pairs)
    assert set(in_time.alone) > truly
    assert set(ever.alone) >= truly
    # With a grace that is longer than all, it does not tell events of one side, key and time apart.
    twins = Counter(events)
    assert all(twins[events[number]] > 1 for number, _ in set(ever.alone) - truly)


def test_kafka_streams_joins_a_stream_with_itself_to_the_same_pairs_and_each_event_with_itself(
    events: list[SideEvent], itself_by_kafka_streams: list[Pair], by_hourline: Pairs
) -> None:
    with_itself = [
        (number, number, one.time) for number, one in enumerate(events) if one.side == "left" and one.key is not None
    ]
    assert itself_by_kafka_streams == sorted(by_hourline.itself + with_itself)
    assert stated_numbers("A stream joined with itself") == {
        "pairs of Hourline": len(by_hourline.itself),
        "pairs of Kafka Streams": len(itself_by_kafka_streams),
        "pairs of an event with itself": len(with_itself),
    }


def test_the_page_has_the_numbers_of_events_without_a_partner(
    outer_by_kafka_streams: Mapping[Outer, OuterJoined], by_hourline: Pairs
) -> None:
    joined = [(outer_by_kafka_streams[kind], set(by_hourline.outer[kind].alone)) for kind in OUTER]
    numbers = {
        "events without a partner of Hourline, final": [len(truly) for _, truly in joined],
        "events without a partner of Kafka Streams": [len(of.in_time.alone) for of, _ in joined],
        "those that have a partner": [len(set(of.in_time.alone) - truly) for of, truly in joined],
        "those with a partner, of a grace that is longer than all": [
            len(set(of.ever.alone) - truly) for of, truly in joined
        ],
    }
    assert min(number for of in numbers.values() for number in of) > 0
    assert stated_columns("Events without a partner") == numbers


def test_the_page_has_the_numbers_of_the_differences(
    events: list[SideEvent], by_kafka_streams: tuple[list[Pair], list[Pair]], by_hourline: Pairs
) -> None:
    in_time, _ = by_kafka_streams
    apart = [events[right].time - events[left].time for left, right, _ in in_time]
    numbers = {
        "pairs of Hourline, provisional and final": len(by_hourline.final),
        "pairs of Kafka Streams": len(in_time),
        "pairs of both whose right event is just `before` earlier": apart.count(-WITHIN.before),
        "pairs of both whose right event is just `after` later": apart.count(WITHIN.after),
        "pairs that Kafka Streams lacks": len(set(by_hourline.final) - set(in_time)),
        "pairs of both of which an event comes as late": sum(is_late(events, pair) for pair in in_time),
        "events without a key, which have no partner": sum(event.key is None for event in events),
    }
    assert min(numbers.values()) > 0
    assert stated_numbers("Joins of two streams") == numbers


def is_late(events: Sequence[SideEvent], pair: Pair) -> bool:
    """Whether the last event of the pair comes when its window and the grace have passed."""
    last = max(pair[:2])
    # Its window ends as long after it as its partner may be later.
    window = WITHIN.after if events[last].side == "left" else WITHIN.before
    return events[last].time + window + WITHIN.grace <= max(event.time for event in events[:last])


def is_forgotten(events: Sequence[SideEvent], pair: Pair) -> bool:
    """Whether the store that holds the partner that came first keeps it no longer when the last one comes. A store keeps
    what is younger than both bounds and the grace together, by the latest of its own events.
    """
    first, last = sorted(pair[:2])
    kept = [event.time for event in events[:last] if event.side == events[first].side and event.key is not None]
    return events[first].time <= max(kept) - WITHIN.before - WITHIN.after - WITHIN.grace


def without_partner(events: Iterable[SideEvent], kind: Outer, pairs: Iterable[Pair]) -> list[Alone]:
    """The events that are in none of the pairs."""
    met = {number for left, right, _ in pairs for number in (left, right)}
    return [
        (number, one.time)
        for number, one in enumerate(events)
        if number not in met and (kind == "outer" or one.side == "left")
    ]


def numbered(found: tuple[Iterable[Pair], Iterable[Alone]], numbers: Sequence[int]) -> Joined:
    """What a join of Kafka Streams has found, by the numbers of its events, and without the closing ones."""
    pairs, alone = found
    return Joined(
        sorted((numbers[one], numbers[other], time) for one, other, time in pairs if one < len(numbers)),
        sorted((numbers[one], time) for one, time in alone if one < len(numbers)),
    )


def read(project: Project, metric: str = "met") -> Joined:
    """The pairs, and the events without a partner, each of which counts once."""
    with serving_layer.connect(project) as connection:
        rows = connection.sql(
            f"SELECT left_number, right_number, later, pairs FROM {metric} WHERE coalesce(left_number, right_number) >= 0"
        ).fetchall()
    assert {pairs for *_, pairs in rows} == {1}
    times = [(left, right, milliseconds(later)) for left, right, later, _ in rows]
    return Joined(
        sorted(one for one in times if None not in one),
        sorted((right if left is None else left, time) for left, right, time in times if None in (left, right)),
    )
