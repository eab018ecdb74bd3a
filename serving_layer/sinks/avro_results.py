"""Results in Avro: a schema from the columns of keys or values, and the bytes of a result.

A result is written from its JSON, so that it says the same in all formats. fastavro writes it.
"""

import base64
import json
import re
from datetime import date, datetime
from decimal import Context, Decimal
from functools import partial
from io import BytesIO
from typing import Any

import pyarrow as pa

from hourline_core.errors import SinkError
from hourline_core.formats.registry.written_schema import SchemaKind
from serving_layer.sinks.record_columns import FindNewest, RecordColumns, no_schema

Schema = dict[str, Any] | list[Any] | str
"""A schema of Avro, as JSON is read."""

_MOMENT = {"type": "long", "logicalType": "timestamp-micros"}
_DAY = {"type": "int", "logicalType": "date"}
_EXACT = Context(prec=100)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class AvroRecord:
    """A record of Avro. See ``SchemaRecord``."""

    kind: SchemaKind = "AVRO"

    def __init__(self, columns: RecordColumns, _find_newest: FindNewest = no_schema) -> None:
        """See ``MakeRecord``. The schema is that of the columns, whatever there was before."""
        import fastavro

        name = columns.name
        fields: list[dict[str, Any]] = [
            {"name": one, "type": _schema_of(kind, f"{name}__{one}")} for one, kind in columns.required.items()
        ]
        fields += [
            {"name": one, "type": ["null", _schema_of(kind, f"{name}__{one}")], "default": None}
            for one, kind in columns.nullable.items()
        ]
        schema = {"type": "record", "name": name, "fields": fields}
        self.schema = json.dumps(schema)
        self._types = {**columns.required, **columns.nullable}
        self._write = partial(fastavro.schemaless_writer, schema=fastavro.parse_schema(schema))

    def write(self, text: str) -> bytes:
        """See ``SchemaRecord``."""
        given = json.loads(text, parse_float=Decimal)
        written = BytesIO()
        try:
            self._write(fo=written, record={name: _value(given[name], kind) for name, kind in self._types.items()})
        except (ArithmeticError, ValueError) as error:  # Such as a year after 9999.
            raise SinkError(f"{text[:200]} cannot be written in Avro: {error}; leave `format: avro` out") from None
        return written.getvalue()


def _schema_of(kind: pa.DataType, path: str) -> Schema:
    """The schema of values of ``kind`` that are not null."""
    schema: Schema
    if pa.types.is_struct(kind):
        if odd := next((one.name for one in kind if not _NAME.fullmatch(one.name)), None):
            raise SinkError(
                f"the member '{odd}' of a struct has a name that Avro does not allow; leave `format: avro` out"
            )
        fields = [{"name": one.name, "type": ["null", _schema_of(one.type, f"{path}__{one.name}")]} for one in kind]
        schema = {"type": "record", "name": path, "fields": fields}
    elif pa.types.is_map(kind):
        schema = {"type": "map", "values": ["null", _schema_of(kind.item_type, f"{path}__value")]}
    elif pa.types.is_nested(kind):
        schema = {"type": "array", "items": ["null", _schema_of(kind.value_type, f"{path}__item")]}
    elif pa.types.is_decimal(kind):
        schema = {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    else:
        found = next((of for is_one, of in _SCALARS if is_one(kind)), None)
        if found is None:
            raise SinkError(f"a value of the type {kind} has no schema of Avro; leave `format: avro` out")
        schema = found
    return schema


_SCALARS: tuple[tuple[Any, Schema], ...] = (
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_uint64, {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 0}),
    (pa.types.is_integer, "long"),
    (pa.types.is_floating, "double"),
    (pa.types.is_date, _DAY),
    (pa.types.is_timestamp, _MOMENT),
    (pa.types.is_string, "string"),
    (pa.types.is_large_string, "string"),
    (pa.types.is_binary, "bytes"),
)


def _value(value: Any, kind: pa.DataType) -> Any:
    """What fastavro writes for ``value`` of JSON, which comes of the type ``kind``."""
    made = value
    if value is None:
        pass
    elif pa.types.is_struct(kind):
        made = {one.name: _value(value[one.name], one.type) for one in kind}
    elif pa.types.is_map(kind):
        made = {name: _value(one, kind.item_type) for name, one in value.items()}
    elif pa.types.is_nested(kind):
        made = [_value(one, kind.value_type) for one in value]
    elif pa.types.is_decimal(kind):
        made = Decimal(value).quantize(Decimal(1).scaleb(-kind.scale), context=_EXACT)
    elif pa.types.is_uint64(kind):
        made = Decimal(value)
    elif pa.types.is_floating(kind):
        made = float(value)  # In a key, NaN and infinities are texts.
    elif pa.types.is_timestamp(kind):
        made = datetime.fromisoformat(value)
    elif pa.types.is_date(kind):
        made = date.fromisoformat(value)
    elif pa.types.is_binary(kind):
        made = base64.b64decode(value)
    return made
