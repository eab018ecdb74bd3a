"""Results in JSON with a JSON Schema: the JSON of all sinks, and a schema from the columns of keys or values.

Objects are closed, so that a registry takes a column that is added. One that is gone stays in the schema as deprecated,
since a registry refuses a closed object that lacks a property.
https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/serdes-json.html
"""

import json
from typing import Any

import pyarrow as pa

from hourline_core.errors import SinkError
from hourline_core.formats.registry.written_schema import SchemaKind, WrittenSchema
from serving_layer.sinks.record_columns import FindNewest, RecordColumns, no_schema

Schema = dict[str, Any]
"""A JSON Schema."""

_DRAFT = "http://json-schema.org/draft-07/schema#"
"""The newest one that all of Confluent's clients read."""
_MOST_DIGITS = 38


class JsonSchemaRecord:
    """A JSON object with a schema. See ``SchemaRecord``."""

    kind: SchemaKind = "JSON"

    def __init__(self, columns: RecordColumns, find_newest: FindNewest = no_schema) -> None:
        """See ``MakeRecord``."""
        properties = {name: _schema_of(kind) for name, kind in columns.required.items()}
        for name, kind in columns.nullable.items():
            has_text = pa.types.is_floating(kind) and columns.nan_is_text
            properties[name] = _or_null({"type": ["number", "string"]} if has_text else _schema_of(kind))
        schema = {"$schema": _DRAFT, "title": columns.name, **_closed(properties), "required": [*columns.required]}
        before = _read(find_newest())
        is_ours = isinstance(before, dict) and before.get("title") == columns.name
        self.schema = json.dumps(_keep_gone(schema, before) if is_ours else schema)

    def write(self, text: str) -> bytes:
        """See ``SchemaRecord``."""
        return text.encode()


def _schema_of(kind: pa.DataType) -> Schema:
    """The schema of values of ``kind`` that are not null, as ``json_values.py`` writes them."""
    schema: Schema | None
    if pa.types.is_struct(kind):
        schema = _closed({one.name: _or_null(_schema_of(one.type)) for one in kind})
    elif pa.types.is_map(kind):
        schema = {"type": "object", "additionalProperties": _or_null(_schema_of(kind.item_type))}
    elif pa.types.is_nested(kind):
        schema = {"type": "array", "items": _or_null(_schema_of(kind.value_type))}
    elif pa.types.is_decimal(kind):
        # A number without whole digits that has this many is a text, see ``json_values.py``.
        is_text = kind.precision == kind.scale == _MOST_DIGITS
        schema = {"type": "string" if is_text else "number" if kind.scale else "integer"}
    else:
        schema = next((of for is_one, of in _SCALARS if is_one(kind)), None)
    if schema is None:
        raise SinkError(f"a value of the type {kind} has no JSON Schema; leave `format: json_schema` out")
    return schema


_SCALARS: tuple[tuple[Any, Schema], ...] = (
    (pa.types.is_boolean, {"type": "boolean"}),
    (pa.types.is_integer, {"type": "integer"}),
    (pa.types.is_floating, {"type": "number"}),
    (pa.types.is_date, {"type": "string", "format": "date"}),
    (pa.types.is_timestamp, {"type": "string", "format": "date-time"}),
    (pa.types.is_string, {"type": "string"}),
    (pa.types.is_large_string, {"type": "string"}),
    (pa.types.is_binary, {"type": "string", "contentEncoding": "base64"}),
)


def _closed(properties: dict[str, Schema]) -> Schema:
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _or_null(schema: Schema) -> Schema:
    types = schema["type"]
    return {**schema, "type": [*([types] if isinstance(types, str) else types), "null"]}


def _read(newest: WrittenSchema | None) -> Any:
    try:
        return json.loads(newest.text) if newest and newest.kind == JsonSchemaRecord.kind else None
    except ValueError:
        return None


def _keep_gone(schema: Schema, before: Any) -> Schema:
    """``schema`` with the properties that ``before`` has beside its own, at every depth."""
    if not isinstance(before, dict):
        return schema
    kept = dict(schema)
    if "properties" in schema:
        own, earlier = schema["properties"], before.get("properties")
        earlier = earlier if isinstance(earlier, dict) else {}
        kept["properties"] = {name: _keep_gone(part, earlier.get(name)) for name, part in own.items()}
        gone = {name: part for name, part in earlier.items() if name not in own and isinstance(part, dict)}
        kept["properties"] |= {name: {**part, "deprecated": True} for name, part in gone.items()}
    for name in ("items", "additionalProperties"):
        if isinstance(part := schema.get(name), dict):
            kept[name] = _keep_gone(part, before.get(name))
    return kept
