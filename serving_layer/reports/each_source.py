"""Questions about the progress of all sources, each asked once."""

from itertools import accumulate

import pyarrow as pa

from hourline_core.sql.all_progress import keep_all_progress
from serving_layer.connection import Connection


def ask_each(connection: Connection, query: str) -> dict[str, pa.Table]:
    """By source, the rows of ``query``, one SELECT over ``all_progress`` with a column ``source``, in any order and
    without that column. Sources without progress are left out. Raises TableError.
    """
    database = connection.attached("hourline.progress")
    with connection.naming_damage():
        keep_all_progress(database)
        rows = database.execute(f"FROM ({query}) ORDER BY source").to_arrow_table()
    counts = {one["values"]: one["counts"] for one in rows["source"].value_counts().to_pylist()}
    starts = dict(zip(counts, accumulate(counts.values(), initial=0), strict=False))
    rows = rows.drop_columns(["source"])
    return {name: rows.slice(starts.get(name, 0), counts.get(name, 0)) for name in connection.snapshot.progress}
