"""Records in Protobuf that name schemas of a registry: written as producers do, and decoded as sources declare them."""

from typing import Any, Protocol

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import text_format

from hourline_core.formats.format import decoder_of
from hourline_core.formats.registry.decoder import RegistryDecoder
from hourline_core.model.fields import Field
from hourline_core.model.record_format import RecordFormat
from hourline_core.model.registry import RegistryAccess
from tests.support.protobuf import message_class
from tests.support.registry_records import Wire
from tests.support.schema_registry import SchemaRegistry


class Serialize(Protocol):
    """Gives the record that a producer writes."""

    def __call__(
        self, registry: SchemaRegistry, schema: str, text: str, message: str = ..., topic: str = ..., **options: Any
    ) -> Wire: ...


def serialize(
    registry: SchemaRegistry, schema: str, text: str, message: str = "t.M", topic: str = "orders", **options: Any
) -> Wire:
    """The record that a producer writes by confluent-kafka's serializer, which registers a descriptor of ``schema``.
    The message is given in Protobuf's text format.
    """
    kind = message_class(schema, message)
    return serialize_message(registry, text_format.Parse(text, kind()), topic, **options)


def serialize_message(registry: SchemaRegistry, message: Any, topic: str = "orders", **options: Any) -> Wire:
    """The same of a message of Google's library."""
    given = {"subject.name.strategy.type": "TOPIC"} | {name.replace("_", "."): one for name, one in options.items()}
    with SchemaRegistryClient({"url": registry.url}) as client:
        context = SerializationContext(topic, MessageField.VALUE, headers=[])
        written = ProtobufSerializer(type(message), client, given)(message, context)
    header = dict(context.headers or ()).get("__value_schema_id")
    assert isinstance(written, bytes)
    assert header is None or isinstance(header, bytes)
    return written, header


def serialize_as_registered(
    registry: SchemaRegistry, schema: str, text: str, message: str = "t.M", topic: str = "orders", **options: Any
) -> Wire:
    """The same of a schema that is registered as text."""
    registry.register(f"{topic}-value", schema, kind="PROTOBUF")
    newest = {"auto_register_schemas": False, "use_latest_version": True}
    return serialize(registry, schema, text, message, topic, **newest, **options)


def decoder(
    access: RegistryAccess, schema: str, fields: dict[str, Field] | None = None, message: str = "t.M"
) -> RegistryDecoder:
    """The decoder of a source that declares ``message`` of ``schema``, and ``fields`` if they do not follow from it."""
    declared = RecordFormat.model_validate({"protobuf": {"schema": schema, "message": message, "registry": True}})
    following = {name: Field(type=kind) for name, kind in declared.fields.items() if kind}
    made = decoder_of(declared.bind_registry(access), following if fields is None else fields)
    assert isinstance(made, RegistryDecoder)
    return made
