"""The values of tiles beside those that plain Python recounts from the events."""

from collections import defaultdict
from datetime import datetime

import duckdb
import pyarrow as pa

from batch_layer.recount.compare import Difference, find_differences
from batch_layer.recount.groups import group_rows
from batch_layer.recount.read_rows import Row
from hourline_core.aggregates.python_values import read_events
from hourline_core.model import Metric
from hourline_core.sql.merge import values_sql
from hourline_core.sql.types import column_types


def find_wrong(
    connection: duckdb.DuckDBPyConnection, metric: Metric, tiles: pa.Table, rows: list[Row]
) -> list[Difference]:
    """The values of ``tiles``, merged by hour and dimensions, that are not as near to those of ``rows`` as is promised.
    ``connection`` has the functions that the metric needs.
    """
    connection.register("tiles", tiles)
    sql = values_sql(metric, column_types(connection, "tiles"), "FROM tiles", metric.dimensions)
    values = connection.execute(sql).to_arrow_table()
    connection.unregister("tiles")
    published = defaultdict(list)
    for row in read_events([column.combine_chunks() for column in values.columns]):
        named = dict(zip(values.column_names, row, strict=True))
        published[named["hour"]].append(named)
    by_hour: dict[datetime, list[Row]] = defaultdict(list)
    for one in rows:
        by_hour[one.at.replace(minute=0, second=0, microsecond=0)].append(one)
    return [
        wrong
        for hour in published.keys() | by_hour.keys()
        for wrong in find_differences(metric, published[hour], group_rows(metric, by_hour[hour]))
    ]
