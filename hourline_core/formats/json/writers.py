"""Decodes records in JSON that name a schema of a registry, by their declared fields."""

from collections.abc import Mapping

from hourline_core.formats.json.decoder import JsonDecoder
from hourline_core.formats.registry.written_schema import SchemaKind, WrittenSchema
from hourline_core.model.fields import Field


class JsonWriters:
    """Makes decoders of records with ``fields``. Whether a record is valid by its JSON Schema does not matter."""

    kind: SchemaKind = "JSON"
    takes_empty = False

    def __init__(self, fields: Mapping[str, Field]) -> None:
        self._fields = dict(fields)
        self._decoder = JsonDecoder(fields)

    def __reduce__(self) -> tuple[type["JsonWriters"], tuple[dict[str, Field]]]:
        return JsonWriters, (self._fields,)

    @property
    def fault(self) -> None:
        """None: the fields do not follow from a schema that they could differ from."""

    def decoder_of(self, schema: WrittenSchema, message: tuple[int, ...]) -> JsonDecoder:
        """See ``Writers``."""
        return self._decoder
