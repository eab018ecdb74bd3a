"""A project's tables without Kafka and Spark: micro-batches and publications by the product's own commits, answers
compared with plain lists.

Deterministic, so that a killed process can do it again: the n-th micro-batch is the same in every process.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa

import serving_layer
from batch_layer.aggregate import MetricTiles
from batch_layer.drift.by_cause import HourDrift
from batch_layer.job import open_job
from batch_layer.plan import PlannedHour
from batch_layer.publication import MetricPublication, Publication
from batch_layer.stage import stage_metric
from hourline_core.compute.aggregation import AggregationPlan
from hourline_core.ledger.layout import QUALITY_SCHEMA, REJECTED_SCHEMA, TIMESTAMP, Layout
from hourline_core.ledger.progress import Progress
from hourline_core.ledger.progress_rows import Gap, HourEvents, OffsetsRead, Position, ProgressRow, RecordCounts
from hourline_core.model import BatchSettings, EventTime, Field, Measure, Metric, Project, Settings, Source
from hourline_core.model.hours import wall_clock
from hourline_core.storage.opening import open_table
from speed_layer.commit.source_tables import open_source_tables

BASE = datetime(2024, 3, 1, tzinfo=UTC)
SOURCE = Source(
    name="clicks",
    description="Clicks, numbered",
    topic="clicks",
    fields={"n": Field(type="long")},
    event_time=EventTime(expression="at"),
)
METRICS = {
    "totals": Metric(name="totals", source="clicks", dimensions={}, measures={"n": Measure(kind="sum", argument="n")}),
    "odd": Metric(
        name="odd",
        source="clicks",
        dimensions={},
        measures={"n": Measure(kind="sum", argument="n")},
        where="pmod(hour(hour), 2) = 1",  # which only Spark evaluates
    ),
}
TILE_SCHEMA = pa.schema({"hour": TIMESTAMP, "n": pa.int64()})
TILINGS = [AggregationPlan(SOURCE, metric, TILE_SCHEMA) for metric in METRICS.values()]
_TEXT = pa.string()
_REFUSED = pa.schema([column for column in REJECTED_SCHEMA if column.name != "sequence"])


def hour(number: int) -> datetime:
    return BASE + timedelta(hours=number)


SHOP = {
    "hourline.yaml": "name: shop\n",
    "sources/clicks.yaml": """
        topic: clicks
        fields: {n: long, at: long}
        event_time: {expression: at, encoding: epoch_seconds}
    """,
    "metrics/totals.yaml": "source: clicks\nmeasures: {n: sum(n)}\n",
    "metrics/odd.yaml": "source: clicks\nmeasures: {n: sum(n)}\nwhere: n > 1\n",
    "metrics/by_day.yaml": "from: totals\nwindow: {size: 1 day, zone: America/New_York}\n",
}
"""The files of a project with two metrics, and one over the days in New York of the first."""


class BareTables:
    """The tables of one source in ``folder``, with a metric over all events and one over those in odd hours.

    ``hours`` are what the n-th event's hour is; the micro-batches take the events in their order, some at a time.
    """

    def __init__(self, folder: Path, hours: list[int]) -> None:
        # What only an older answer needs is deleted, too, as if answers had been given long ago.
        settings = Settings(batch=BatchSettings(answers_kept=timedelta(0)))
        self.project = Project(folder, settings, {"clicks": SOURCE}, METRICS)
        self.layout = Layout.of(self.project)
        self.hours = hours
        self.findings: list[dict[str, Any]] = []
        """What audits find beside what they always do: rows of the quality table."""

    def start(self, *new_fields: str, of: pa.DataType = _TEXT) -> None:
        """Open them for writing, as any start of the speed layer does: nothing but the tables is left. ``new_fields``
        (``of`` a type) are declared since.
        """
        fields = pa.schema({"n": pa.int64(), **dict.fromkeys(new_fields, of)})
        self.source_tables = open_source_tables(self.layout, SOURCE, fields, TILINGS)
        self.sequence = self.source_tables.first_sequence
        self.offset = self.source_tables.progress.reading("topic-id").next_offsets.get(0, 0)

    def values_of(self, field: str, hours: list[int]) -> pa.Array:
        """What the events of these hours have in a field other than ``n``."""
        return pa.nulls(len(hours))

    def micro_batch(self, size: int) -> None:
        """Archive, publish as provisional, and finish the next ``size`` events, among which lies one record that is
        rejected.
        """
        batch = self.hours[self.offset : self.offset + size]
        size = len(batch)
        moments = pa.array([hour(number) for number in batch], TIMESTAMP)
        addresses = {
            "topic_id": ["topic-id"] * size,
            "topic": ["clicks"] * size,
            "partition": [0] * size,
            "offset": list(range(self.offset, self.offset + size)),
        }
        source_tables = self.source_tables
        columns = pa.table(
            {**addresses, "event_time": moments, "hour": moments, "duplicate": [False] * size, "n": [1] * size}
        )
        for field in set(source_tables.events_schema.names) - {"sequence", *columns.column_names}:
            columns = columns.append_column(field, self.values_of(field, batch))
        source_tables.append(source_tables.events, source_tables.events_schema, columns, self.sequence)
        refused = {
            "topic_id": "topic-id",
            "topic": "clicks",
            "partition": 1,
            "offset": self.sequence,
            "reason": "invalid JSON",
            "value": b"{",
        }
        source_tables.append(
            source_tables.rejected, REJECTED_SCHEMA, pa.Table.from_pylist([refused], _REFUSED), self.sequence
        )
        for aggregation in TILINGS:
            if rows := tiles(aggregation.metric.name, batch):
                source_tables.append(
                    source_tables.provisional[aggregation.name],
                    source_tables.provisional_schemas[aggregation.name],
                    rows,
                    self.sequence,
                )
        source_tables.finish(self._progress(batch))
        self.sequence += 1
        self.offset += size

    def publish(
        self,
        *numbers: int,
        metrics: Collection[str] = tuple(METRICS),
        cost: Mapping[str, float] | None = None,
        blocked: Collection[int] = (),
    ) -> None:
        """Recompute these hours of ``metrics``, up to what is finished, and publish them; ``cost`` is said to be what
        that took.
        """
        aggregations = [aggregation for aggregation in TILINGS if aggregation.metric.name in metrics]
        publication = Publication(self.project)
        options = self.layout.storage_options
        cutoff = Progress(open_table(self.layout.progress(SOURCE), options)).sequence
        events = open_table(self.layout.events(SOURCE), options).to_pyarrow_table(filters=[("sequence", "<=", cutoff)])
        counted = [
            number for number in (self.hours[offset] for offset in events["offset"].to_pylist()) if number in numbers
        ]
        chosen = [hour(number) for number in numbers]
        marks = {hour(number): "" for number in blocked}
        drift = [HourDrift(moment, "n", 1.0, 1.0, 1.0) for moment in chosen if moment not in marks]
        computed = [
            (aggregation, tiles(aggregation.metric.name, counted) or TILE_SCHEMA.empty_table())
            for aggregation in aggregations
        ]
        staged = [
            MetricPublication(stage_metric(self.project, MetricTiles(aggregation, chosen, cutoff, rows)), marks, drift)
            for aggregation, rows in computed
        ]
        audit = {
            "audited": BASE,
            "source": "clicks",
            "severity": "fail",
            "cutoff": cutoff,
            "expectation": "rows_match",
            "about": "",
            "origin": "declaration",
            "found": "",
        }
        found = [
            {**audit, "metric": name, "hour": moment, "success": moment not in marks}
            for name in metrics
            for moment in chosen
        ]
        found.append({**audit, "source": "others", "metric": None, "hour": chosen[0], "success": False})
        found += [{**audit, **finding} for finding in self.findings]
        publication.publish(staged, pa.Table.from_pylist(found, QUALITY_SCHEMA), BASE, cost)

    def left_out(self, planned: list[PlannedHour]) -> list[PlannedHour]:
        """The hours of ``planned`` that a job would leave out now."""
        with open_job(self.project, planned, wall_clock, _no_spark) as job:
            left = [item for item in planned if item not in job.left_out]
            assert [(item.metric, item.hour) for item in job.hours] == [(item.metric, item.hour) for item in left]
            return job.left_out

    def check(self) -> None:
        """The answers are: every event of a finished micro-batch, once."""
        batches = open_table(self.layout.progress(SOURCE), {}).to_pyarrow_table()["offsets"].to_pylist()
        finished = max((read["last"] + 1 for batch in batches for read in batch), default=0)
        with serving_layer.connect(self.project) as connection:
            for metric in METRICS:
                assert dict(connection.sql(f"SELECT hour, n FROM {metric}").fetchall()) == expected(
                    metric, self.hours[:finished]
                ), metric

    def lose(self, first_hour: int | None, last_hour: int) -> int:
        """Commit a gap of ten offsets, and return its sequence. None: where its hours begin is not known."""
        progress, sequence = self.source_tables.progress, self.sequence
        first = None if first_hour is None else hour(first_hour)
        gap = Gap(0, self.offset, self.offset + 10, None, BASE, first, hour(last_hour))
        position = Position(0, self.offset, self.offset + 10)
        row = ProgressRow.of_source_reset(
            progress.last_row(), sequence, ("topic-id", "clicks"), (position,), (gap,), BASE, None, ()
        )
        progress.reset([row], {}, of_metric=False)
        self.sequence += 1
        self.offset += 10
        self.hours += [0] * 10  # which are read by nobody
        return sequence

    def _progress(self, batch: list[int]) -> ProgressRow:
        return ProgressRow(
            self.sequence,
            "topic-id",
            "clicks",
            offsets=(OffsetsRead(0, self.offset, self.offset + len(batch) - 1),),
            counts=RecordCounts(records=len(batch) + 1, accepted=len(batch), rejected=1),
            hours=tuple(HourEvents(hour(number), count, late=0) for number, count in Counter(batch).items()),
            metrics=self.source_tables.written_metrics(),
            clock=hour(max(self.hours[: self.offset + len(batch)])),
            started=BASE,
            finished=datetime.now(UTC),
        )


def _no_spark() -> NoReturn:
    raise AssertionError("nothing is computed here")


def expected(metric: str, events: list[int]) -> dict[datetime, int]:
    return {hour(number): count for number, count in Counter(events).items() if metric == "totals" or number % 2}


def tiles(metric: str, events: list[int]) -> pa.Table:
    """The metric's tiles of ``events``; falsy when there are none."""
    return pa.Table.from_pylist(
        [{"hour": hour, "n": count} for hour, count in expected(metric, events).items()], TILE_SCHEMA
    )
