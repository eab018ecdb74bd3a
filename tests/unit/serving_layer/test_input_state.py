"""What `status` tells of the state of joins and upserts, against trying pairs of minutes one by one."""

import random
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from hourline.cli.status import Order, say_status
from hourline_core.ledger.layout import Layout
from hourline_core.ledger.progress_rows import HourEvents, OffsetsRead, ProgressRow, RecordCounts
from hourline_core.ledger.source_clock import PartitionClock
from hourline_core.model import load_project
from serving_layer.connection import Connection
from serving_layer.reports.kafka_offsets import SourceOffsets
from serving_layer.reports.status import ProjectStatus, report_status
from speed_layer.commit.source_tables import open_source_tables
from tests.support.project_files import write_project

BASE = datetime(2026, 3, 2, tzinfo=UTC)
BEFORE, AFTER, WITHIN = 70, 200, 130
"""In minutes."""
LENGTH = 15 * 60
TOPIC = "topic: {0}\nfields: {{n: long, revision: long, at: timestamp}}\nevent_time: at\nkey_type: string\n"
JOIN = "join: {{left: orders, right: {0}, on: n, within: {{before: 70m, after: 200m}}, type: {1}}}\n"
FILES = {
    "hourline.yaml": "",
    **{f"sources/{name}.yaml": TOPIC.format(name) for name in ("orders", "payments")},
    **{f"sources/{kind}_join.yaml": JOIN.format("payments", kind) for kind in ("inner", "left", "full")},
    "sources/self_join.yaml": JOIN.format("{source: orders, as: other}", "inner"),
    "sources/newest.yaml": "upsert: {of: payments, version: revision, within: 130m, columns: [n]}\n",
    "sources/rows.yaml": "snapshot: {of: payments, columns: [n]}\n",
}
KINDS = ("inner_join", "left_join", "full_join", "self_join", "newest")
WAITS = {"left_join": AFTER, "full_join": max(BEFORE, AFTER)}
"""The minutes by which clocks are behind those of the inputs."""


class Shop:
    """The project, of which only progress is written."""

    def __init__(self, folder: Path) -> None:
        self.project = load_project(write_project(folder, FILES))
        layout, schema = Layout.of(self.project), pa.schema({"n": pa.int64()})
        self._tables = {name: open_source_tables(layout, of, schema, []) for name, of in self.project.sources.items()}
        self._sequences = Counter[str]()

    def micro_batch(self, source: str, clock: int | None, minutes: Sequence[int] = ()) -> None:
        """One that reads the topic, or each input, and has events at ``minutes`` after BASE."""
        self._sequences[source] += 1
        sequence, moment = self._sequences[source], None if clock is None else at(clock)
        topics = self.project.sources[source].input_names or (source,)
        hours = [HourEvents(hour, events, 0) for hour, events in Counter(map(hour_of, minutes)).items()]
        clocks = tuple(PartitionClock(f"id-{topic}", 0, moment, BASE) for topic in topics)
        read, counts = (OffsetsRead(0, sequence, sequence),), RecordCounts(len(minutes), len(minutes))
        rows = [
            ProgressRow(
                *(sequence, f"id-{topic}", topic, read, counts, tuple(hours), (), moment, BASE, BASE), partitions=clocks
            )
            for topic in topics
        ]
        self._tables[source].finish(*rows)

    def status(self) -> ProjectStatus:
        with Connection(self.project) as connection:
            return report_status(connection, 1, dict.fromkeys(("orders", "payments"), SourceOffsets({})))


def at(minute: int) -> datetime:
    return BASE + timedelta(minutes=minute)


def hour_of(minute: int) -> datetime:
    return at(minute).replace(minute=0)


def needed(source: str, clock: int) -> dict[str, set[datetime]]:
    """By input, the hours with a minute at which an event may meet another one that is new, or waits for partners."""
    new, minutes = clock + WAITS.get(source, 0), range(LENGTH)
    if source == "newest":
        return {"payments": {hour_of(old) for old in minutes if any(at >= new for at in around(old, WITHIN, WITHIN))}}
    left_from = clock if source in ("left_join", "full_join") else new
    right_from = clock if source == "full_join" else new
    left = {hour_of(minute) for minute in minutes if any(at >= right_from for at in around(minute, BEFORE, AFTER))}
    right = {hour_of(minute) for minute in minutes if any(at >= left_from for at in around(minute, AFTER, BEFORE))}
    return {"orders": left | right} if source == "self_join" else {"orders": left, "payments": right}


def around(minute: int, earlier: int, later: int) -> range:
    return range(minute - earlier, minute + later + 1)


State = dict[str, tuple[int | None, datetime | None]]
"""By input."""


def told(status: ProjectStatus, source: str) -> State:
    (found,) = (one for one in status.sources if one.source == source)
    return {one.topic: (one.state_events, one.state_since) for one in found.partitions}


def test_the_state_is_the_events_that_others_may_still_meet(tmp_path: Path) -> None:
    shop, chosen = Shop(tmp_path), random.Random(3)  # noqa: S311 (the same minutes each time)
    inputs = {name: source.input_names for name, source in shop.project.sources.items() if name in KINDS}

    def states() -> dict[str, State]:
        status = shop.status()
        return {name: told(status, name) for name in KINDS}

    assert states() == {name: dict.fromkeys(of, (0, None)) for name, of in inputs.items()}
    hours: dict[str, list[datetime]] = {"orders": [], "payments": []}
    for name in [*hours] * 3:
        minutes = chosen.sample(range(LENGTH), 60)
        shop.micro_batch(name, max(minutes), minutes)
        hours[name] += map(hour_of, minutes)
    for name in KINDS:
        shop.micro_batch(name, None)
    everything = {name: (180, min(counted)) for name, counted in hours.items()}
    assert states() == {name: {one: everything[one] for one in of} for name, of in inputs.items()}, "without a clock"
    for clock in (439, 440, 489, 490, LENGTH + 300):  # 440 − 200, 490 − 70 and 490 − 130 are whole hours.
        for name in KINDS:
            shop.micro_batch(name, clock)
        expected: dict[str, State] = {name: {} for name in KINDS}
        for name in KINDS:
            for one, of in needed(name, clock).items():
                counted = [hour for hour in hours[one] if hour in of]
                expected[name][one] = len(counted), min(counted, default=None)
        assert states() == expected, clock


def test_status_shows_the_state_where_there_is_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shop = Shop(tmp_path)
    for name in ("orders", "payments"):
        shop.micro_batch(name, 179, [10, 70, 130, 179])
    for name in ("inner_join", "rows"):
        shop.micro_batch(name, 179)
    report = shop.status()
    assert told(report, "rows") == {"payments": (None, None)}, "the last snapshot is all that it needs"
    assert told(report, "orders") == {"orders": (None, None)}

    def shown(source: str) -> list[str]:
        say_status(shop.project, report, source, Order.NAME, partitions=True)
        lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
        head = next(number for number, line in enumerate(lines) if "holds the clock" in line)
        return lines[head : head + 3]

    heading, orders, payments = shown("inner_join")
    assert heading.endswith("holds the clock  state events  state since (UTC)")
    assert orders.endswith("4  2026-03-02 00:00") and payments.endswith("3  2026-03-02 01:00")
    assert shown("orders")[0].endswith("holds the clock") and shown("rows")[0].endswith("holds the clock")
