"""Finds the first event of each id and hour, by sequence and address; or those whose id comes once in its hour."""

from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from batch_layer.folding.plan import ADDRESS
from batch_layer.folding.tables import Hashes, query
from hourline_core.model.scratch_columns import HOUR, ID, SCRATCH_PREFIX, SEQUENCE, TOPIC_ID

_RANK = f"{SCRATCH_PREFIX}rank"
_ONCE = " HAVING count(*) = 1"
_FIRSTS = f"SELECT min({_RANK}) AS {_RANK} FROM rows WHERE {ID} IS NOT NULL GROUP BY {HOUR}, {ID}"


def find_first(
    connection: duckdb.DuckDBPyConnection, rows: pa.Table, hashes: Hashes, *, only: bool = False
) -> pa.Array:
    """Whether each event of ``rows`` has no id, or is the first of its id and hour. With ``only``: or is the only one.
    ``hashes`` are those of ``hash_ids``.
    """
    # Each event without an id counts. All of an hour have the same hash.
    may_repeat = _find_repeated(hashes) & pc.is_valid(rows[ID]).to_numpy()
    some = rows.select([HOUR, ID, SEQUENCE, *ADDRESS]).filter(pa.array(may_repeat))
    order = _order(some)
    ranks = np.empty(some.num_rows, np.int64)
    ranks[order] = np.arange(some.num_rows)
    # One integer is all that DuckDB holds of the events of an id.
    firsts = query(
        connection, _FIRSTS + (_ONCE if only else ""), pa.table({HOUR: some[HOUR], ID: some[ID], _RANK: ranks})
    )[_RANK].to_numpy()
    of_some = pc.is_null(some[ID]).to_numpy().copy()
    of_some[order[firsts]] = True
    is_first = ~may_repeat
    is_first[may_repeat] = of_some
    return pa.array(is_first)


def _find_repeated(hashes: Hashes) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Whether each of ``hashes`` may come more than once. Nearly all events have an id of their own. To sort hashes
    takes a fifth of the time of grouping by ids.
    """
    in_order = np.sort(hashes)
    repeated = in_order[1:][in_order[1:] == in_order[:-1]]
    # Bits of a hash tell nearly all others apart, in a twentieth of the time that a set of hashes takes.
    is_repeated = np.zeros(1 << 20, np.bool_)
    is_repeated[repeated >> np.uint64(44)] = True
    found: np.ndarray[Any, np.dtype[np.bool_]] = is_repeated[hashes >> np.uint64(44)]
    return found


def _order(rows: pa.Table) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The numbers of the rows by sequence and address."""
    topics = rows[TOPIC_ID].combine_chunks().dictionary_encode()
    codes = pc.rank(topics.dictionary, tiebreaker="dense").take(topics.indices)
    keys = [codes, *(rows[name] for name in ADDRESS[1:])]
    return np.lexsort([key.to_numpy() for key in reversed([rows[SEQUENCE], *keys])])
