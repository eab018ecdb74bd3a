"""A record of a topic becomes the item of a test, whatever its format has around the event."""

from typing import Any

import pytest

from hourline.metric_tests.record_test import _given
from hourline_core.errors import UsageError
from hourline_core.formats.registry.wire_format import HEADER
from hourline_core.model import Source
from tests.support.avro import record_schema
from tests.support.protobuf import schema_of

EVENT = b'{"n": 7}'


def item(format: Any, value: bytes, headers: dict[str, bytes] | None = None, kind: str | None = "create") -> str:
    declared = {"name": "orders", "topic": "t", "event_time": "record.timestamp", "fields": {"n": "int"}}
    record = {"headers": list((headers or {}).items()), "timestamp_type": kind}
    source = Source.model_validate({**declared, "format": format})
    return _given(source, {"value": value, "record": record}, 0, uses_record=True)


def test_the_id_of_a_schema_is_no_part_of_the_event() -> None:
    registry = {"json": {"registry": True}}
    assert item("json", EVENT) == item(registry, b"\0\0\0\0\1" + EVENT) == "{n: 7}"
    assert item(registry, EVENT, {HEADER: b"\1" + bytes(16)}) == "{n: 7}"
    assert (
        item(registry, EVENT, {HEADER: b"\1" + b"\xff" * 16, "a": b"b"}) == "{record: {headers: {a: b}}, value: {n: 7}}"
    )
    assert item(registry, EVENT, kind=None) == "{n: 7}", "a row of a file"
    assert item(registry, EVENT) == "{n: 7}", "of an earlier declaration"


@pytest.mark.parametrize(
    ("format", "name"),
    [
        ({"avro": {"schema": str(record_schema(n="int")).replace("'", '"')}}, "avro"),
        ({"protobuf": {"schema": schema_of("message M { int32 n = 1; }")}}, "protobuf"),
    ],
)
def test_bytes_that_happen_to_be_text_are_no_text(format: Any, name: str) -> None:
    with pytest.raises(UsageError) as refused:
        item(format, b"")
    assert str(refused.value) == (
        f"source 'orders' takes records in {name}, allowed with --record are texts; write the events of the test as YAML"
    )
    assert item(format, EVENT, kind=None) == "{n: 7}", "a row of a file"
