"""Deduplication by Spark, for expectations on events and for drift: which event of an id counts in an hour, exactly,
among all that the archive holds. The fold does the same in its tasks (``batch_layer/folding/tasks.py``).

The speed layer's is in ``speed_layer/intake/deduplication.py``: it compares each event with the ids it holds in memory.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 (as everywhere in Spark code)

from hourline_core.model import Source
from hourline_core.model.expressions import attempt
from hourline_core.model.scratch_columns import HOUR, IS_FIRST, OFFSET, PARTITION, PLACE, SEQUENCE, TOPIC_ID


def mark_first(events: DataFrame, source: Source, apart: Column | None = None) -> DataFrame:
    """The events with IS_FIRST: whether an event is the first of its id in its hour, by sequence and address. Each
    event without an id is one. If the source takes events back: whether it is the only one of its id.
    Events that differ in ``apart`` are not compared.
    """
    if not source.id:
        return events.withColumn(IS_FIRST, F.lit(True))
    identity = F.expr(attempt(source.id))
    # Events without an id, such as the pairs of most left joins, need not meet in a task.
    alone = F.when(identity.isNull(), F.struct(TOPIC_ID, PARTITION, OFFSET, PLACE))
    of_id = Window.partitionBy(
        identity, HOUR, *([alone] if source.takes_back else []), *([] if apart is None else [apart])
    )
    if source.takes_back:
        return events.withColumn(IS_FIRST, (F.count("*").over(of_id) == 1) | identity.isNull())
    # Sorting compares the first 8 bytes of the first column before all else. Ids differ in them, hours do not.
    arrivals = of_id.orderBy(SEQUENCE, TOPIC_ID, PARTITION, OFFSET, PLACE)
    return events.withColumn(IS_FIRST, (F.row_number().over(arrivals) == 1) | identity.isNull())
