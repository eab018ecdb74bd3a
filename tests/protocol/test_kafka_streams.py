"""Sessions and hopping windows are those that Kafka Streams itself finds in the same events, which come out of order."""

import random
from datetime import timedelta
from pathlib import Path

import pytest

import serving_layer
from benchmarks.peers.streams import WindowCount, count_in_windows
from tests.support.kafka_streams import milliseconds, skip_without_compiler
from tests.support.visits import Visit, Visits

MINUTE = timedelta(minutes=1)
_HOURS = 72
LONGER_THAN_ALL = "8760h"

SESSIONS = {minutes: f"{{gap: {minutes}m, max_length: {LONGER_THAN_ALL}}}" for minutes in (7, 30, 90)}
HOPPING = {(size, every): f"{{size: {size}m, every: {every}m}}" for size, every in ((60, 10), (24 * 60, 60))}
ASKED = {
    **{yaml: f"session,{gap * 60_000}" for gap, yaml in SESSIONS.items()},
    **{yaml: f"hopping,{size * 60_000},{every * 60_000}" for (size, every), yaml in HOPPING.items()},
}
"""By windows, as Hourline declares them: the same for Kafka Streams."""


def out_of_order(seed: str) -> list[Visit]:
    """Visits of three days in the order in which they come: many some minutes late, some a day."""
    choice = random.Random(seed)  # noqa: S311 (the same visits each time)
    visits = [
        Visit(minute // 60, choice.choice("ab"), choice.choice([5, 900]), minute=minute % 60)
        for minute in (choice.randrange(_HOURS * 60) for _ in range(400))
    ]
    lateness = {number: choice.choice([0, 5, 40, 40, 1500]) * choice.random() for number in range(len(visits))}
    order = sorted(lateness, key=lambda number: visits[number].time + lateness[number] * MINUTE)
    return [visits[number] for number in order]


def key(visit: Visit) -> str:
    return f"{visit.page}/{visit.slow}"


@pytest.fixture(scope="module")
def by_kafka_streams() -> dict[str, set[WindowCount]]:
    skip_without_compiler()
    cases = [
        (windows, [(key(visit), milliseconds(visit.time)) for visit in out_of_order(yaml)])
        for yaml, windows in ASKED.items()
    ]
    return dict(zip(ASKED, count_in_windows(cases), strict=True))


@pytest.mark.parametrize("windows", ASKED)
def test_windows_are_those_of_kafka_streams(
    windows: str, by_kafka_streams: dict[str, set[WindowCount]], tmp_path: Path
) -> None:
    visits, coming = Visits(tmp_path, windows), out_of_order(windows)
    choice = random.Random(windows)  # noqa: S311
    visits.start()
    while coming:
        taken, coming = coming[:140], coming[140:]
        visits.micro_batch(*taken)
        visits.publish(*sorted(choice.sample(range(_HOURS), 20)))
    with serving_layer.connect(visits.project) as connection:
        layers = connection.sql("SELECT DISTINCT state FROM hours WHERE name = 'loads'").fetchall()
        assert {state for (state,) in layers} == {"final", "revised", "provisional"}
        rows = connection.sql("SELECT page, slow, window_start, window_end, visits FROM loads").fetchall()
    # The end of a session is the gap after its last event, that of Kafka Streams is the event.
    gap = visits.metric.session.gap if visits.metric.session else timedelta()
    found = [
        (f"{page}/{slow}", milliseconds(start), milliseconds(end - gap), count)
        for page, slow, start, end, count in rows
    ]
    assert len(set(found)) == len(found) > 20
    assert set(found) == by_kafka_streams[windows]
