"""Fields that are added to a source, and removed from it, while the archive has events."""

from pathlib import Path

import pyarrow as pa

import serving_layer
from speed_layer.commit.source_tables import open_source_tables
from tests.support.visits import FIELDS, Visit, Visits, hour


def test_a_field_that_is_not_declared_any_more_is_null_in_new_events(tmp_path: Path) -> None:
    visits = Visits(tmp_path)
    with_field = FIELDS.append(pa.field("referrer", pa.string()))
    visits.source_tables = open_source_tables(visits.layout, visits.source, with_field, [visits.aggregation])
    visits.sequence = visits.source_tables.first_sequence
    visits.micro_batch(Visit(0, "a", 1))
    visits.start()
    tables = visits.source_tables
    declared = pa.schema([column for column in tables.events_schema if column.name not in ("sequence", "referrer")])
    event = {"topic_id": "topic-id", "topic": "visits", "partition": 0, "offset": 1, "event_time": hour(1)}
    rows = pa.Table.from_pylist([{**event, "hour": hour(1), "duplicate": False, "page": "b"}], declared)
    tables.append(tables.events, tables.events_schema, rows, visits.sequence)
    visits.micro_batch(Visit(2, "c", 1))
    with serving_layer.connect(visits.project) as connection:
        events = connection.sql("SELECT page, referrer FROM events_visits ORDER BY hour").fetchall()
    assert events == [("a", None), ("b", None), ("c", None)]
