"""Records that name schemas of a registry: written as producers do, and decoded as sources declare them."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from hourline_core.formats.avro.writers import AvroWriters
from hourline_core.formats.registry.decoder import RegistryDecoder
from hourline_core.formats.registry.known_schemas import known_schemas
from hourline_core.model.avro_schema import parse_avro
from hourline_core.model.fields import Field
from hourline_core.model.record_types import fields_of
from hourline_core.model.registry import RegistryAccess
from tests.support.schema_registry import SchemaRegistry, serve_registry

Wire: TypeAlias = tuple[bytes, bytes | None]
"""The value of a record, and that of its header with a schema's id."""

ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"], "default": None}],
}


def member(name: str, type: Any, **more: Any) -> dict[str, Any]:
    """A member of a record's schema."""
    return {"name": name, "type": type, **more}


def record(name: str, *members: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A record's schema."""
    return {"type": "record", "name": name, "fields": list(members), **more}


def serialize(
    registry: SchemaRegistry, schema: Mapping[str, Any], value: Any, topic: str = "orders", **options: Any
) -> Wire:
    """The record that a producer writes by confluent-kafka's serializer, which registers ``schema`` as it does."""
    given = {"subject.name.strategy.type": "TOPIC"} | {name.replace("_", "."): one for name, one in options.items()}
    with SchemaRegistryClient({"url": registry.url}) as client:
        context = SerializationContext(topic, MessageField.VALUE, headers=[])
        written = AvroSerializer(client, json.dumps(schema), conf=given)(value, context)
    header = dict(context.headers or ()).get("__value_schema_id")
    assert isinstance(written, bytes)
    assert header is None or isinstance(header, bytes)
    return written, header


def prefixed(schema_id: int, value: bytes) -> Wire:
    """A record with the id of its schema in front of ``value``."""
    return b"\0" + schema_id.to_bytes(4, "big") + value, None


def decoder(
    access: RegistryAccess, schema: Mapping[str, Any], fields: Mapping[str, str] | None = None
) -> RegistryDecoder:
    """The decoder of a source that declares ``schema``, and ``fields`` if they do not follow from it."""
    text = json.dumps(schema)
    kinds = fields or {name: kind for name, kind in fields_of(parse_avro(text)) if kind}
    declared = {name: Field(type=kind) for name, kind in kinds.items()}
    return RegistryDecoder(access, AvroWriters(text, declared), declared)


def decode(decoder: RegistryDecoder, *records: Wire) -> list[Any]:
    """For each record the values of its fields, or the reason for its rejection."""
    values, headers = zip(*records, strict=True)
    decoded = decoder.decode(pa.array(values, pa.binary()), pa.array(headers, pa.binary()))
    rows: Sequence[dict[str, Any]] = pa.table(decoded.columns).to_pylist()
    return [reason or row for reason, row in zip(decoded.reasons.to_pylist(), rows, strict=True)]


def forget_memory() -> None:
    """Make this process one that has not asked any registry yet."""
    known_schemas.cache_clear()


@contextmanager
def running_registry(folder: Path, **options: Any) -> Iterator[tuple[SchemaRegistry, RegistryAccess]]:
    """Within the block, a registry, and the access to it of a workspace in ``folder``."""
    with serve_registry(SchemaRegistry(**options)) as registry:
        yield registry, RegistryAccess(registry.url, str(folder / "schemas"), **options)
