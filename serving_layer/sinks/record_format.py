"""The bytes of a sink's records in a topic, by its format."""

from collections.abc import Callable
from typing import Protocol

import pyarrow as pa

from hourline_core.errors import SinkError
from hourline_core.formats.registry.written_schema import SchemaKind, WrittenSchema
from hourline_core.model import Metric, Project, Sink
from hourline_core.model.registry import RegistryAccess
from serving_layer.sinks.record_columns import FindNewest, RecordColumns, key_columns, value_columns


class RecordFormat(Protocol):
    """Writes keys and values, which are given as JSON objects."""

    name: str
    key_front: bytes
    """The bytes in front of each key, which name its schema. With another schema, a key has other bytes."""
    value_front: bytes
    """The same of values."""

    def key(self, text: str) -> bytes:
        """The bytes of a key."""

    def value(self, text: str) -> bytes:
        """The bytes of a value."""


class JsonRecords:
    """The JSON as it is."""

    name = "json"
    key_front = value_front = b""

    def key(self, text: str) -> bytes:
        """See ``RecordFormat``."""
        return text.encode()

    value = key


class SchemaRecord(Protocol):
    """Writes keys or values by a schema."""

    @property
    def kind(self) -> SchemaKind:
        """What a registry calls the format."""

    @property
    def schema(self) -> str:
        """The schema, as it is registered."""

    def write(self, text: str) -> bytes:
        """The bytes of a JSON object behind the id of the schema. The same text has the same bytes. Raises SinkError if
        the format cannot hold a value.
        """


MakeRecord = Callable[[RecordColumns, FindNewest], SchemaRecord]
"""Makes what writes columns, by a schema that is compatible with the newest one of its subject where it can be. Raises
SinkError if a column has no schema.
"""


class RegisteredRecords:
    """A magic byte, the id of the schema in the registry, and the record, as Confluent's serializers write it."""

    def __init__(self, project: Project, sink: Sink, metric: Metric, columns: pa.Schema, make: MakeRecord) -> None:
        """Register both schemas. Raises SinkError if the registry does not take one, and RegistryError."""
        from hourline_core.formats.registry.client import RegistryClient

        assert project.settings.registry is not None
        self.name: str = sink.format
        self._access = RegistryAccess.of(project.settings.registry, project.root, project.workspace)
        self._client, self._make = RegistryClient(self._access), make
        self.key_front, self._key = self._register(f"{sink.topic}-key", key_columns(metric, columns))
        self.value_front, self._value = self._register(f"{sink.topic}-value", value_columns(metric, columns))

    def key(self, text: str) -> bytes:
        """See ``RecordFormat``."""
        return self.key_front + self._key.write(text)

    def value(self, text: str) -> bytes:
        """See ``RecordFormat``."""
        return self.value_front + self._value.write(text)

    def _register(self, subject: str, columns: RecordColumns) -> tuple[bytes, SchemaRecord]:
        """The bytes in front of each record, and what writes the rest."""
        from hourline_core.formats.registry.client import NotInRegistryError, RefusedSchemaError

        def find_newest() -> WrittenSchema | None:
            try:
                return self._client.version(subject)[1]
            except NotInRegistryError:
                return None

        record = self._make(columns, find_newest)
        try:
            number = self._client.register(subject, record.schema, record.kind)
        except RefusedSchemaError as error:
            raise SinkError(
                f"the schema registry at {self._access.url} does not take the schema of subject '{subject}': {error}; "
                "give the sink another topic, or allow the change there"
            ) from None
        return b"\x00" + number.to_bytes(4, "big"), record


def record_format(project: Project, sink: Sink, metric: Metric, columns: pa.Schema) -> RecordFormat:
    """The format of a sink. Raises as ``RegisteredRecords``."""
    if sink.format == "json":
        return JsonRecords()
    return RegisteredRecords(project, sink, metric, columns, _make_of(sink.format))


def _make_of(format: str) -> MakeRecord:
    """What makes the records of a format. Its library is imported where it is used."""
    match format:
        case "avro":
            from serving_layer.sinks.avro_results import AvroRecord

            return AvroRecord
        case "protobuf":
            from serving_layer.sinks.protobuf_results import ProtobufRecord

            return ProtobufRecord
        case _:
            from serving_layer.sinks.json_schema_results import JsonSchemaRecord

            return JsonSchemaRecord
