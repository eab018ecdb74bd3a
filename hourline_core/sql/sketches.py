"""SQL functions that make and merge theta sketches, so that distinct counts of hours or groups can be rolled up.

- ``distinct_count(sketch)``: aggregate; how many distinct values the sketches hold together (bigint); 0 where there are
  none, as count
- ``distinct_merge(sketch)``: aggregate; their union, a sketch again (blob); null where there are none
- ``distinct_fold(value)``: aggregate; the sketch (blob) of values of type bigint, double or varchar that are not null.
  It has the hashes of Spark's ``theta_sketch_agg``.

A union keeps the smallest hashes of all: whatever the order or grouping of the parts, the same values give the same
sketch and the same number (Dasgupta, Lang, Rhodes and Thaler, "A Framework for Estimating Stream Expression
Cardinalities", 2016).
"""

from collections.abc import Sequence

import duckdb
from datasketches import compact_theta_sketch, theta_union, update_theta_sketch

from hourline_core.sql.frequencies import install_frequency_functions
from hourline_core.sql.histograms import install_histogram_functions

_LOG_ENTRIES = 12  # as Spark's theta_sketch_agg by default
_FOLDED = ("BIGINT", "DOUBLE", "VARCHAR")


def install_sketch_functions(connection: duckdb.DuckDBPyConnection) -> None:
    """Make the functions above, and those of histograms and frequencies, available on ``connection``."""
    install_histogram_functions(connection)
    install_frequency_functions(connection)
    blobs = duckdb.list_type("BLOB")
    connection.create_function("theta_union", _union, [blobs], "BLOB")
    connection.create_function("theta_estimate", _estimate, ["BLOB"], "BIGINT")
    for of in _FOLDED:
        connection.create_function(f"theta_sketch_{of.lower()}", _sketch, [duckdb.list_type(of)], "BLOB")
    by_type = " ".join(f"WHEN '{of}[]' THEN theta_sketch_{of.lower()}(distinct_values::{of}[])" for of in _FOLDED)
    connection.execute(f"CREATE MACRO theta_sketch(distinct_values) AS CASE typeof(distinct_values) {by_type} END")
    connection.execute(
        "CREATE MACRO distinct_fold(x) AS theta_sketch(coalesce(list(DISTINCT x) FILTER (x IS NOT NULL), []))"
    )
    connection.execute("CREATE MACRO distinct_merge(sketch) AS theta_union(list(sketch))")
    connection.execute("CREATE MACRO distinct_count(sketch) AS coalesce(theta_estimate(theta_union(list(sketch))), 0)")


def _sketch(values: Sequence[int | float | str]) -> bytes:
    sketch = update_theta_sketch(_LOG_ENTRIES)
    for value in values:
        sketch.update(value)
    return bytes(sketch.compact().serialize())


def _union(sketches: list[bytes | None]) -> bytes:
    union = theta_union(_LOG_ENTRIES)
    for sketch in sketches:
        if sketch is not None:
            union.update(_read(sketch))
    return bytes(union.get_result().serialize())


def _estimate(sketch: bytes) -> int:
    return int(_read(sketch).get_estimate() + 0.5)


def _read(sketch: bytes) -> compact_theta_sketch:
    """Raises ValueError when the bytes are no sketch."""
    try:
        return compact_theta_sketch.deserialize(sketch)
    except Exception as error:  # The library raises what its bytes lead it to.
        raise ValueError(
            f"got {len(sketch)} bytes that are no theta sketch, allowed are those of a view `…_states`"
        ) from error
