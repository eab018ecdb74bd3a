"""Each row of the reference's table of differing schemas is what a decoder does."""

import io
from pathlib import Path

import fastavro
import pytest

from docs.generate.registry_contract import PROTOBUF_ROWS, PROTOBUF_TYPES, ROWS, ProtobufRow, Row
from tests.support import registry_protobuf
from tests.support.protobuf import schema_of
from tests.support.registry_records import decode, decoder, prefixed, record, running_registry


@pytest.mark.parametrize("row", ROWS, ids=[row.difference for row in ROWS])
def test_a_record_of_another_schema_is_read_as_the_reference_says(tmp_path: Path, row: Row) -> None:
    written = record(row.names[0], *map(dict, row.written))
    read = record(row.names[1], *map(dict, row.read), aliases=list(row.aliases))
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(written), dict(row.value))
    with running_registry(tmp_path) as (registry, access):
        schema_id = registry.register("orders-value", written)
        (got,) = decode(decoder(access, read), prefixed(schema_id, out.getvalue()))
    if row.taken is None:
        assert isinstance(got, str)
        assert got.startswith("schema id 1 (subject 'orders-value'): ")
    else:
        assert got == row.taken


def _protobuf_schema(which: str, package: str) -> str:
    """One schema for all rows, since each takes a compiler. ``M0`` is the message of the first row."""
    messages = []
    for place, row in enumerate(PROTOBUF_ROWS):
        name, members = (row.name or f"M{place}", row.read) if which == "read" else (f"M{place}", row.written)
        messages.append(f"message {name} {{ {members} }}")
    return schema_of("\n".join([PROTOBUF_TYPES[which], *messages])).replace("package t;", f"package {package};")


WRITTEN, READ = _protobuf_schema("written", "shop.v2"), _protobuf_schema("read", "shop")


@pytest.mark.parametrize("row", PROTOBUF_ROWS, ids=[row.difference for row in PROTOBUF_ROWS])
@pytest.mark.parametrize("serialize", [registry_protobuf.serialize, registry_protobuf.serialize_as_registered])
def test_a_record_of_another_message_is_read_as_the_reference_says(
    tmp_path: Path, row: ProtobufRow, serialize: registry_protobuf.Serialize
) -> None:
    name = f"M{PROTOBUF_ROWS.index(row)}"
    with running_registry(tmp_path) as (registry, access):
        written = serialize(registry, WRITTEN, row.value, f"shop.v2.{name}")
        reading = registry_protobuf.decoder(access, READ, message=f"shop.{row.name or name}")
        (got,) = decode(reading, written)
    if row.taken is None:
        assert isinstance(got, str)
        assert got.startswith("schema id 1 (subject 'orders-value'): ")
    else:
        assert got == row.taken
