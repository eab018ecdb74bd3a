"""A project in which each micro-batch changes results of the newest hour, once each. The product's own commits write
it, without Spark. Its results go to a topic of Kafka.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa

from batch_layer.aggregate import MetricTiles
from batch_layer.publication import MetricPublication, Publication
from batch_layer.stage import stage_metric
from benchmarks.archive import FIRST, Numbers, archived_events, progress_row
from benchmarks.peers.updates import Results
from benchmarks.preloaded import PARTITIONS
from benchmarks.project_files import write_files
from hourline import Project, load_project
from hourline_core.compute.aggregation import AggregationPlan
from hourline_core.ledger.layout import QUALITY_SCHEMA, TIMESTAMP, Layout
from hourline_core.model.hours import HOUR, iso_text
from speed_layer.commit.maintenance import maintain_after, maintain_source
from speed_layer.commit.source_tables import open_source_tables

SHOPS = 10_000
"""The number of results of an hour."""
TOPIC = "turnover"
"""The topic of the results."""
FIELDS = pa.schema({"shop": pa.string(), "amount": pa.int32(), "at": pa.int64()})
TILES = pa.schema(
    {"hour": TIMESTAMP, "shop": pa.string(), "orders": pa.int64(), "takings": pa.int64(), "dearest": pa.int32()}
)
_NAMES = pa.array([f"shop-{number:04}" for number in range(SHOPS)])


class ChangingHours:
    """The project in ``folder``. ``truth`` has the results of all its hours."""

    def __init__(self, folder: Path, bootstrap: str) -> None:
        files = {
            "hourline.yaml": f'name: changing\nkafka: {{bootstrap: "{bootstrap}"}}\n',
            "sources/sales.yaml": "topic: sales\nfields: {shop: string, amount: int, at: long}\n"
            "event_time: {expression: at, encoding: epoch_seconds}\n",
            "metrics/turnover.yaml": "source: sales\ndimensions: [shop]\n"
            "measures: {orders: count, takings: sum(amount), dearest: max(amount)}\n",
            "sinks/turnover.yaml": f"metric: turnover\ntopic: {TOPIC}\npartitions: {PARTITIONS}\n",
        }
        self.project: Project = load_project(write_files(folder, files))
        source = self.project.sources["sales"]
        self._aggregation = AggregationPlan(source, self.project.metrics["turnover"], TILES)
        self._tables = open_source_tables(Layout.of(self.project), source, FIELDS, [self._aggregation])
        self._sequence = self._read = 0
        self._hours: dict[datetime, list[pa.Table]] = {}
        """The tiles of each hour, by micro-batch."""

    def begin_hour(self) -> None:
        """Publish the newest hour, and let the next one have an order of each shop."""
        for hour in self._hours and [max(self._hours)]:
            self._publish(hour)
        self._hours[FIRST + len(self._hours) * HOUR] = []
        self.change(range(SHOPS))

    def change(self, shops: Sequence[int]) -> None:
        """Commit a micro-batch in which each of ``shops`` has one order in the newest hour."""
        hour, count = max(self._hours), len(shops)
        self._sequence += 1
        first, self._read = self._read, self._read + count
        numbers = np.arange(first, first + count)
        fields = {"shop": _NAMES.take(pa.array(shops)), "amount": pa.array(amounts(numbers), pa.int32())}
        seconds = np.full(count, int(hour.timestamp()))
        rows = archived_events("sales", numbers, seconds, np.zeros(count, bool), {**fields, "at": seconds})
        tiles = pa.table(
            {
                "hour": rows["hour"],
                "shop": rows["shop"],
                "orders": pa.array(np.ones(count, int)),
                "takings": rows["amount"],
            }
        )
        tiles = tiles.append_column("dearest", rows["amount"]).cast(TILES)
        self._hours[hour].append(tiles)
        of, name = self._tables, self._aggregation.name
        of.append(of.events, of.events_schema, rows, self._sequence)
        of.append(of.provisional[name], of.provisional_schemas[name], tiles, self._sequence)
        of.finish(progress_row(of, self._sequence, first, 0, {hour: count}))
        maintain_after(self.project, of, self._sequence)

    @property
    def truth(self) -> Results:
        """What the topic should have."""
        rows = pa.concat_tables([_merged(tiles) for tiles in self._hours.values()]).to_pylist()
        return {(iso_text(row["hour"]), row["shop"]): (row["orders"], row["takings"], row["dearest"]) for row in rows}

    def _publish(self, hour: datetime) -> None:
        tiles = MetricTiles(self._aggregation, [hour], self._sequence, _merged(self._hours[hour]))
        staged = stage_metric(self.project, tiles)
        found = {"audited": hour, "source": "sales", "metric": "turnover", "severity": "fail", "success": True}
        found |= {"hour": hour, "expectation": "an expectation"}
        moment = hour + timedelta(hours=2)
        Publication(self.project).publish(
            [MetricPublication(staged)], pa.Table.from_pylist([found], QUALITY_SCHEMA), moment
        )
        maintain_source(self.project, self._tables)


def amounts(numbers: Numbers) -> Numbers:
    """The amounts of orders with these numbers."""
    return numbers * 7919 % 1000


def _merged(tiles: Sequence[pa.Table]) -> pa.Table:
    sums = [("orders", "sum"), ("takings", "sum"), ("dearest", "max")]
    merged = pa.concat_tables(tiles).group_by(["hour", "shop"]).aggregate(sums)
    return merged.rename_columns(TILES.names).cast(TILES)
