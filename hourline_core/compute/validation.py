"""Validates Kafka records. Each event is accepted, or rejected with a reason. Nothing is dropped or raises.

A record is one event, unless its source declares ``explode``. A record that is bad as a whole is rejected once; an
element that is bad is rejected alone. A record without a value is a tombstone, one without an event is empty.

The decision depends on the record and on ARRIVED alone. ARRIVED is the time at which Spark planned the micro-batch. It
is the same for all records of the micro-batch, so no clock is read here. Native code decides, see
`hourline_core/validation/`. Spark calls it once if the event time is a column, else once more for the event time.
"""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (as everywhere in Spark code)

from hourline_core.compute.branch import with_branch
from hourline_core.compute.decode import read_records, read_times
from hourline_core.compute.explode import explode
from hourline_core.compute.panes import assign_pane
from hourline_core.compute.record import with_record
from hourline_core.model import Source
from hourline_core.model.branches import Branches
from hourline_core.model.scratch_columns import (
    ARRIVED,
    EVENT_TIME,
    HEADERS,
    HOUR,
    KEY,
    NOT_TAKEN,
    OFFSET,
    OUTCOME,
    PARTITION,
    PLACE,
    REASON,
    RECORD_TIMESTAMP,
    RECORD_TIMESTAMP_TYPE,
    TOPIC,
    VALUE,
    VALUE_CRC,
    VALUE_SIZE,
)
from hourline_core.model.windows import HOURLY
from hourline_core.validation.validator import event_time_column


def validate(
    records: DataFrame,
    source: Source,
    branches: Branches | None = None,
    keep: Sequence[str] = (),
) -> DataFrame:
    """Validate the Kafka records of ``read_topics`` (KEY, VALUE, HEADERS, TOPIC, PARTITION, OFFSET, ARRIVED, …).

    Returns one row for each event, and for each record without one: their columns, VALUE_CRC, VALUE_SIZE, PLACE and
    OUTCOME.
    Rejected events have REASON. Accepted ones have EVENT_TIME, HOUR (UTC) and the fields of an event. VALUE is on the
    rows that keep it; with ``explode``, on the first row of each record. All else is null. ``branches`` say which
    records the source takes; None: all. ``keep`` are further columns of ``records`` that the rows keep.
    """
    of_value = {VALUE_CRC: F.crc32(F.col(VALUE)), VALUE_SIZE: F.octet_length(VALUE)}
    taken = with_branch(records.withColumns({PLACE: F.lit(0), **of_value}), branches)
    read = read_records(taken, source)
    validated = (read if event_time_column(source) else _with_times(read, source)).withColumn(
        OUTCOME,
        F.when(F.col(NOT_TAKEN).isNotNull(), F.col(NOT_TAKEN))
        .when(F.col(VALUE_CRC).isNull(), "tombstone")
        .when(F.col(PLACE).isNull(), "empty")
        .when(F.col(REASON).isNull(), "accepted")
        .otherwise("rejected"),
    )
    is_accepted = F.col(OUTCOME) == "accepted"
    if source.explode:  # Which of its events are rejected is not known at its first one.
        is_kept = F.col(NOT_TAKEN).isNull()
    else:
        is_kept = F.col(OUTCOME).isin("accepted", "rejected") if source.raw else F.col(OUTCOME) == "rejected"
    return validated.select(
        *keep,
        TOPIC,
        PARTITION,
        OFFSET,
        F.coalesce(PLACE, F.lit(0)).alias(PLACE),
        RECORD_TIMESTAMP,
        RECORD_TIMESTAMP_TYPE,
        ARRIVED,
        KEY,
        HEADERS,
        OUTCOME,
        REASON,
        F.when(is_kept, F.col(VALUE)).alias(VALUE),
        VALUE_CRC,
        VALUE_SIZE,
        F.when(is_accepted, F.col(EVENT_TIME)).alias(EVENT_TIME),
        F.when(is_accepted, F.expr(assign_pane(EVENT_TIME, HOURLY.pane))).alias(HOUR),
        *(F.when(is_accepted, F.col(name)).alias(name) for name in source.event_fields),
    )


def _with_times(records: DataFrame, source: Source) -> DataFrame:
    """The events of ``records`` with EVENT_TIME, and with REASON as far as it is about the event alone."""
    events = with_record(records, source)
    if source.explode:
        events = with_record(explode(events, source), source)
        types = dict(events.dtypes)
        checks = [check for name in source.explode for check in _checks_of_number(name, types[name])]
        events = events.withColumn(REASON, F.coalesce(REASON, *checks))
    has_event = F.col(NOT_TAKEN).isNull() & F.col(VALUE_CRC).isNotNull() & F.col(PLACE).isNotNull()
    return read_times(events, source, has_event & F.col(REASON).isNull())


def _checks_of_number(name: str, spark_type: str) -> list[Column]:
    if spark_type not in ("float", "double"):
        return []
    return [F.when(F.abs(F.col(name)) == float("inf"), f"field '{name}' is beyond what a {spark_type} holds")]
