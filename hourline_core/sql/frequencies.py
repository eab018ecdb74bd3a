"""SQL functions that make and merge the sketches of ``top``, so that the most frequent values can be rolled up.

- ``top_values(state, n, limit)``: aggregate; the ``limit`` most frequent values of all states, as a list of structs:
  ``value`` (varchar), ``count`` and ``error`` (bigint). The true count is from ``count`` to ``count + error``. Equal
  counts are in the order of their values. ``n`` (bigint) is the number of values that a state has counted. Null where
  that is 0.
- ``top_merge(state)``: aggregate; the state of all of them; null where there are none
- ``top_fold(value)``: aggregate; the state of values (varchar) that are not null

A state is a struct as Spark's ``approx_top_k_accumulate`` gives it, of texts. Sketches are merged in the order of their
bytes, so the same states give the same answer.

A sketch that has just dropped all of its values forgets when it is stored that it had any. ``n`` tells how many are
forgotten, so that the error has a bound. If a list would be empty, it has one entry with the error and without a value.
"""

from collections.abc import Sequence

import duckdb
from datasketches import frequent_items_error_type, frequent_strings_sketch

from hourline_core.aggregates.top import MOST_VALUES

_LOG_ENTRIES = 11
_LOWERED_TOGETHER = 512
"""The least number of counts that a sketch lowers by just as much, whenever it lowers them: it lowers by the median of
1,024 of them. So what it has forgotten is at least this much times the error.
"""
_ENTRY = "STRUCT(value VARCHAR, count BIGINT, error BIGINT)"


def install_frequency_functions(connection: duckdb.DuckDBPyConnection) -> None:
    """Make the functions above available on ``connection``."""
    blobs, texts, counts = (duckdb.list_type(of) for of in ("BLOB", "VARCHAR", "UBIGINT"))
    connection.create_function("frequency_sketch", _count, [texts, counts], "BLOB")
    connection.create_function("frequency_union", _merge, [blobs], "BLOB")
    connection.create_function("frequency_list", _list, ["BLOB", "BIGINT", "BIGINT"], duckdb.type(f"{_ENTRY}[]"))
    state = (
        f"{{'sketch': sketch, 'maxItemsTracked': {MOST_VALUES}::INTEGER, 'itemDataType': NULL::VARCHAR, "
        "'itemDataTypeDDL': 'item string not null'}"
    )
    connection.execute(f"CREATE MACRO frequency_state(sketch) AS CASE WHEN sketch IS NOT NULL THEN {state} END")
    connection.execute(
        "CREATE MACRO top_fold(x) AS frequency_state(frequency_sketch("
        "coalesce(map_keys(histogram(x)), []), coalesce(map_values(histogram(x)), [])))"
    )
    connection.execute("CREATE MACRO top_merge(state) AS frequency_state(frequency_union(list(state.sketch)))")
    connection.execute(
        "CREATE MACRO top_of(state, n, most) AS CASE WHEN n > 0 THEN frequency_list(state.sketch, n, most) END"
    )
    connection.execute(
        "CREATE MACRO top_values(state, n, most) AS top_of(top_merge(state), CAST(sum(n) AS BIGINT), most)"
    )


def _count(values: Sequence[str], counts: Sequence[int]) -> bytes:
    sketch = frequent_strings_sketch(_LOG_ENTRIES)
    for value, count in zip(values, counts, strict=True):
        sketch.update(value, count)
    return bytes(sketch.serialize())


def _merge(sketches: list[bytes | None]) -> bytes:
    merged = frequent_strings_sketch(_LOG_ENTRIES)
    for sketch in sorted(one for one in sketches if one is not None):
        merged.merge(_read(sketch))
    return bytes(merged.serialize())


def _list(stored: bytes, n: int, limit: int) -> list[dict[str, str | int | None]]:
    if limit < 1:
        raise ValueError(f"got the {limit} most frequent values, allowed is 1 or more")
    sketch = _read(stored)
    more = (n - sketch.total_weight) // _LOWERED_TOGETHER
    found = sketch.get_frequent_items(frequent_items_error_type.NO_FALSE_NEGATIVES)
    ordered = sorted((-lower, value, upper - lower + more) for value, _, lower, upper in found)
    listed = [{"value": value, "count": -count, "error": error} for count, value, error in ordered[:limit]]
    return listed or [{"value": None, "count": 0, "error": more}]


def _read(sketch: bytes) -> frequent_strings_sketch:
    """Raises ValueError when the bytes are no sketch."""
    try:
        return frequent_strings_sketch.deserialize(sketch)
    except Exception as error:  # The library raises what its bytes lead it to.
        raise ValueError(
            f"got {len(sketch)} bytes that are no sketch of frequent values, allowed are those of a view `…_states`"
        ) from error
