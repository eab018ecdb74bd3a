"""The hashes by which the speed layer recognises ids: 64 bits of (id, hour), made where the events are.

They are the lower half of MD5 over text. DuckDB's own hash is faster, and too weak: of 1.5 million ids of one pattern,
four were taken for others. The hashes are compared within one run of the speed layer, and stored nowhere.
"""

import numpy as np
import pyarrow as pa

from hourline_core.compute.worker_database import connect
from hourline_core.model.scratch_columns import HOUR, ID, ID_HASH


def with_id_hash(events: pa.Table) -> pa.Table:
    """The events (ID, HOUR) with ID_HASH (int64) instead of ID. An event without an id has none."""
    hashed = events.select([ID, HOUR])
    kind = hashed[ID].type
    # As text, ["a, b"] and ["a", "b"] look alike. -0.0 is 0.0.
    value = f"to_json({ID})" if pa.types.is_nested(kind) else f"({ID} + 0)" if pa.types.is_floating(kind) else ID
    text = f"{value}::VARCHAR || '/' || epoch_us({HOUR})"
    connection = connect()
    connection.register("hashed", hashed)
    try:
        found = connection.execute(
            f"SELECT CASE WHEN {ID} IS NOT NULL THEN md5_number_lower({text}) END AS h FROM hashed"
        )
        hashes = found.to_arrow_table()["h"].combine_chunks()
    finally:
        connection.close()
    # Of unsigned numbers, the bits are kept.
    signed = pa.array(
        hashes.fill_null(0).to_numpy().view(np.int64), mask=hashes.is_null().to_numpy(zero_copy_only=False)
    )
    return events.drop_columns([ID]).append_column(ID_HASH, signed)
