"""A project's tables without Kafka and Spark: micro-batches and publications by the product's own commits, answers compared with plain lists.

Deterministic, so that a killed process can do it again: the n-th micro-batch is the same in every process.
"""

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa

import serving_layer
from batch_layer.publish import Publication
from hourline.declarations import EventTime, Field, Measure, Metric, Project, Settings, Source
from hourline.layout import PROGRESS_SCHEMA, TIMESTAMP, Layout
from hourline.tiling import Tiling
from speed_layer.ledger import open_ledger

BASE = datetime(2024, 3, 1, tzinfo=UTC)
SOURCE = Source(name="clicks", topic="clicks", fields={"n": Field(type="long")}, event_time=EventTime(expression="at"))
TOTALS = Metric(name="totals", source="clicks", dimensions={}, measures={"n": Measure(kind="sum", argument="n")})
TILE_SCHEMA = pa.schema({"hour": TIMESTAMP, "n": pa.int64()})
TILING = Tiling(SOURCE, TOTALS, {"n": "sum(n)"}, TILE_SCHEMA)
_PROGRESS = pa.schema([column for column in PROGRESS_SCHEMA if column.name != "sequence"])


def hour(number: int) -> datetime:
    return BASE + timedelta(hours=number)


class BareTables:
    """The tables of one source and one metric in ``folder``, opened for writing as a start of the speed layer does.

    ``hours`` are what the n-th event's hour is; the micro-batches take the events in their order, some at a time.
    """

    def __init__(self, folder: Path, hours: list[int]) -> None:
        self.project = Project(folder, Settings(), {"clicks": SOURCE}, {"totals": TOTALS})
        self.layout = Layout.of(self.project)
        self.hours = hours
        self.start()

    def start(self) -> None:
        """As after any death of the speed layer: nothing but the tables is left."""
        self.ledger = open_ledger(self.layout, SOURCE, pa.schema({"n": pa.int64()}), [TILING], "topic-id")
        self.sequence = self.ledger.first_sequence
        self.offset = self.ledger.next_offsets.get(0, 0)

    def micro_batch(self, size: int) -> None:
        """Archive, publish as provisional, and finish the next ``size`` events."""
        batch = self.hours[self.offset : self.offset + size]
        moments = pa.array([hour(number) for number in batch], TIMESTAMP)
        addresses = {
            "topic_id": ["topic-id"] * size,
            "topic": ["clicks"] * size,
            "partition": [0] * size,
            "offset": range(self.offset, self.offset + size),
        }
        events = {name: pa.array(values) for name, values in addresses.items()} | {"event_time": moments, "hour": moments}
        ledger = self.ledger
        columns = pa.table({**events, "duplicate": [False] * size, "n": [1] * size})
        ledger.append(ledger.events, ledger.events_schema, columns, self.sequence)
        ledger.append(ledger.provisional["totals"], ledger.provisional_schemas["totals"], tiles(batch), self.sequence)
        ledger.append(ledger.progress, PROGRESS_SCHEMA, self._progress(batch), self.sequence)
        self.sequence += 1
        self.offset += size

    def publish(self, *numbers: int) -> None:
        """Recompute these hours and publish them."""
        publication = Publication(self.project, [TILING])
        cut = self.sequence - 1
        counted = tiles([number for number in self.hours[: self.offset] if number in numbers])
        publication.publish([publication.stage(TILING, counted, [hour(number) for number in numbers], cut)], BASE)

    def check(self) -> None:
        """The answer is: every event of a finished micro-batch, once."""
        with serving_layer.connect(self.project) as connection:
            assert dict(connection.sql("SELECT hour, n FROM totals").fetchall()) == self.expected()

    def expected(self) -> dict[datetime, int]:
        return {hour(number): count for number, count in Counter(self.hours[: self.offset]).items()}

    def _progress(self, batch: list[int]) -> pa.Table:
        row = {
            "topic_id": "topic-id",
            "topic": "clicks",
            "offsets": [{"partition": 0, "first": self.offset, "last": self.offset + len(batch) - 1}],
            "records": len(batch),
            "accepted": len(batch),
            "rejected": 0,
            "duplicates": 0,
            "tombstones": 0,
            "hours": [{"hour": hour(number), "events": count, "late": 0} for number, count in Counter(batch).items()],
            "metrics": self.ledger.metrics_row(),
            "clock": hour(max(self.hours[: self.offset + len(batch)])),
            "started": BASE,
            "finished": BASE,
        }
        return pa.Table.from_pylist([row], _PROGRESS)


def tiles(batch: list[int]) -> pa.Table:
    return pa.Table.from_pylist([{"hour": hour(number), "n": count} for number, count in Counter(batch).items()], TILE_SCHEMA)
