"""A source of visits with a metric of two dimensions, without Kafka and Spark: written by the product's own commits,
counted by plain Python.

One dimension is a field, the other an expression; a visit that is sent again is a duplicate, recognised at once or,
when ``missed``, not.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from datasketches import update_theta_sketch

from batch_layer.aggregate import MetricTiles
from batch_layer.drift.by_cause import Drift
from batch_layer.drift.stages_from_archive import Replayed
from batch_layer.publication import MetricPublication, Publication
from batch_layer.stage import stage_metric
from hourline import load_project
from hourline_core.compute.aggregation import AggregationPlan
from hourline_core.ledger.layout import QUALITY_SCHEMA, TIMESTAMP, Layout
from hourline_core.ledger.progress_rows import HourEvents, OffsetsRead, ProgressRow, RecordCounts
from hourline_core.model import Metric
from hourline_core.sql.database import open_database
from speed_layer.commit.source_tables import open_source_tables
from tests.support.project_files import write_project
from tests.support.window_oracle import parse_window

BASE = datetime(2024, 3, 1, tzinfo=UTC)
FILES = {
    "hourline.yaml": "name: site\n",
    "sources/visits.yaml": "topic: visits\nfields: {visit: string, page: string, ms: long, at: string}\nevent_time: at\nid: visit\n",
    "metrics/loads.yaml": """\
        description: How long pages take
        source: visits
        dimensions: [page, slow: ms > 100]
        where: ms >= 0
        measures: {visits: count, mean_ms: mean(ms), worst: max(ms), pages: distinct(page)}
        """,
    "metrics/unseen.yaml": "source: visits\nmeasures: {visits: count}\n",
}
TILES = pa.schema(
    {
        "hour": TIMESTAMP,
        "page": pa.string(),
        "slow": pa.bool_(),
        "visits": pa.int64(),
        "mean_ms__n": pa.int64(),
        "mean_ms__total": pa.decimal128(29, 0),
        "worst": pa.int64(),
        "pages": pa.binary(),
    }
)


def tile_schema(metric: Metric) -> pa.Schema:
    bounds = [pa.field(name, TIMESTAMP) for name in (("session_start", "session_end") if metric.session else ())]
    panes = [pa.field("pane", TIMESTAMP)] if metric.pane else []
    return pa.schema([TILES.field(0), *panes, *list(TILES)[1:], *bounds])


FIELDS = pa.schema({"visit": pa.string(), "page": pa.string(), "ms": pa.int64(), "at": pa.string()})


@dataclass(frozen=True)
class Visit:
    hour: int
    page: str | None
    ms: int
    visit: str | None = None
    missed: bool = False
    sequence: int = 0
    duplicate: bool = False
    late: bool = False
    minute: int = 0
    offset: int = 0

    @property
    def time(self) -> datetime:
        return hour(self.hour) + timedelta(minutes=self.minute)

    @property
    def slow(self) -> bool:
        return self.ms > 100


def hour(number: int) -> datetime:
    return BASE + timedelta(hours=number)


def values(visits: Iterable[Visit]) -> dict[str, Any]:
    """The measures over ``visits``, counted one by one."""
    seen = list(visits)
    if not seen:
        return {"visits": None, "mean_ms": None, "worst": None, "pages": None}
    milliseconds = [visit.ms for visit in seen]
    pages = {visit.page for visit in seen if visit.page is not None}
    return {
        "visits": len(seen),
        "mean_ms": sum(milliseconds) / len(seen),
        "worst": max(milliseconds),
        "pages": len(pages),
    }


def first_of_each(visits: Iterable[Visit]) -> list[Visit]:
    """Without those that repeat an id of their hour."""
    seen: set[tuple[int, str]] = set()
    found = []
    for visit in visits:
        if visit.visit is None or (visit.hour, visit.visit) not in seen:
            found.append(visit)
        if visit.visit is not None:
            seen.add((visit.hour, visit.visit))
    return found


def tiles(visits: Iterable[Visit], metric: Metric) -> pa.Table:
    """Their partial states, as Spark would compute them for ``metric``."""
    pane = metric.pane
    groups: defaultdict[tuple[Any, ...], list[Visit]] = defaultdict(list)
    for visit in visits:
        start = [] if pane is None else [hour(visit.hour) + (visit.time - hour(visit.hour)) // pane * pane]
        groups[hour(visit.hour), *start, visit.page, visit.slow].append(visit)
    schema = tile_schema(metric)
    rows = []
    for key, group in groups.items():
        sketch = update_theta_sketch(12)
        for visit in group:
            if visit.page is not None:
                sketch.update(f".{visit.page}")
        total = sum(visit.ms for visit in group)
        times = [visit.time for visit in group]
        bounds = {"session_start": min(times), "session_end": max(times)} if metric.session else {}
        states = (
            len(group),
            len(group),
            total,
            max(visit.ms for visit in group),
            sketch.compact().serialize(),
        )
        # A test may add a measure of its own.
        rows.append(dict(zip(schema.names, (*key, *states), strict=False)) | bounds)
    return pa.Table.from_pylist(rows, schema)


class Visits:
    """The project in ``folder``, its tables, and all visits of finished micro-batches.

    With ``drift``, a publication also measures by how much its hours changed and why, which takes most of its time.
    """

    def __init__(self, folder: Path, window: str = "1h", *, drift: bool = False) -> None:
        self.project = load_project(write_project(folder, FILES))
        loads = self.project.metrics["loads"].model_copy(update={"window": parse_window(window)})
        self.project = replace(self.project, metrics={**self.project.metrics, "loads": loads})
        self.source, self.metric = self.project.sources["visits"], self.project.metrics["loads"]
        self.layout = Layout.of(self.project)
        self.aggregation = AggregationPlan(self.source, self.metric, tile_schema(self.metric))
        self.visits: list[Visit] = []
        self.cutoffs: dict[int, int] = {}
        self.clock = BASE
        self.publications = 0
        self.drift = drift
        self.expectations = "expectations"
        """The hash of those that blocked hours did not pass."""

    def start(self, *, knows_metric: bool = True) -> None:
        """As a start of the speed layer does; a metric that it does not know is declared later."""
        self.source_tables = open_source_tables(
            self.layout, self.source, FIELDS, [self.aggregation] if knows_metric else []
        )
        self.sequence = self.source_tables.first_sequence

    def micro_batch(self, *visits: Visit, moves_clock: bool = True) -> None:
        """Archive, publish as provisional, and finish. The clock may not believe the event times."""
        source_tables, offset = self.source_tables, len(self.visits)
        seen = {(visit.hour, visit.visit) for visit in self.visits if visit.visit}
        batch = []
        for number, visit in enumerate(visits):
            late = bool(self.visits) and hour(visit.hour) + timedelta(hours=2) <= self.clock
            duplicate = not visit.missed and (visit.hour, visit.visit) in seen
            known = replace(visit, sequence=self.sequence, offset=offset + number)
            batch.append(replace(known, duplicate=duplicate, late=late))
        new = [visit for visit in batch if not visit.duplicate]
        rows = [
            {
                **{
                    "topic_id": "topic-id",
                    "topic": "visits",
                    "partition": 0,
                    "offset": visit.offset,
                    "event_time": visit.time,
                },
                **{
                    "hour": hour(visit.hour),
                    "duplicate": visit.duplicate,
                    "record": None,
                    "visit": visit.visit,
                    "page": visit.page,
                    "ms": visit.ms,
                },
            }
            for visit in batch
        ]
        events = pa.schema([column for column in source_tables.events_schema if column.name != "sequence"])
        source_tables.append(
            source_tables.events, source_tables.events_schema, pa.Table.from_pylist(rows, events), self.sequence
        )
        for name in source_tables.provisional:
            source_tables.append(
                source_tables.provisional[name],
                source_tables.provisional_schemas[name],
                tiles(new, self.metric),
                self.sequence,
            )
        if moves_clock:
            self.clock = max(self.clock, *(visit.time for visit in batch))
        hours = tuple(
            HourEvents(
                hour(number),
                events=sum(v.hour == number for v in new),
                late=sum(v.hour == number and v.late for v in new),
            )
            for number in sorted({visit.hour for visit in new})
        )
        source_tables.finish(
            ProgressRow(
                self.sequence,
                "topic-id",
                "visits",
                offsets=(OffsetsRead(0, offset, offset + len(batch) - 1),),
                counts=RecordCounts(records=len(batch), accepted=len(new), duplicates=len(batch) - len(new)),
                hours=hours,
                metrics=source_tables.written_metrics(),
                clock=self.clock,
                started=self.arrived(self.sequence),
                finished=self.arrived(self.sequence),
            )
        )
        self.visits += batch
        self.sequence += 1

    def publish(self, *hours: int, blocked: Collection[int] = (), person: str | None = None) -> None:
        """Recompute these hours up to what is finished; those that are blocked do not pass, and who accepts what did
        not is kept.
        """
        cutoff = self.sequence - 1
        publication = Publication(self.project)
        chosen = [hour(number) for number in hours]
        counted = first_of_each(self.visits)
        rows = tiles((visit for visit in counted if visit.hour in hours), self.metric)
        staged = stage_metric(self.project, MetricTiles(self.aggregation, chosen, cutoff, rows))
        metric = MetricPublication(staged, dict.fromkeys(map(hour, blocked), self.expectations))
        if self.drift and metric.passed:
            with open_database(self.project) as (database, snapshot):
                (served,) = snapshot.served
                drift = Drift(database, served, cutoff, self._replay)
                metric = replace(metric, drift=drift.of(self.aggregation, staged.rows, metric.passed))
        moment = self.published(self.publications + 1)
        audit = {
            "audited": moment,
            "source": "visits",
            "metric": "loads",
            "declaration": self.aggregation.declaration,
            "cutoff": cutoff,
            "about": "worst",
        }
        audit |= {"expectation": "expect_column_max_to_be_between", "origin": "user", "severity": "fail"}
        found = [
            {
                **audit,
                "hour": one,
                "success": one not in metric.blocked,
                "found": "900" if one in metric.blocked else "",
            }
            for one in chosen
        ]
        if person:
            found = [
                {**row, "expectation": "accepted", "origin": "person", "severity": "warn", "found": person}
                for row in found
            ]
        publication.publish([metric], pa.Table.from_pylist(found, QUALITY_SCHEMA), moment)
        self.publications += 1
        self.cutoffs |= {number: cutoff for number in hours if number not in blocked}

    def _replay(self, hours: list[datetime]) -> Replayed:
        once = set(first_of_each(self.visits))
        counting = [
            v for v in self.visits if (v in once if v.sequence <= self.cutoffs.get(v.hour, 0) else not v.duplicate)
        ]
        counted, first = ([v for v in of if hour(v.hour) in hours] for of in (counting, first_of_each(self.visits)))
        return Replayed(tiles(counted, self.metric), tiles(first, self.metric), {})

    def final(self, number: int) -> list[Visit]:
        """The visits of one hour that its recompute counted."""
        return [v for v in first_of_each(self.visits) if v.hour == number and v.sequence <= self.cutoffs.get(number, 0)]

    def provisional(self, number: int) -> list[Visit]:
        """The visits of one hour that the speed layer adds to that."""
        return [
            v for v in self.visits if v.hour == number and v.sequence > self.cutoffs.get(number, 0) and not v.duplicate
        ]

    @staticmethod
    def arrived(sequence: int) -> datetime:
        return BASE + timedelta(days=1, seconds=sequence)

    @staticmethod
    def published(publication: int) -> datetime:
        return BASE + timedelta(days=1, hours=publication)


def chosen(visits: Iterable[Visit], cell: Mapping[str, str | None]) -> list[Visit]:
    """Those of ``visits`` in the groups with these values of dimensions, as text."""
    return [v for v in visits if cell.items() <= {"page": v.page, "slow": "true" if v.slow else "false"}.items()]
