"""Results in Protobuf: Confluent's deserializer reads what DuckDB's rows say, of each type, by the schema as text."""

import math
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given

from hourline_core.errors import SinkError
from hourline_core.model.protobuf_schema import compile_protobuf, descriptor_of
from serving_layer.sinks.protobuf_results import ProtobufRecord
from serving_layer.sinks.record_columns import RecordColumns
from tests.support.schema_registry import SchemaRegistry, serve_registry
from tests.support.sent_columns import ROWS, TYPES, in_arrow, text_of

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def record_of(**types: pa.DataType) -> ProtobufRecord:
    return ProtobufRecord(RecordColumns("of_value", {"state": pa.string()}, types))


def class_of(record: ProtobufRecord) -> Any:
    """The class of the messages, by Google's compiler."""
    return GetMessageClass(descriptor_of(compile_protobuf((("", record.schema),)), "of_value"))


def read_members(message: Any, types: dict[str, pa.DataType]) -> dict[str, Any]:
    return {name: read_member(message, name, kind) for name, kind in types.items()}


def read_member(message: Any, name: str, kind: pa.DataType) -> Any:
    if not message.HasField(name):
        return None
    value = getattr(message, name)
    if pa.types.is_struct(kind):
        value = read_members(value, {one.name: one.type for one in kind})
    elif pa.types.is_map(kind):
        value = {key: read_element(value.elements[key], kind.item_type) for key in value.elements}
    elif pa.types.is_nested(kind):
        value = [read_element(one, kind.value_type) for one in value.elements]
    elif pa.types.is_timestamp(kind):
        value = EPOCH + timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)
    elif pa.types.is_date(kind):
        value = date.fromisoformat(value)
    elif pa.types.is_decimal(kind):
        assert len(value.partition(".")[2]) == kind.scale, "it has the digits of its type"
        value = Decimal(value)
    return value


def read_element(element: Any, of: pa.DataType) -> Any:
    if pa.types.is_struct(of):
        return read_members(element, {one.name: one.type for one in of})
    return read_member(element, "value", of)


@pytest.fixture(scope="module")
def registry() -> Iterator[SchemaRegistry]:
    with serve_registry(SchemaRegistry()) as served:
        yield served


def test_what_confluent_reads_is_what_was_in_the_row(registry: SchemaRegistry) -> None:
    record = record_of(**TYPES)
    front = b"\x00" + registry.register("t-value", record.schema, kind="PROTOBUF").to_bytes(4, "big")
    read = ProtobufDeserializer(class_of(record), schema_registry_client=SchemaRegistryClient({"url": registry.url}))

    @given(ROWS)
    def holds(row: dict[str, Any]) -> None:
        written = front + record.write(text_of(row))
        message = read(written, SerializationContext("t", MessageField.VALUE))
        assert message.state == "final"
        assert read_members(message, TYPES) == in_arrow(row)

    holds()


def test_the_text_compiles_to_the_message_that_is_written() -> None:
    # Names that the compiler gives may be taken: of a oneof, of a message.
    names = {"a": pa.int64(), "_a": pa.int64(), "ATop": pa.int64(), "top": pa.list_(pa.int64())}
    for record in (record_of(**TYPES), record_of(), record_of(a=pa.struct(names), Clear=pa.int64())):
        compiled = FileDescriptorSet.FromString(compile_protobuf((("", record.schema),))).file[-1]
        compiled.name = record.file.name
        forget_json_names(compiled.message_type)
        assert compiled == record.file


def forget_json_names(messages: Any) -> None:
    for message in messages:
        for field in message.field:
            field.ClearField("json_name")
        forget_json_names(message.nested_type)


def test_a_key_that_is_nan_or_infinite_is_so_in_protobuf() -> None:
    record = record_of(a=pa.float64(), b=pa.float64())
    read = class_of(record).FromString(record.write('{"state":"","a":"nan","b":"-inf"}')[1:])
    assert math.isnan(read.a)
    assert read.b == -math.inf


def test_the_same_map_has_the_same_bytes() -> None:
    record = record_of(a=pa.map_(pa.string(), pa.int64()))
    names = [str(number) for number in range(50)]
    texts = [", ".join(f'"{name}": 1' for name in of) for of in (names, reversed(names))]
    assert len({record.write(f'{{"state": "", "a": {{{text}}}}}') for text in texts}) == 1


def test_a_null_struct_in_a_list_is_one_without_members() -> None:
    record = record_of(a=pa.list_(pa.struct({"b": pa.int64()})))
    [element] = class_of(record).FromString(record.write('{"state":"","a":[null]}')[1:]).a.elements
    assert not element.HasField("b")


@pytest.mark.parametrize(
    ("types", "said"),
    [
        ({"a": pa.struct({"user-id": pa.int64()})}, "the member 'user-id' of a struct has a name that Protobuf does"),
        ({"a_1": pa.int64(), "a1": pa.int64()}, "'a_1' and 'a1' are one name in Protobuf's JSON: rename one, or leave"),
        ({"a": pa.duration("us")}, r"a value of the type duration\[us\] has no type of Protobuf; leave"),
        (
            {"a": pa.struct({name: pa.list_(pa.int64()) for name in ("b", "B")})},
            "of_value cannot be a message of Protobuf: .*; leave",
        ),
    ],
)
def test_columns_without_a_schema_are_one_sentence(types: dict[str, pa.DataType], said: str) -> None:
    with pytest.raises(SinkError, match=said):
        record_of(**types)


def test_what_protobuf_cannot_hold_is_one_sentence() -> None:
    record = record_of(at=pa.timestamp("us", "UTC"))
    with pytest.raises(
        SinkError, match=r"10000-01-01.* cannot be written in Protobuf: .*; leave `format: protobuf` out"
    ):
        record.write('{"state":"","at":"10000-01-01T00:00:00.000000Z"}')
