"""SQL functions that merge theta sketches, so that distinct counts of several hours or groups can be rolled up.

- ``distinct_count(sketch)``: aggregate; how many distinct values the sketches hold together (bigint); 0 where there are
  none, as count
- ``distinct_merge(sketch)``: aggregate; their union, a sketch again (blob); null where there are none

A union keeps the smallest hashes of all: whatever the order or grouping of the parts, the same values give the same
sketch and the same number (Dasgupta, Lang, Rhodes and Thaler, "A Framework for Estimating Stream Expression
Cardinalities", 2016).
"""

import duckdb
from datasketches import compact_theta_sketch, theta_union

_LOG_ENTRIES = 12  # as Spark's theta_sketch_agg by default


def install_sketch_functions(connection: duckdb.DuckDBPyConnection) -> None:
    """Make the functions above available on ``connection``."""
    blobs = duckdb.list_type("BLOB")
    connection.create_function("theta_union", _union, [blobs], "BLOB")
    connection.create_function("theta_estimate", _estimate, ["BLOB"], "BIGINT")
    connection.execute("CREATE MACRO distinct_merge(sketch) AS theta_union(list(sketch))")
    connection.execute("CREATE MACRO distinct_count(sketch) AS coalesce(theta_estimate(theta_union(list(sketch))), 0)")


def _union(sketches: list[bytes | None]) -> bytes:
    union = theta_union(_LOG_ENTRIES)
    for sketch in sketches:
        if sketch is not None:
            union.update(compact_theta_sketch.deserialize(sketch))
    return bytes(union.get_result().serialize())


def _estimate(sketch: bytes) -> int:
    return int(compact_theta_sketch.deserialize(sketch).get_estimate() + 0.5)
