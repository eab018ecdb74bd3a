"""A value without bytes is a message of Protobuf whose members all have their defaults. Of other formats, it is none."""

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from hourline_core.ledger.decode_records import REFUSED, RecordDecoder
from hourline_core.model import Source
from hourline_core.model.decoding import decoding_of
from hourline_core.model.scratch_columns import (
    ARRIVED,
    EVENT_TIME,
    OUTCOME,
    REASON,
    RECORD_TIMESTAMP,
    RECORD_TIMESTAMP_TYPE,
    VALUE,
)
from hourline_core.validation.validator import Validator
from tests.support.protobuf import schema_of, write
from tests.support.validated_sources import NOW, as_table

NOON = datetime(2024, 3, 1, 12, tzinfo=UTC)
SCHEMA = schema_of("message M { int32 n = 1; string city = 2; optional string note = 3; }")
REQUIRED = schema_of("message M { optional int32 n = 1; required string city = 2; }", syntax="proto2")
DEFAULTS = {"n": 0, "city": "", "note": None}


def source(schema: str = SCHEMA, **fields: Any) -> Source:
    more = {"fields": fields} if fields else {}
    format = {"protobuf": {"schema": schema}}
    return Source.model_validate(
        {"name": "s", "topic": "t", "event_time": "record.timestamp", "format": format, **more}
    )


def validate(source: Source, *values: bytes | None, kind: str | None = "create") -> list[dict[str, Any]]:
    rows = [{VALUE: value, ARRIVED: NOW, RECORD_TIMESTAMP: NOON, RECORD_TIMESTAMP_TYPE: kind} for value in values]
    found: list[dict[str, Any]] = Validator(source).validate(as_table(rows)).to_pylist()
    return found


def test_a_message_of_defaults_alone_is_an_event_and_a_record_without_a_value_is_a_tombstone() -> None:
    n_is_3 = write(SCHEMA, "n: 3")
    rows = validate(source(), b"", None, n_is_3, b"")
    assert [row[OUTCOME] for row in rows] == ["accepted", "tombstone", "accepted", "accepted"]
    read = [{name: row[name] for name in DEFAULTS} for row in rows]
    assert read == [DEFAULTS, dict.fromkeys(DEFAULTS), {**DEFAULTS, "n": 3}, DEFAULTS]
    assert [row[EVENT_TIME] for row in rows] == [NOON, None, NOON, NOON]
    assert [row[VALUE] for row in rows] == [b"", None, n_is_3, b""]


@pytest.mark.parametrize(
    ("declared", "reason"),
    [
        (source(note={"type": "string", "required": True}), "required field 'note' is missing or null"),
        (source(REQUIRED), "invalid Protobuf in 'city': got nothing, and it is required"),
    ],
    ids=["field", "member"],
)
def test_a_message_of_defaults_alone_is_rejected_for_what_it_lacks(declared: Source, reason: str) -> None:
    (row,) = validate(declared, b"")
    assert (row[OUTCOME], row[REASON], row[VALUE]) == ("rejected", reason, b"")


def test_an_empty_row_of_an_imported_file_is_rejected() -> None:
    (row,) = validate(source(), b"", kind=None)
    assert (row[OUTCOME], row[REASON]) == ("rejected", "empty value")


@pytest.mark.parametrize(
    "format",
    [
        "json",
        {"csv": {"columns": ["n"]}},
        {"text": {"pattern": "(?P<n>.*)"}},
        {"avro": {"schema": '{"type": "record", "name": "R", "fields": [{"name": "n", "type": "null"}]}'}},
    ],
    ids=["json", "csv", "text", "avro"],
)
def test_an_empty_value_of_another_format_is_rejected(format: Any) -> None:
    declared = {"name": "s", "topic": "t", "event_time": "record.timestamp", "fields": {"n": "string"}}
    (row,) = validate(Source.model_validate({**declared, "format": format}), b"")
    assert (row[OUTCOME], row[REASON]) == ("rejected", "empty value")


def test_a_message_of_defaults_alone_that_was_rejected_becomes_an_event_when_it_is_decoded_anew() -> None:
    before, now = source(note={"type": "string", "required": True}), source()
    one = {"sequence": 1, "topic_id": "id", "topic": "t", "partition": 0, "offset": 0, "arrived": NOON}
    record = {"value": b"", "timestamp": NOON, "timestamp_type": "create", "decoding": decoding_of(before).hash}
    refused = pa.Table.from_pylist([{**dict.fromkeys(REFUSED.names), **one, **record}], REFUSED)
    (event,) = RecordDecoder(now, [decoding_of(before)]).of_rejected(refused, 1, 1).to_pylist()
    assert {name: event[name] for name in DEFAULTS} == DEFAULTS
