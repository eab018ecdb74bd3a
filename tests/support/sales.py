"""A project of sales in shops, whose tables are written by the product's own commits, without Kafka and Spark."""

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa

from batch_layer.aggregate import MetricTiles
from batch_layer.drift.by_cause import HourDrift
from batch_layer.publication import MetricPublication, Publication
from batch_layer.reports.audit_page import write_page
from batch_layer.stage import stage_metric
from hourline_core.compute.aggregation import AggregationPlan
from hourline_core.ledger.layout import QUALITY_SCHEMA, REJECTED_SCHEMA, TIMESTAMP, Layout
from hourline_core.ledger.progress_rows import HourEvents, ProgressRow, RecordCounts
from hourline_core.ledger.report_pages import report_site
from hourline_core.model import EventTime, Field, Measure, Metric, Project, Settings, Source
from hourline_core.model.serving import ServeSettings
from hourline_core.runtime.ports import free_ports
from speed_layer.commit.source_tables import open_source_tables

BASE = datetime(2026, 3, 2, 8, tzinfo=UTC)
SOURCE = Source(
    name="sales", topic="sales", fields={"shop": Field(type="string")}, event_time=EventTime(expression="at")
)
METRICS = {
    "by_shop": Metric(
        name="by_shop",
        source="sales",
        dimensions={"shop": "shop"},
        measures={"n": Measure(kind="count"), "last": Measure.parse("max(n)")},
    ),
    "turnover": Metric(name="turnover", source="sales", dimensions={}, measures={"n": Measure(kind="count")}),
}
STATES = {"by_shop": ("shop", "n", "last"), "turnover": ("n",)}
TYPES = {"shop": pa.string(), "n": pa.int64(), "last": pa.int64()}
TILINGS = {
    name: AggregationPlan(
        SOURCE,
        metric,
        pa.schema({"hour": TIMESTAMP, **{column: TYPES[column] for column in STATES[name]}}),
    )
    for name, metric in METRICS.items()
}
Sale = tuple[int, str]
"""In which hour since BASE, in which shop."""


def hour(number: int) -> datetime:
    return BASE + timedelta(hours=number)


def key(number: int) -> str:
    return f"{hour(number):%Y-%m-%dT%H:00Z}"


class Sales:
    """A project whose tables are written by the product's own commits, without Kafka and Spark."""

    def __init__(self, folder: Path) -> None:
        settings = Settings(serve=ServeSettings(port=free_ports(1)[0]))
        self.project = Project(folder, settings, {"sales": SOURCE}, METRICS)
        self.source_tables = open_source_tables(
            Layout.of(self.project), SOURCE, pa.schema({"shop": pa.string()}), list(TILINGS.values())
        )
        self.sold: list[Sale] = []
        self.clock = BASE
        self.sequence = 0

    def sell(self, *sales: Sale, late: int = 0, moves_clock: bool = True) -> None:
        """One micro-batch; so many events of each of its hours came after it had closed. The clock may not believe the
        event times.
        """
        self.sold += sales
        self.sequence += 1
        source_tables = self.source_tables
        for name, aggregation in TILINGS.items():
            source_tables.append(
                source_tables.provisional[aggregation.name],
                source_tables.provisional_schemas[aggregation.name],
                _tiles(name, sales),
                self.sequence,
            )
        counts = Counter(number for number, _ in sales)
        if moves_clock:
            self.clock = max(self.clock, *(hour(number) + timedelta(minutes=59) for number, _ in sales))
        source_tables.finish(
            ProgressRow(
                self.sequence,
                "topic-id",
                "sales",
                offsets=(),
                counts=RecordCounts(records=len(sales), accepted=len(sales)),
                hours=tuple(HourEvents(hour(number), count, late) for number, count in counts.items()),
                metrics=source_tables.written_metrics(),
                clock=self.clock,
                started=BASE,
                finished=datetime.now(UTC),
            )
        )

    def refuse(self, count: int) -> None:
        """One micro-batch of records that are rejected."""
        self.sequence += 1
        tables, now = self.source_tables, datetime.now(UTC)
        refused = {"topic": "sales", "partition": 0, "reason": "empty value", "arrived": now}
        rows = pa.Table.from_pylist([{**refused, "offset": number} for number in range(count)], REJECTED_SCHEMA)
        tables.append(tables.rejected, REJECTED_SCHEMA, rows.drop_columns(["sequence"]), self.sequence)
        last = tables.progress.last_row()
        assert last, "something was sold"
        row = last.without_records(self.sequence, last.source_clock, now)
        tables.finish(replace(row, counts=RecordCounts(records=count, rejected=count)))

    def publish(self, *numbers: int, blocked: tuple[int, ...] = ()) -> None:
        """Recompute these hours, all of whose audits pass, but for those that are ``blocked``."""
        publication = Publication(self.project)
        chosen, marks = [hour(number) for number in numbers], {hour(number): "" for number in blocked}
        staged, found = [], []
        for name, aggregation in TILINGS.items():
            rows = _tiles(name, [sale for sale in self.sold if sale[0] in numbers])
            drift = [HourDrift(moment, "n", 1.0, 1.0, 1.0) for moment in chosen if moment not in marks]
            tiles = MetricTiles(aggregation, chosen, self.sequence, rows)
            staged.append(MetricPublication(stage_metric(self.project, tiles), marks, drift))
            audit = {
                "audited": BASE,
                "source": "sales",
                "severity": "fail",
                "metric": name,
                "expectation": "expect_sense",
                "about": "n",
            }
            audit |= {"origin": "user", "cutoff": self.sequence}
            found += [
                {**audit, "hour": moment, "success": moment not in marks, "found": "no sense in it"}
                for moment in chosen
            ]
            rows = pa.Table.from_pylist(
                [{**one, "publication": publication.number} for one in found if one["metric"] == name], QUALITY_SCHEMA
            )
            write_page(
                report_site(self.project), self.project, publication.number, "sales", name, rows, rows.slice(0, 0), BASE
            )
        publication.publish(staged, pa.Table.from_pylist(found, QUALITY_SCHEMA), BASE)


def _tiles(name: str, sales: tuple[Sale, ...] | list[Sale]) -> pa.Table:
    counts = Counter(sales if name == "by_shop" else [(number, "") for number, _ in sales])
    rows = [
        {"hour": hour(number), "shop": shop, "n": count, "last": number} for (number, shop), count in counts.items()
    ]
    return pa.Table.from_pylist(
        [{column: row[column] for column in TILINGS[name].schema.names} for row in rows], TILINGS[name].schema
    )
