"""Fields that are added to a source, and removed from it, while the archive has events."""

from pathlib import Path
from typing import Any

import pyarrow as pa

import serving_layer
from hourline_core.ledger.layout import TIMESTAMP
from hourline_core.model import scratch_columns as columns
from speed_layer.commit.source_tables import open_source_tables
from speed_layer.intake.part import Assignment, IntakePlan
from speed_layer.intake.part_builder import PartBuilder
from tests.support.visits import FIELDS, Visit, Visits, hour

EVALUATED = pa.schema(
    {
        columns.TOPIC: pa.string(),
        columns.PARTITION: pa.int32(),
        columns.OFFSET: pa.int64(),
        columns.PLACE: pa.int32(),
        columns.EVENT_TIME: TIMESTAMP,
        columns.HOUR: TIMESTAMP,
        columns.OUTCOME: pa.string(),
        columns.ID: pa.string(),
        columns.ARRIVED: TIMESTAMP,
        columns.KEY: pa.binary(),
        columns.HEADERS: pa.map_(pa.string(), pa.binary()),
        columns.RECORD_TIMESTAMP: TIMESTAMP,
        columns.RECORD_TIMESTAMP_TYPE: pa.string(),
        columns.VALUE: pa.binary(),
        columns.VALUE_CRC: pa.int64(),
        columns.VALUE_SIZE: pa.int32(),
        "page": pa.string(),
    }
)


def event() -> dict[str, Any]:
    """An event without the field."""
    return {
        columns.TOPIC: "visits",
        columns.PARTITION: 0,
        columns.OFFSET: 1,
        columns.PLACE: 0,
        columns.EVENT_TIME: hour(1),
        columns.HOUR: hour(1),
        columns.OUTCOME: "accepted",
        columns.ARRIVED: hour(1),
        "page": "b",
    }


def test_a_field_that_is_not_declared_any_more_is_null_in_new_events(tmp_path: Path) -> None:
    visits = Visits(tmp_path)
    with_field = FIELDS.append(pa.field("referrer", pa.string()))
    visits.source_tables = open_source_tables(visits.layout, visits.source, with_field, [visits.aggregation])
    visits.sequence = visits.source_tables.first_sequence
    visits.micro_batch(Visit(0, "a", 1))
    visits.start()
    tables = visits.source_tables
    events, rejected, quarantine = (
        folder(visits.source) for folder in (visits.layout.events, visits.layout.rejected, visits.layout.quarantine)
    )
    plan = IntakePlan(visits.source, {}, events, rejected, quarantine, {}, tables.events_schema, {}, "decoding")
    assignment = Assignment(visits.sequence, {"visits": "topic-id"}, tables.clock, hour(1))
    builder = PartBuilder(plan, assignment, {})
    builder.add(pa.Table.from_pylist([event()], EVALUATED))
    tables.append_files(tables.events, builder.finish().events, visits.sequence)
    visits.micro_batch(Visit(2, "c", 1))
    with serving_layer.connect(visits.project) as connection:
        archived = connection.sql("SELECT page, referrer FROM events_visits ORDER BY hour").fetchall()
    assert archived == [("a", None), ("b", None), ("c", None)]
