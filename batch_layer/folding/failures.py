"""Some of the events of each hour that are in quarantine, as a metric's findings show them."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

import duckdb
import pyarrow as pa

from batch_layer.folding.tables import query
from hourline_core.model.scratch_columns import PLACE

_SHOWN = 5
"""The maximum number of events that are shown of an hour."""
_ADDRESS = ("topic", "partition", "offset", "place")
_FIRST = f"""
    SELECT hour, topic, "partition", "offset", {PLACE} AS place, measure, file, message FROM rows
    QUALIFY row_number() OVER (PARTITION BY hour ORDER BY topic, "partition", "offset", place) <= {_SHOWN}
"""


def keep_first(connection: duckdb.DuckDBPyConnection, quarantined: pa.Table) -> pa.Table:
    """The first events of each hour, by their addresses, of ``quarantined``, rows as of ``Fold.fold``."""
    return query(connection, _FIRST, quarantined)


def list_first(tables: Iterable[pa.Table]) -> dict[datetime, list[dict[str, Any]]]:
    """By hour, the first events of ``tables``: their addresses, and why a class fails for them."""
    found: dict[datetime, list[dict[str, Any]]] = {}
    rows = [row for table in tables for row in table.to_pylist()]
    for row in sorted(rows, key=lambda row: [row[name] for name in _ADDRESS]):
        of_hour = found.setdefault(row.pop("hour"), [])
        if len(of_hour) < _SHOWN:
            of_hour.append(row)
    return found
