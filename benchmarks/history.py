"""A project with a long history, for benchmarks of reading. The product's own commits write it, without Kafka and
Spark.

Imported history has a micro-batch per day and a publication per week. Later hours have one of each, some of them with
late events. The current hour has a micro-batch per second. Maintenance runs as often as in production.
"""

import multiprocessing
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import pyarrow as pa
from datasketches import update_theta_sketch

from batch_layer.aggregate import MetricTiles
from batch_layer.drift.by_cause import HourDrift
from batch_layer.maintenance import Maintenance
from batch_layer.publication import MetricPublication, Publication
from batch_layer.stage import stage_metric
from hourline_core.compute.aggregation import AggregationPlan
from hourline_core.ledger.layout import QUALITY_SCHEMA, TIMESTAMP, Layout
from hourline_core.ledger.progress_rows import HourEvents, OffsetsRead, ProgressRow, RecordCounts
from hourline_core.model import EventTime, Field, Measure, Metric, Project, Settings, Source
from speed_layer.commit.maintenance import maintain_after
from speed_layer.commit.source_tables import open_source_tables

FIRST = datetime(2023, 3, 1, tzinfo=UTC)
SHOPS = [f"shop {number:02}" for number in range(20)]
ORDERS = 40
"""The number of orders in each shop and hour."""
LATE_HOURS = 5
"""The age of late events."""

SOURCE = Source(
    name="sales",
    topic="sales",
    fields={"shop": Field(type="string"), "amount": Field(type="int"), "customer": Field(type="long")},
    event_time=EventTime(expression="at"),
)
METRICS = {
    "turnover": {"orders": "count", "takings": "sum(amount)", "dearest": "max(amount)", "usual": "mean(amount)"},
    "returns": {"returned": "sum(returned)"},
    "visits": {"customers": "distinct(customer)"},
}
STATES = {
    "turnover": {
        "orders": pa.int64(),
        "takings": pa.int64(),
        "dearest": pa.int32(),
        "usual__n": pa.int64(),
        "usual__total": pa.int64(),
    },
    "returns": {"returned": pa.int64()},
    "visits": {"customers": pa.binary()},
}


def _aggregation(name: str) -> AggregationPlan:
    measures = {measure: Measure.parse(text) for measure, text in METRICS[name].items()}
    metric = Metric(name=name, source="sales", dimensions={"shop": "shop"}, measures=measures)
    return AggregationPlan(
        SOURCE,
        metric,
        pa.schema({"hour": TIMESTAMP, "shop": pa.string(), **STATES[name]}),
    )


TILINGS = [_aggregation(name) for name in METRICS]


@dataclass
class Sums:
    """The states of one shop and hour."""

    orders: int = 0
    takings: int = 0
    dearest: int = 0
    returned: int = 0
    customers: set[int] = field(default_factory=set)

    def add(self, other: "Sums") -> None:
        self.orders += other.orders
        self.takings += other.takings
        self.dearest = max(self.dearest, other.dearest)
        self.returned += other.returned
        self.customers |= other.customers

    def states(self, metric: str) -> list[Any]:
        match metric:
            case "turnover":
                return [self.orders, self.takings, self.dearest, self.orders, self.takings]
            case "returns":
                return [self.returned]
            case _:
                return [_sketch(self.customers)]


Tiles = dict[int, list[Sums]]
"""The sums by hour (its number since FIRST) and shop."""


class History:
    """Writes the project in ``folder``. ``truth`` has the expected answers."""

    def __init__(self, folder: Path) -> None:
        metrics = {aggregation.metric.name: aggregation.metric for aggregation in TILINGS}
        self.project = Project(folder, Settings(), {"sales": SOURCE}, metrics)
        fields = pa.schema({"shop": pa.string(), "amount": pa.int32(), "customer": pa.int64()})
        self.source_tables = open_source_tables(Layout.of(self.project), SOURCE, fields, TILINGS)
        self.sequence = self.source_tables.first_sequence
        self.truth: Tiles = {}
        self._newest = -1
        """The number of the newest hour with events."""
        self._open_hours: set[int] = set()
        """The numbers of the hours with events that no publication has counted yet."""
        self._random = random.Random(1)  # noqa: S311 (the same numbers each time)

    def imported(self, hours: int) -> None:
        """Write the next ``hours`` like an import and its backfill: a micro-batch per day, a publication per week."""
        first = self.next_hour
        for number in range(first, first + hours, 24):
            self.micro_batch(range(number, min(number + 24, first + hours)), ORDERS)
            if (number - first) % 168 == 144:
                self.publish()
        if self._open_hours:
            self.publish()

    def past(self, hours: int) -> None:
        """Write the next ``hours`` one by one: a micro-batch each, late events in every tenth, and a publication."""
        for number in range(self.next_hour, self.next_hour + hours):
            self.micro_batch([number], ORDERS, late=number % 10 == 0)
            self.publish()
            if number % 24 == 0:
                self.maintain()

    def maintain(self) -> None:
        """The daily maintenance."""
        list(Maintenance(self.project, clock=lambda: hour(self.next_hour)).run())

    @property
    def next_hour(self) -> int:
        """The number of the first hour without events."""
        return self._newest + 1

    def micro_batch(self, numbers: Sequence[int], orders: int = 1, late: bool = False) -> None:
        """Commit ``orders`` in each shop and hour, and if ``late``, one in a published hour."""
        tiles = {number: [self._sums(orders) for _ in SHOPS] for number in numbers}
        number = max(numbers)
        if late and number >= LATE_HOURS:
            tiles[number - LATE_HOURS] = [self._sums(1) if shop % 7 == 0 else Sums() for shop in range(len(SHOPS))]
        source_tables = self.source_tables
        counts = {at: sum(sums.orders for sums in shops) for at, shops in tiles.items()}
        events = sum(counts.values())
        address = {
            "topic_id": "topic-id",
            "topic": "sales",
            "partition": 0,
            "duplicate": False,
            "event_time": hour(number),
            "hour": hour(number),
        }
        rows: list[dict[str, Any]] = [
            {**address, "offset": self.sequence * 100_000 + at, "shop": SHOPS[at % 20], "amount": 1, "customer": at}
            for at in range(events)
        ]
        source_tables.append(
            source_tables.events,
            source_tables.events_schema,
            pa.Table.from_pylist(rows, _but_sequence(source_tables.events_schema)),
            self.sequence,
        )
        for aggregation in TILINGS:
            source_tables.append(
                source_tables.provisional[aggregation.name],
                source_tables.provisional_schemas[aggregation.name],
                table(aggregation, tiles),
                self.sequence,
            )
        first = self.sequence * 100_000
        source_tables.finish(
            ProgressRow(
                self.sequence,
                "topic-id",
                "sales",
                offsets=(OffsetsRead(0, first, first + events - 1),),
                counts=RecordCounts(records=events, accepted=events),
                hours=tuple(
                    HourEvents(hour(at), count, late=count if at not in numbers else 0) for at, count in counts.items()
                ),
                metrics=source_tables.written_metrics(),
                clock=hour(max(number, self._newest)),
                started=hour(number),
                finished=hour(number),
            )
        )
        for at, shops in tiles.items():
            for known, more in zip(self.truth.setdefault(at, [Sums() for _ in SHOPS]), shops, strict=True):
                known.add(more)
        self._newest = max(self._newest, number)
        self._open_hours |= tiles.keys()
        maintain_after(self.project, self.source_tables, self.sequence)
        self.sequence += 1

    def publish(self) -> None:
        """Publish all changed hours, with findings of an audit and the drift."""
        chosen = {number: self.truth[number] for number in sorted(self._open_hours)}
        hours = [hour(number) for number in chosen]
        publication = Publication(self.project)
        metrics: list[MetricPublication] = []
        found = []
        for aggregation in TILINGS:
            drift = [HourDrift(at, measure, 1.0, 1.0, 1.0) for at in hours for measure in aggregation.metric.measures]
            tiles = MetricTiles(aggregation, hours, self.sequence - 1, table(aggregation, chosen))
            metrics.append(MetricPublication(stage_metric(self.project, tiles), drift=drift))
            of = {
                "audited": hours[-1],
                "source": "sales",
                "metric": aggregation.metric.name,
                "severity": "fail",
                "success": True,
            }
            found += [{**of, "hour": at, "expectation": f"expectation {which}"} for at in hours for which in range(4)]
        publication.publish(metrics, pa.Table.from_pylist(found, QUALITY_SCHEMA), hours[-1])
        self._open_hours.clear()

    def all_rows(self, metric: str) -> pa.Table:
        """The rows of plain files with the same results: hour, shop and states, sorted."""
        (aggregation,) = [aggregation for aggregation in TILINGS if aggregation.metric.name == metric]
        return table(aggregation, dict(sorted(self.truth.items())))

    def _sums(self, orders: int) -> Sums:
        amounts = [self._random.randrange(1, 1000) for _ in range(orders)]
        customers = {self._random.randrange(5000) for _ in range(orders)}
        return Sums(orders, sum(amounts), max(amounts), self._random.randrange(5), customers)


def written(folder: Path, imported: int, hourly: int, seconds: int) -> History:
    """Write a project: ``imported`` hours, ``hourly`` hours one by one, and ``seconds`` of the last hour."""
    history = History(folder)
    if imported:
        history.imported(imported)
        history.maintain()
    history.past(hourly)
    now = history.next_hour
    for second in range(seconds):
        history.micro_batch([now], late=second % 60 == 0)
    return history


@contextmanager
def committing(folder: Path, now: int) -> Iterator[None]:
    """Run another process within the block that commits a micro-batch per second, in the hour ``now``."""
    spawn = multiprocessing.get_context("spawn")
    begun, stop = spawn.Event(), spawn.Event()
    process = spawn.Process(target=_commit, args=(folder, now, begun, stop))
    process.start()
    try:
        while not begun.wait(1):
            assert process.is_alive(), "the writer has not begun"
        yield
        assert process.is_alive(), "the writer has ended too early"
    finally:
        stop.set()
        process.join()


def _commit(folder: Path, now: int, begun: Event, stop: Event) -> None:
    history = History(folder)
    while not stop.wait(1):
        history.micro_batch([now])
        begun.set()


def hour(number: int) -> datetime:
    return FIRST + timedelta(hours=number)


def table(aggregation: AggregationPlan, tiles: Tiles) -> pa.Table:
    """The metric's rows of ``tiles``, for the shops that have any."""
    name = aggregation.metric.name
    there = [
        (hour(at), shop, sums)
        for at, shops in tiles.items()
        for shop, sums in zip(SHOPS, shops, strict=True)
        if sums.orders
    ]
    columns = zip(*([at, shop, *sums.states(name)] for at, shop, sums in there), strict=True)
    return pa.table(
        [pa.array(values, kind) for values, kind in zip(columns, aggregation.schema.types, strict=True)],
        aggregation.schema,
    )


def _but_sequence(schema: pa.Schema) -> pa.Schema:
    return pa.schema([column for column in schema if column.name != "sequence"])


def _sketch(values: set[int]) -> bytes:
    sketch = update_theta_sketch(12)
    for value in values:
        sketch.update(value)
    return bytes(sketch.compact().serialize())
