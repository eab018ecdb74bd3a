"""What a reader of a sink's topic sees, by a plain consumer, and what it should see, by plain Python."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC
from decimal import Decimal
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.message_factory import GetMessageClass

import serving_layer
from hourline_core.model.protobuf_schema import choose_message, compile_protobuf, descriptor_of
from hourline_core.runtime.topics import topic_offsets
from tests.support.sent_values import Newest, as_sent, key_text, view


@dataclass(frozen=True)
class TopicRecord:
    key: dict[str, Any]
    value: dict[str, Any] | None
    key_bytes: bytes


Deserialize = Callable[[bytes, SerializationContext], Any]


def deserializer_of(format: str, client: SchemaRegistryClient) -> Deserialize:
    """What reads keys and values of a format by the registry, with Confluent's deserializers."""
    if format != "protobuf":
        other: Deserialize = (
            AvroDeserializer(client) if format == "avro" else JSONDeserializer(None, schema_registry_client=client)
        )
        return other

    def read(record: bytes, context: SerializationContext) -> dict[str, Any]:
        schema = client.get_schema(int.from_bytes(record[1:5], "big")).schema_str
        compiled = compile_protobuf((("", schema or ""),))
        message_class = GetMessageClass(descriptor_of(compiled, choose_message(compiled, None)))
        message: Any = ProtobufDeserializer(message_class, schema_registry_client=client)(record, context)
        return {field.name: _member(message, field) for field in message.DESCRIPTOR.fields}

    return read


def _member(message: Any, field: Any) -> Any:
    if field.has_presence and not message.HasField(field.name):
        return None
    value = getattr(message, field.name)
    return value.ToDatetime(UTC) if field.message_type else value


def read_topic(kafka: str, topic: str, deserialize: Deserialize | None = None) -> list[TopicRecord]:
    """The committed records, by partition and offset: in JSON, or read by ``deserialize``."""
    consumer = Consumer(
        {
            **{"bootstrap.servers": kafka, "group.id": "reader", "enable.auto.commit": False},
            **{"enable.partition.eof": True, "isolation.level": "read_committed", "log_level": 0},
        }
    )
    partitions = sorted(topic_offsets(kafka, topic, {}))
    consumer.assign([TopicPartition(topic, of, 0) for of in partitions])
    found, waiting = [], set(partitions)
    while waiting:
        message = consumer.poll(10)
        assert message is not None
        if (error := message.error()) is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
            waiting.discard(message.partition() or 0)
            continue
        key, value = message.key(), message.value()
        assert isinstance(key, bytes)
        assert isinstance(value, bytes | None)
        read: list[Any] = [
            None
            if text is None
            else as_sent(deserialize(text, SerializationContext(topic, of)))
            if deserialize
            else read_json(text)
            for text, of in ((key, MessageField.KEY), (value, MessageField.VALUE))
        ]
        found.append(TopicRecord(read[0], read[1], key))
    consumer.close()
    return found


def read_json(text: bytes | str) -> dict[str, Any]:
    """An object of JSON, with all digits of its numbers."""
    found: dict[str, Any] = as_sent(json.loads(text, parse_float=Decimal))
    return found


def newest_of(records: list[TopicRecord]) -> Newest:
    """The newest value of each key. Each revision rises, and nothing is told twice."""
    newest: Newest = {}
    revisions: dict[str, int] = {}
    for record in records:
        key = key_text(record.key)
        if record.value is None:
            assert newest.pop(key, None) is not None
            continue
        revision = record.value["revision"]
        assert revision > revisions.get(key, 0)
        revisions[key] = revision
        value = {name: one for name, one in record.value.items() if name not in ("token", "revision")}
        assert newest.get(key) != value
        newest[key] = value
    return newest


def compacted(records: list[TopicRecord]) -> Newest:
    """The newest value of each key, as Kafka compacts the topic: by the bytes of the key."""
    newest = {record.key_bytes: record for record in records}
    there = [record for record in newest.values() if record.value is not None]
    found = newest_of(there)
    assert len(found) == len(there), "no result is there by two keys"
    return found


def in_view(connection: serving_layer.Connection, metric: str) -> Newest:
    """What the topic should have."""
    return {key: value for of in view(connection, metric).values() for key, value in of.items()}
