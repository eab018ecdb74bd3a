"""What `topics tail --source` gives beside the bytes: the fields as the source reads them, or why it rejects them."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hourline import load_project
from hourline.cli.topics.decoded_fields import DecodedFields
from hourline_core.model import Source
from hourline_core.runtime.topic_reader import TopicRecord
from tests.support.project_files import write_project

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
SENT = 1_772_445_600_123
SOURCE = """\
topic: clicks
event_time: EVENT_TIME
fields:
  at: timestamp
  page: {type: string, required: true}
  price: decimal(5,2)
  day: date
  sizes: array<double>
  place: "struct<x: int>"
  names: map<string, int>
"""


def source_of(folder: Path, event_time: str) -> Source:
    files = {"hourline.yaml": "name: shop\n", "sources/clicks.yaml": SOURCE.replace("EVENT_TIME", event_time)}
    return load_project(write_project(folder, files)).sources["clicks"]


def record(value: bytes | None, timestamp: int = SENT) -> TopicRecord:
    return TopicRecord("clicks", 0, 0, timestamp, "create", None, value, (("a", b"1"), ("a", None)))


def test_fields_and_reasons_are_those_of_the_source(tmp_path: Path) -> None:
    whole = (
        b'{"at": "2026-03-02T10:00:00+02:00", "page": "x", "price": 1.5, "day": "2026-03-02", '
        b'"sizes": [1.5, null], "place": {"x": 1}, "names": {"a": 2}}'
    )
    values = [whole, b'{"at": "2026-03-02T10:00:00Z"}', b"{", b"", None, b'{"page": "x", "at": null}']
    read, *others = DecodedFields(source_of(tmp_path, "at")).of([record(value) for value in values], NOW)
    assert read == {
        "fields": {
            "at": "2026-03-02T08:00:00Z",
            "page": "x",
            "price": "1.50",
            "day": "2026-03-02",
            "sizes": [1.5, None],
            "place": {"x": 1},
            "names": {"a": 2},
        }
    }
    assert json.loads(json.dumps(read, allow_nan=False)) == read
    missing, broken, empty, tombstone, without_time = others
    assert missing == {"rejected": "required field 'page' is missing or null"}
    assert broken["rejected"].startswith("invalid JSON")
    assert empty == {"rejected": "empty value"}
    assert tombstone == {}
    assert "event time" in without_time.get("rejected", "")


@pytest.mark.parametrize("event_time", ["record.timestamp", "at + interval 1 hour"])
def test_an_event_time_that_is_no_field_needs_none(tmp_path: Path, event_time: str) -> None:
    [read] = DecodedFields(source_of(tmp_path, event_time)).of([record(b'{"page": "x"}')], NOW)
    fields = read.get("fields", {})
    assert (fields.get("page"), fields.get("at")) == ("x", None)


@pytest.mark.parametrize("nanoseconds", [SENT * 1_000_000, -SENT * 1_000_000, 2**63 - 1])
def test_a_timestamp_of_kafka_in_another_unit_does_not_hide_the_fields(tmp_path: Path, nanoseconds: int) -> None:
    decoded = DecodedFields(source_of(tmp_path, "at"))
    value = b'{"at": "2026-03-02T10:00:00Z", "page": "x"}'
    assert decoded.of([record(value, nanoseconds)], NOW) == decoded.of([record(value)], NOW)
    [read] = DecodedFields(source_of(tmp_path, "record.timestamp")).of([record(value, nanoseconds)], NOW)
    assert "event time" in read.get("rejected", "")
