"""Archived records name their schemas, too: they are decoded anew by what they name."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import header_schema_id_serializer

from hourline_core.errors import RegistryAwayError
from hourline_core.formats.registry.wire_format import HEADER
from hourline_core.ledger.decode_records import ARCHIVED, REFUSED, RecordDecoder
from hourline_core.model import Source
from hourline_core.model.decoding import decoding_of
from hourline_core.model.registry import RegistryAccess
from tests.support.registry_records import Wire, forget_memory, member, record, running_registry, serialize

NOON = datetime(2024, 3, 1, 12, tzinfo=UTC)
MOMENT = {"type": "long", "logicalType": "timestamp-millis"}
WRITER = record("Order", member("at", MOMENT), member("n", "int"))


def source(access: RegistryAccess, **more: Any) -> Source:
    schema = json.dumps({**WRITER, **more})
    declared = Source.model_validate(
        {
            "name": "orders",
            "topic": "orders",
            "format": {"avro": {"schema": schema, "registry": True}},
            "event_time": "at",
        }
    )
    return declared.bind_registry(access)


def rows(schema: pa.Schema, decoding: str, *records: Wire) -> pa.Table:
    """Rows of the archive, as far as they matter for decoding."""
    made = []
    for number, (value, header) in enumerate(records):
        headers = None if header is None else [(HEADER, header)]
        own = {"sequence": 1, "topic_id": "id", "topic": "orders", "partition": 0, "offset": number, "arrived": NOON}
        of_record = {"headers": headers, "timestamp": NOON, "timestamp_type": "create", "arrived": NOON}
        made.append({"decoding": decoding, "value": value, "record": of_record, "hour": NOON, **own, **of_record})
    named = [{name: row.get(name, row.get(name.removeprefix("_hourline_"))) for name in schema.names} for row in made]
    return pa.Table.from_pylist(named, schema)


def test_a_record_whose_schema_was_unknown_becomes_an_event_once_the_declaration_is_another_one(tmp_path: Path) -> None:
    with running_registry(tmp_path) as (registry, access):
        before, now = source(access), source(access, doc="The registry was restored on 1 March")
        written = serialize(registry, WRITER, {"at": NOON, "n": 7})
        registry.forget(1)
        refused = rows(REFUSED, decoding_of(before).hash, written)
        anew = RecordDecoder(now, [decoding_of(before)])
        assert anew.of_rejected(refused, 1, 1).num_rows == 0, "the registry does not know it yet"
        registry.register("orders-value", WRITER)
        forget_memory()  # A later recompute is another process.
        (event,) = anew.of_rejected(refused, 1, 1).to_pylist()
        assert (event["at"], event["n"]) == (NOON, 7)


def test_an_archived_event_is_decoded_by_the_header_that_it_came_with(tmp_path: Path) -> None:
    with running_registry(tmp_path) as (registry, access):
        before, now = source(access), source(access, fields=[member("at", MOMENT), member("m", "long", aliases=["n"])])
        written = serialize(registry, WRITER, {"at": NOON, "n": 7}, schema_id_serializer=header_schema_id_serializer)
        archived = rows(ARCHIVED, decoding_of(before).hash, written)
        (event,) = RecordDecoder(now, [decoding_of(before)]).of_events(archived, 1, 1).to_pylist()
        assert (event["at"], event["m"]) == (NOON, 7)
    forget_memory()
    other = RegistryAccess(access.url, str(tmp_path / "empty"))
    with pytest.raises(RegistryAwayError):
        RecordDecoder(source(other), [decoding_of(before)]).of_events(archived, 1, 1)
