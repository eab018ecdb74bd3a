"""A project with an archive of millions of events, for benchmarks of the batch layer.

The product's own commits write it, without Kafka and Spark. Its tables are those that the speed layer leaves: events in
order of arrival, in micro-batches, with their provisional tiles and progress. Maintenance compacts them as often as in
production. Arrow computes the expected answers from the generated events, not from the stored ones.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from batch_layer.aggregate import MetricTiles
from batch_layer.drift.by_cause import HourDrift
from batch_layer.publication import MetricPublication, Publication
from batch_layer.stage import stage_metric
from benchmarks.project_files import write_files
from hourline import Project, load_project
from hourline_core.compute.aggregation import AggregationPlan
from hourline_core.ledger.layout import EVENT_SCHEMA, QUALITY_SCHEMA, TIMESTAMP, Layout
from hourline_core.ledger.progress_rows import HourEvents, OffsetsRead, ProgressRow, RecordCounts
from hourline_core.lookups.refresh import refresh
from hourline_core.model.hours import HOUR, wall_clock
from speed_layer.commit.maintenance import MICRO_BATCHES, maintain_after, maintain_source
from speed_layer.commit.source_tables import SourceTables, open_source_tables

Numbers = np.ndarray[Any, np.dtype[Any]]
FIRST = datetime(2023, 3, 1, tzinfo=UTC)
BATCH = 100_000
"""The number of records in a full micro-batch."""
FOUR_WEEKS = 672
"""The number of hours that are published at once."""
SHOPS = pa.array([f"shop {number:02}" for number in range(100)])
TOPIC_ID = "topic-id"
ROWS = 10_000
"""The number of rows in a lookup."""
FACTORS = pa.table(
    {"id": pa.array(range(ROWS), pa.int64()), "factor": pa.array([1 + one % 7 for one in range(ROWS)], pa.int32())}
)
"""Those of customers, whose id is that of the row modulo ROWS."""
LOOKUP = f"lookups: {{client: {{lookup: customer, key: customer % {ROWS}}}}}\n"
"""The use of it in a source."""
LOOKUP_FILES = {"lookups/customer.yaml": "table: customers.parquet\nkey: id\ncolumns: {id: long, factor: int}\n"}
SHOP, AMOUNT = "lower(shop)", "abs(amount)"
"""Expressions that change no value of these events. Only Spark evaluates the first, so it evaluates both."""
FILES = {
    "hourline.yaml": "name: archive\n",
    "sources/sales.yaml": "topic: sales\nfields: {sale: long, shop: string, amount: int, customer: long, at: long}\n"
    "event_time: {expression: at, encoding: epoch_seconds}\n",
    "metrics/turnover.yaml": "source: sales\ndimensions: [shop]\n"
    "measures: {orders: count, takings: sum(amount), dearest: max(amount)}\n",
}
FIELDS = pa.schema(
    {"sale": pa.int64(), "shop": pa.string(), "amount": pa.int32(), "customer": pa.int64(), "at": pa.int64()}
)
TILES = pa.schema(
    {"hour": TIMESTAMP, "shop": pa.string(), "orders": pa.int64(), "takings": pa.int64(), "dearest": pa.int32()}
)


class Archive:
    """The project in ``folder``. ``truth`` has the tiles of all events that count, by hour and shop.

    With ``with_id``, each sale has an id and counts once, and one in 100 is repeated. ``with_expressions``, the
    dimension and a measure are expressions that Spark evaluates. They give the same tiles. ``with_lookup``, each amount
    is multiplied by the factor of its customer before it is summed.
    """

    def __init__(
        self, folder: Path, *, with_id: bool = False, with_expressions: bool = False, with_lookup: bool = False
    ) -> None:
        files = {**FILES}
        if with_id:
            files["sources/sales.yaml"] += "id: sale\n"
        if with_expressions:
            turnover = files["metrics/turnover.yaml"].replace("[shop]", f"{{shop: {SHOP}}}")
            files["metrics/turnover.yaml"] = turnover.replace("amount)", f"{AMOUNT})", 1)
        if with_lookup:
            files |= LOOKUP_FILES
            files["sources/sales.yaml"] += LOOKUP
            files["metrics/turnover.yaml"] = files["metrics/turnover.yaml"].replace(
                "sum(amount)", "sum(amount * client.factor)"
            )
        self.with_id, self.with_expressions, self.with_lookup = with_id, with_expressions, with_lookup
        self.project: Project = load_project(write_files(folder, files))
        if with_lookup:
            pq.write_table(FACTORS, self.table_of_lookup)
            refresh(self.project, self.project.lookups["customer"], wall_clock)
        source, metric = self.project.sources["sales"], self.project.metrics["turnover"]
        self.aggregation = AggregationPlan(source, metric, TILES)
        self.source_tables = open_source_tables(Layout.of(self.project), source, FIELDS, [self.aggregation])
        self.hours = self.per_hour = 0
        self._tiles: list[pa.Table] = []

    def write(self, hours: int, events: int) -> None:
        """Archive ``events`` in each of ``hours``, in order. Micro-batches have the maximum size, as in an import."""
        self.hours, self.per_hour, total = hours, events, hours * events
        for first in range(0, total, BATCH):
            self._micro_batch(first, min(first + BATCH, total))
            if self.cutoff % MICRO_BATCHES == 0:
                maintain_source(self.project, self.source_tables)
        maintain_source(self.project, self.source_tables)

    def arrive(self, events: int) -> None:
        """Archive ``events`` in the next hour, in a micro-batch of its own. Each hour has that number of events."""
        self.per_hour = events
        self._micro_batch(self.hours * events, (self.hours + 1) * events)
        self.hours += 1
        maintain_after(self.project, self.source_tables, self.cutoff)

    def publish(self, hours: int, first: int = 0, per_job: int = FOUR_WEEKS) -> None:
        """Publish the hours from the ``first`` on that are among the first ``hours``, with findings of an audit and the
        drift. Then the speed layer's maintenance prunes their provisional tiles.
        """
        truth, all_hours = self.truth, [FIRST + number * HOUR for number in range(hours)]
        for begin in range(first, hours, per_job):
            chosen = all_hours[begin : begin + per_job]
            self._publish(chosen, truth.filter(pc.is_in(truth["hour"], pa.array(chosen, TIMESTAMP))))
        maintain_source(self.project, self.source_tables)

    @property
    def table_of_lookup(self) -> Path:
        """The file that the lookup reads."""
        return self.project.root / "customers.parquet"

    @property
    def cutoff(self) -> int:
        """The latest sequence."""
        return len(self._tiles)

    @property
    def truth(self) -> pa.Table:
        """The expected rows of final: hour, shop and states, sorted."""
        sums = [("orders", "sum"), ("takings", "sum"), ("dearest", "max")]
        merged = pa.concat_tables(self._tiles).group_by(["hour", "shop"]).aggregate(sums)
        return merged.rename_columns(TILES.names).cast(TILES).sort_by([("hour", "ascending"), ("shop", "ascending")])

    def _publish(self, hours: list[datetime], rows: pa.Table) -> None:
        publication = Publication(self.project)
        staged = stage_metric(self.project, MetricTiles(self.aggregation, hours, self.cutoff, rows))
        drift = [HourDrift(at, measure, 1.0, 1.0, 1.0) for at in hours for measure in self.aggregation.metric.measures]
        of = {"audited": hours[-1], "source": "sales", "metric": "turnover", "severity": "fail", "success": True}
        found = [{**of, "hour": at, "expectation": f"expectation {which}"} for at in hours for which in range(4)]
        publication.publish(
            [MetricPublication(staged, drift=drift)], pa.Table.from_pylist(found, QUALITY_SCHEMA), hours[-1]
        )

    def _micro_batch(self, first: int, end: int) -> None:
        sequence, source_tables, count = self.cutoff + 1, self.source_tables, end - first
        random = np.random.default_rng(sequence)
        numbers = np.arange(first, end)
        seconds = numbers * 3600 // self.per_hour + int(FIRST.timestamp())
        repeated = (numbers % self.per_hour % 100 == 7) & self.with_id
        fields = {
            "sale": numbers - 5 * repeated,
            "shop": SHOPS.take(pa.array(random.integers(0, len(SHOPS), count))),
            "amount": pa.array(random.integers(1, 1000, count), pa.int32()),
            "customer": random.integers(0, 1_000_000, count),
            "at": seconds,
        }
        rows = archived_events("sales", numbers, seconds, repeated, fields)
        factors = FACTORS["factor"].take(pa.array(fields["customer"] % ROWS)) if self.with_lookup else 1
        tiles = (
            rows.append_column("worth", pc.multiply(rows["amount"], factors))
            .filter(pc.invert(rows["duplicate"]))
            .group_by(["hour", "shop"])
            .aggregate([([], "count_all"), ("worth", "sum"), ("amount", "max")])
        )
        tiles = tiles.rename_columns(TILES.names).cast(TILES)
        self._tiles.append(tiles)
        source_tables.append(source_tables.events, source_tables.events_schema, rows, sequence)
        source_tables.append(
            source_tables.provisional[self.aggregation.name],
            source_tables.provisional_schemas[self.aggregation.name],
            tiles,
            sequence,
        )
        counts = {
            row["hour"]: row["orders_sum"] for row in tiles.group_by("hour").aggregate([("orders", "sum")]).to_pylist()
        }
        row = progress_row(source_tables, sequence, first, int(repeated.sum()), counts)
        source_tables.finish(replace(row, lookups={"customer": 1} if self.with_lookup else {}))


def archived_events(
    topic: str, numbers: Numbers, seconds: Numbers, repeated: Numbers, fields: Mapping[str, Numbers | pa.Array]
) -> pa.Table:
    """The rows of the events table, without their sequence, of events with the offsets ``numbers`` and the event times
    ``seconds``.
    """
    count = len(numbers)
    alike = {"topic_id": pa.scalar(TOPIC_ID), "topic": pa.scalar(topic), "partition": pa.scalar(0, pa.int32())}
    rows = pa.table(
        {
            **{name: pa.repeat(value, count) for name, value in alike.items()},
            "offset": numbers,
            "event_time": pa.array(seconds * 1_000_000).cast(TIMESTAMP),
            "hour": pa.array(seconds // 3600 * 3_600_000_000).cast(TIMESTAMP),
            "duplicate": repeated,
            **fields,
        }
    )
    for column in EVENT_SCHEMA:
        if column.name not in ("sequence", *rows.column_names):
            rows = rows.append_column(column, pa.nulls(count, column.type))
    return rows


def progress_row(
    source_tables: SourceTables, sequence: int, first: int, duplicates: int, hours: Mapping[datetime, int]
) -> ProgressRow:
    """The progress of a micro-batch from the offset ``first`` on, with ``duplicates``, and with the numbers of events
    by hour that count.
    """
    accepted, newest = sum(hours.values()), max(hours)
    end = first + accepted + duplicates
    return ProgressRow(
        sequence,
        TOPIC_ID,
        source_tables.source.name,
        offsets=(OffsetsRead(0, first, end - 1),),
        counts=RecordCounts(records=end - first, accepted=accepted, duplicates=duplicates),
        hours=tuple(HourEvents(hour, count, late=0) for hour, count in hours.items()),
        metrics=source_tables.written_metrics(),
        clock=newest + timedelta(minutes=59),
        started=newest,
        finished=newest,
    )
