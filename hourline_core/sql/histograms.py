"""SQL functions that merge the histograms of ``quantile``, so that quantiles of hours or groups can be rolled up.

- ``quantile_value(histogram, q)``: aggregate; the quantile ``q`` (0 to 1, double) of all values in the histograms,
  within 1 % of it; null where there are none
- ``quantile_merge(histogram)``: aggregate; their sum, a histogram again; null where there are none

A histogram is a list of buckets: its number ``x``, and ``y``, how many values are in it. The buckets are in order.
"""

from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from duckdb.func import ARROW

from hourline_core.aggregates.quantile import GAMMA, ZERO

_Numbers = npt.NDArray[Any]
_HISTOGRAM = "STRUCT(x INTEGER, y DOUBLE)[]"


def install_histogram_functions(connection: duckdb.DuckDBPyConnection) -> None:
    """Make the functions above available on ``connection``."""
    of, histograms = duckdb.type(_HISTOGRAM), duckdb.type(f"{_HISTOGRAM}[]")
    connection.create_function("histogram_sum", _add_histograms, [histograms], of, type=ARROW)
    connection.create_function("histogram_quantile", _find_quantile, [of, duckdb.type("DOUBLE")], "DOUBLE", type=ARROW)
    connection.execute(
        "CREATE MACRO quantile_merge(histogram) AS histogram_sum(list(histogram) FILTER (WHERE histogram IS NOT NULL))"
    )
    connection.execute("CREATE MACRO quantile_value(histogram, q) AS histogram_quantile(quantile_merge(histogram), q)")


def _add_histograms(rows: pa.ChunkedArray) -> pa.Array:
    """The sum of each row's histograms."""
    lists = combine(rows)
    histograms = pc.list_flatten(lists)
    row = pc.list_parent_indices(lists).to_numpy()[pc.list_parent_indices(histograms).to_numpy()]
    x, y = _buckets(histograms)
    order = np.lexsort((x, row))
    row, x, y = row[order], x[order], y[order]
    firsts = np.flatnonzero(np.concatenate([[True], (row[1:] != row[:-1]) | (x[1:] != x[:-1])])[: len(x)])
    summed = pa.StructArray.from_arrays(
        [pa.array(x[firsts], pa.int32()), pa.array(np.add.reduceat(y, firsts) if len(y) else y)], ["x", "y"]
    )
    bounds = np.searchsorted(row[firsts], np.arange(len(lists) + 1))
    return pa.ListArray.from_arrays(pa.array(bounds, pa.int32()), summed)


def _find_quantile(histograms: pa.ChunkedArray, q: pa.ChunkedArray) -> pa.Array:
    """The quantile of each histogram: the value at the rank q(n - 1), rounded down, of n values in order."""
    lists = combine(histograms)
    x, y = _buckets(lists)
    ends = np.cumsum(pc.list_value_length(lists).to_numpy())
    before = np.concatenate([[0.0], np.cumsum(y)])  # counts of all histograms, one after the other
    starts = before[np.concatenate([[0], ends[:-1]])]
    asked = combine(q).to_numpy()
    if outside := [value for value in asked if not 0 <= value <= 1]:
        raise ValueError(f"got the quantile {outside[0]}, allowed are 0 to 1")
    # As doubles, 0.29 * 100 is less than 29.
    ranks = np.floor(asked * (before[ends] - starts - 1) + 1e-9)
    found = x[np.searchsorted(before[1:], starts + ranks, side="right")]
    middle = 2 / (GAMMA + 1) * GAMMA ** (np.abs(found) + float(ZERO))
    return pa.array(np.where(found == 0, 0.0, np.sign(found) * middle))


def _buckets(histograms: pa.Array) -> tuple[_Numbers, _Numbers]:
    """The numbers and counts of all buckets, one histogram after the other."""
    buckets = pc.list_flatten(histograms)
    x, y = (buckets.field(name).to_numpy(zero_copy_only=False) for name in ("x", "y"))
    return x, y


def combine(rows: pa.ChunkedArray) -> pa.Array:
    """The rows of a column that DuckDB gives to a function."""
    combined = rows.combine_chunks()
    return combined.combine_chunks() if isinstance(combined, pa.ChunkedArray) else combined
