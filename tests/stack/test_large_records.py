"""A large record that becomes many events is counted within the memory of a default project, and its bytes are kept."""

import json
from pathlib import Path

import serving_layer
from speed_layer.spark_session import speed_session
from tests.support import observed
from tests.support.project_files import write_project
from tests.support.stack_project import StackProject

FILES = {
    "hourline.yaml": 'kafka: {bootstrap: "${KAFKA}"}\nspark: {master: "local[1]"}\n',
    "sources/orders.yaml": "topic: large_records\nfields: {items: 'array<struct<n: int, at: timestamp>>'}\n"
    "explode: {item: items}\nevent_time: item.at\npartitions: 1\n",
    "metrics/counts.yaml": "source: orders\nmeasures: {events: count, total: sum(item.n)}\n",
}
EVENTS = 5_000


def test_a_record_of_half_a_megabyte_becomes_thousands_of_events(kafka: str, tmp_path: Path) -> None:
    project = StackProject(write_project(tmp_path, FILES), kafka, {})
    good, bad = {"n": 1, "at": "2024-05-06T20:15:00Z"}, {"n": 1, "at": None}
    record = {"undeclared": "x" * 500_000, "items": [*[good] * EVENTS, bad, bad]}
    project.send("orders", [record])
    with speed_session(project.project) as spark:
        (finished,) = observed.drain(spark, project.project, kafka).batches
    assert (finished.records, finished.accepted, finished.rejected) == (1, EVENTS, 2)
    with serving_layer.connect(project.project) as connection:
        assert connection.answer("SELECT events, total FROM counts").fetchall() == [(EVENTS, EVENTS)]
    value = json.dumps(record, ensure_ascii=False).encode()
    kept = [row["_hourline_value"] for row in project.table("events", "orders", ["_hourline_value"])]
    assert sorted(kept, key=lambda one: one is None) == [value, *[None] * (EVENTS - 1)]
    assert [row["value"] for row in project.table("rejected", "orders", ["value"])] == [value, None]
    with serving_layer.connect(project.project) as connection:
        assert connection.sql("SELECT value FROM rejected_orders").fetchall() == [(value,)] * 2
