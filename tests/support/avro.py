"""Records in Avro's binary encoding, as fastavro writes them."""

import io
import json
from typing import Any

import fastavro
import pyarrow as pa

from hourline_core.formats.format import decoder_of
from hourline_core.model.fields import Field
from hourline_core.model.record_format import AvroFormat, RecordFormat


def record_schema(**members: Any) -> dict[str, Any]:
    """The schema of a record with ``members``, by name their schemas."""
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": kind} for name, kind in members.items()]}


def write_avro(schema: Any, value: Any) -> bytes:
    """``value`` as a record of ``schema``."""
    written = io.BytesIO()
    fastavro.schemaless_writer(written, fastavro.parse_schema(schema), value)
    return written.getvalue()


def format_of(schema: Any) -> RecordFormat:
    """The declared format with ``schema``."""
    return RecordFormat(avro=AvroFormat(schema=json.dumps(schema)))


def decode_avro(
    schema: Any, fields: dict[str, Field] | None, *records: bytes | None
) -> tuple[list[dict[str, Any]], list[str | None]]:
    """What the decoder makes of ``records``: the rows, and the reasons. Without ``fields``, those that follow."""
    format = format_of(schema)
    following = {name: Field(type=kind) for name, kind in format.fields.items() if kind}
    decoded = decoder_of(format, fields or following).decode(pa.array(records, pa.binary()))
    return pa.table(decoded.columns).to_pylist(), decoded.reasons.to_pylist()
