"""Each record whose schema id is damaged is refused with what is there in place of the id."""

from pathlib import Path

from tests.support.malformed import cut, flipped
from tests.support.registry_records import ORDER, decode, decoder, running_registry, serialize

MOST = (1 << 31) - 1
"""The largest id."""


def expected(written: bytes, schema_id: int) -> str:
    """How the reason of a damaged record begins, whose schema was ``schema_id``."""
    if written[0]:
        return f"no schema id: got 0x{written[0]:02x} as the first byte, want 0x00 and 4 bytes of an id"
    if len(written) < 5:
        return f"no schema id: got {len(written)} bytes, want 0x00 and 4 bytes of an id"
    got = int.from_bytes(written[1:5], "big")
    if got != schema_id:
        return (
            f"no schema id: got {got}, want at most {MOST}" if got > MOST else f"schema id {got} is not in the registry"
        )
    of = f"schema id {schema_id} (subject 'orders-value'):"
    if len(written) == 5:
        return f"{of} no value behind the schema id"
    return f"{of} invalid Avro in 'note': got the end of the bytes within the value at byte {len(written) - 5}"


def test_each_damaged_schema_id_is_refused_as_what_it_is(tmp_path: Path) -> None:
    with running_registry(tmp_path) as (registry, access):
        written, _ = serialize(registry, ORDER, {"id": 5, "note": "ann"})
        schema_id = int.from_bytes(written[1:5], "big")
        first = [bytes([byte]) + written[1:] for byte in range(1, 256)]
        damaged = [*first, *cut(written), *(id_ + written[5:] for id_ in flipped(written[:5]))]
        good, *got = decode(decoder(access, ORDER), (written, None), *((value, None) for value in damaged))
    assert good == {"id": 5, "note": "ann"}
    wrong = [
        pair for pair in zip(damaged, got, strict=True) if not str(pair[1]).startswith(expected(pair[0], schema_id))
    ]
    assert wrong == []
