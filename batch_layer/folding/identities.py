"""Counts what ``find_first`` has kept and left out, so that the audit finds a fault in it. Nothing of it is used here.

Of the events that are kept, the number must be that of their ids. Of those that are left out, it must be that of those
after a kept event of the same id. Then each id of a task has one event that is kept, the first one.
"""

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from batch_layer.folding.plan import ADDRESS
from batch_layer.folding.tables import Hashes, query
from hourline_core.model.scratch_columns import HOUR, ID, IS_FIRST, SCRATCH_PREFIX, SEQUENCE

FIRST, IDS, REPEATED, LATER = (f"{SCRATCH_PREFIX}{name}" for name in ("first", "ids", "repeated", "later"))
"""bigint, by hour: the numbers of events that are kept, of their ids and of those without one, of events that are left
out, and of those of them that came after one that is kept.
"""
_ORDER = (SEQUENCE, *ADDRESS)
_EXCESS = f"SELECT {HOUR}, count({ID}) - count(DISTINCT {ID}) AS excess FROM rows GROUP BY {HOUR}"
_LATER = f"""
    SELECT later.{HOUR}, count(*) AS {REPEATED}, count(kept.{HOUR}) AS {LATER}
    FROM (FROM rows WHERE NOT {IS_FIRST}) AS later LEFT JOIN (FROM rows WHERE {IS_FIRST}) AS kept
    ON kept.{HOUR} = later.{HOUR} AND kept.{ID} = later.{ID}
        AND row({", ".join(f"kept.{name}" for name in _ORDER)}) < row({", ".join(f"later.{name}" for name in _ORDER)})
    GROUP BY later.{HOUR}"""


def count_kept(connection: duckdb.DuckDBPyConnection, events: pa.Table, is_first: pa.Array, hashes: Hashes) -> pa.Table:
    """HOUR, FIRST and IDS of those of ``events`` that are kept: ``is_first`` says which. ``hashes`` are those of
    ``hash_ids``. Ids are compared only where a hash comes twice.
    """
    kept = is_first.to_numpy(zero_copy_only=False)
    in_order = np.sort(hashes[kept])
    twice = np.unique(in_order[1:][in_order[1:] == in_order[:-1]])
    flags = pa.table({HOUR: events[HOUR], FIRST: is_first})
    counts = flags.group_by(HOUR, use_threads=False).aggregate([(FIRST, "sum")]).rename_columns([HOUR, FIRST])
    counts = counts.set_column(1, FIRST, counts[FIRST].cast(pa.int64()))
    if not len(twice):
        return counts.append_column(IDS, counts[FIRST])
    alike = events.select([HOUR, ID]).filter(pc.and_(is_first, pc.is_in(pa.array(hashes), pa.array(twice))))
    excess = query(connection, _EXCESS, alike)
    of_hour = excess["excess"].combine_chunks().take(pc.index_in(counts[HOUR], excess[HOUR].combine_chunks()))
    return counts.append_column(IDS, pc.subtract(counts[FIRST], pc.fill_null(of_hour, 0)))


def count_left_out(
    connection: duckdb.DuckDBPyConnection, events: pa.Table, is_first: pa.Array, hashes: Hashes
) -> pa.Table:
    """HOUR, REPEATED and LATER of those of ``events`` that are left out, of hours that have some. The arguments are
    those of ``count_kept``.
    """
    # Bits of a hash tell nearly all other events apart, in a twentieth of the time that a set of hashes takes.
    bits = hashes >> np.uint64(44)
    is_wanted = np.zeros(1 << 20, np.bool_)
    is_wanted[bits[~is_first.to_numpy(zero_copy_only=False)]] = True
    some = events.select([HOUR, ID, *_ORDER]).append_column(IS_FIRST, is_first)
    return query(connection, _LATER, some.filter(pa.array(is_wanted[bits])))
