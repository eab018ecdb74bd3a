"""The bytes of a sink's records in a topic, by its format."""

import json
from typing import Protocol

import pyarrow as pa

from hourline_core.errors import SinkError
from hourline_core.model import Metric, Project, Sink
from hourline_core.model.registry import RegistryAccess


class RecordFormat(Protocol):
    """Writes keys and values, which are given as JSON objects."""

    name: str

    def key(self, text: str) -> bytes:
        """The bytes of a key."""

    def value(self, text: str) -> bytes:
        """The bytes of a value."""


class JsonRecords:
    """The JSON as it is."""

    name = "json"

    def key(self, text: str) -> bytes:
        """See ``RecordFormat``."""
        return text.encode()

    value = key


class AvroRecords:
    """Avro behind a magic byte and the id of the schema in the registry, as Confluent's serializers write it."""

    name = "avro"

    def __init__(self, project: Project, sink: Sink, metric: Metric, columns: pa.Schema) -> None:
        """Register both schemas. Raises SinkError if the registry does not take one, and RegistryError."""
        from serving_layer.sinks.avro_results import key_record, value_record

        assert project.settings.registry is not None
        self._access = RegistryAccess.of(project.settings.registry, project.root, project.workspace)
        self._key, self._value = key_record(metric, columns), value_record(metric, columns)
        self._key_id = self._register(f"{sink.topic}-key", self._key.schema)
        self._value_id = self._register(f"{sink.topic}-value", self._value.schema)

    def key(self, text: str) -> bytes:
        """See ``RecordFormat``."""
        return self._key_id + self._key.write(text)

    def value(self, text: str) -> bytes:
        """See ``RecordFormat``."""
        return self._value_id + self._value.write(text)

    def _register(self, subject: str, schema: object) -> bytes:
        """The bytes in front of a record of this schema."""
        from hourline_core.formats.registry.client import RefusedSchemaError, RegistryClient

        try:
            number = RegistryClient(self._access).register(subject, json.dumps(schema))
        except RefusedSchemaError as error:
            raise SinkError(
                f"the schema registry at {self._access.url} does not take the schema of subject '{subject}': {error}; "
                "give the sink another topic, or allow the change there"
            ) from None
        return b"\x00" + number.to_bytes(4, "big")


def record_format(project: Project, sink: Sink, metric: Metric, columns: pa.Schema) -> RecordFormat:
    """The format of a sink. Raises as ``AvroRecords``."""
    return AvroRecords(project, sink, metric, columns) if sink.format == "avro" else JsonRecords()
