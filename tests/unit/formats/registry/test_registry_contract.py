"""Each row of the reference's table of differing schemas is what a decoder does."""

import io
from pathlib import Path

import fastavro
import pytest

from docs.generate.registry_contract import ROWS, Row
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
