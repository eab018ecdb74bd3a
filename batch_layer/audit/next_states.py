"""The states of a metric as readers get them once some hours are published."""

from collections.abc import Sequence
from datetime import datetime

import duckdb
import pyarrow as pa

from hourline_core.ledger.metric_tables import MetricTables
from hourline_core.sql.literals import literal


def next_states_sql(
    connection: duckdb.DuckDBPyConnection,
    tables: MetricTables,
    hours: Sequence[datetime],
    staged: pa.Table | None,
    condition: str,
) -> str:
    """A query: the rows of states, merged by hour, pane and dimensions, of the hours that fulfil ``condition`` (SQL),
    without events from after the cutoffs.

    ``staged`` are the rows of ``hours`` (UTC), which take the place of what is published. None: they are published.
    """
    parts = []
    if staged is not None:
        connection.register("_staged_rows", staged)
        parts.append(f"FROM _staged_rows WHERE {condition}")
    if tables.final is not None:
        others = f" AND hour NOT IN ({', '.join(map(literal, hours))})" if staged is not None else ""
        parts.append(f"FROM hourline.final_{tables.name} WHERE ({condition}){others}")
    return " UNION ALL BY NAME ".join(f"({part})" for part in parts)
