"""Validates Kafka records. Each event is accepted, or rejected with a reason. Nothing is dropped or raises.

A record is one event, unless its source declares ``explode``. A record that is bad as a whole is rejected once; an
element that is bad is rejected alone. A record without a value is a tombstone, one without an event is empty.

The decision depends on the record and on ARRIVED alone. ARRIVED is the time at which Spark planned the micro-batch. It
is the same for all records of the micro-batch, so no clock is read here.
"""

from collections.abc import Sequence
from datetime import UTC, datetime

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (as everywhere in Spark code)

from hourline_core.compute.branch import with_branch
from hourline_core.compute.decode import decode
from hourline_core.compute.explode import explode
from hourline_core.compute.panes import assign_pane
from hourline_core.compute.record import undecodable_key, with_record
from hourline_core.formats.time_grammar import ISO_LOCAL, ISO_WITH_OFFSET
from hourline_core.model import EventTime, Source
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
    UNDECODED,
    UNREADABLE,
    VALUE,
    VALUE_CRC,
)
from hourline_core.model.windows import HOURLY

_PLAIN_NUMBER = r"\A-?[0-9]{1,20}(?:\.[0-9]+)?\z"
_FIRST_TIME = datetime(2, 1, 1, tzinfo=UTC)
"""No event is earlier. Times a year before it can still be computed with."""


def validate(
    records: DataFrame,
    source: Source,
    event_time_type: str,
    branches: Branches | None = None,
    keep: Sequence[str] = (),
) -> DataFrame:
    """Validate the Kafka records of ``read_topics`` (KEY, VALUE, HEADERS, TOPIC, PARTITION, OFFSET, ARRIVED, …).

    Returns one row for each event, and for each record without one: their columns, VALUE_CRC, PLACE and OUTCOME.
    Rejected events have REASON. Accepted ones have EVENT_TIME, HOUR (UTC) and the fields of an event. VALUE is on the
    rows that keep it. All else is null. ``event_time_type`` is the Spark type of the event time's expression.
    ``branches`` say which records the source takes; None: all. ``keep`` are further columns of ``records`` that the
    rows keep.
    """
    taken = with_branch(records.withColumn(PLACE, F.lit(0)), branches)
    decoded = with_record(decode(taken, source.format, source.fields), source)
    checks = _checks_of_record(source)
    if source.explode:
        decoded = with_record(explode(decoded.withColumn(REASON, F.coalesce(*checks)), source), source)
        types = dict(decoded.dtypes)
        checks = [F.col(REASON), *(check for name in source.explode for check in _checks_of_number(name, types[name]))]
    timed = decoded.withColumn(EVENT_TIME, _event_time(source.event_time, event_time_type))
    # Null if the event is accepted, or there is none.
    reason = F.when(
        F.col(NOT_TAKEN).isNull() & F.col(VALUE).isNotNull() & F.col(PLACE).isNotNull(),
        F.coalesce(*checks, *_checks_of_event_time(source)),
    )
    validated = timed.withColumn(REASON, reason).withColumn(
        OUTCOME,
        F.when(F.col(NOT_TAKEN).isNotNull(), F.col(NOT_TAKEN))
        .when(F.col(VALUE).isNull(), "tombstone")
        .when(F.col(PLACE).isNull(), "empty")
        .when(F.col(REASON).isNull(), "accepted")
        .otherwise("rejected"),
    )
    is_accepted = F.col(OUTCOME) == "accepted"
    # A record's bytes are kept once, unless several of its events are rejected.
    is_kept = is_accepted & (F.col(PLACE) == 0) | (F.col(OUTCOME) == "empty")
    is_kept = (F.lit(source.raw) & is_kept) | (F.col(OUTCOME) == "rejected")
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
        F.crc32(F.col(VALUE)).alias(VALUE_CRC),
        F.when(is_accepted, F.col(EVENT_TIME)).alias(EVENT_TIME),
        F.when(is_accepted, F.expr(assign_pane(EVENT_TIME, HOURLY.pane))).alias(HOUR),
        *(F.when(is_accepted, F.col(name)).alias(name) for name in source.event_fields),
    )


def _event_time(time: EventTime, spark_type: str) -> Column:
    """The event time in UTC; null if it cannot be read."""
    raw = F.expr(time.expression)
    match time.encoding:
        case "iso" | "local" if spark_type.startswith("timestamp"):
            moment = raw.cast("timestamp")
        case "iso":
            moment = F.when(raw.rlike(ISO_WITH_OFFSET), raw.try_cast("timestamp"))
        case "local":
            moment = F.when(raw.rlike(ISO_LOCAL), raw.try_cast("timestamp_ntz")).cast("timestamp")
        case encoding if spark_type in ("int", "bigint"):
            most, exactly = (
                (250_000_000_000, F.timestamp_seconds)
                if encoding == "epoch_seconds"
                else (250_000_000_000_000, F.timestamp_millis)
            )
            moment = F.when((raw > -most) & (raw < most), exactly(raw))
        case _:
            # Decimal arithmetic: a double would lose microseconds, and a bigint overflow.
            plain = F.when(raw.rlike(_PLAIN_NUMBER), raw) if spark_type == "string" else raw
            number = plain.try_cast("decimal(38,9)")
            micros = number * (1_000_000 if time.encoding == "epoch_seconds" else 1_000)
            moment = F.when(F.abs(micros) < 2.5e17, F.timestamp_micros(F.floor(micros).cast("bigint")))
    return F.to_utc_timestamp(moment, time.zone) if time.zone else moment


def _checks_of_record(source: Source) -> list[Column]:
    """Why a record as a whole is rejected, in words. The first that is not null counts."""
    checks = [F.when(F.length(F.col(VALUE)) == 0, "empty value"), F.col(UNDECODED), undecodable_key(source)]
    checks.append(F.col(UNREADABLE))
    for name, field in source.fields.items():
        if field.required:
            checks.append(F.when(F.col(name).isNull(), f"required field '{name}' is missing or null"))
    return checks


def _checks_of_number(name: str, spark_type: str) -> list[Column]:
    if spark_type not in ("float", "double"):
        return []
    return [F.when(F.abs(F.col(name)) == float("inf"), f"field '{name}' is beyond what a {spark_type} holds")]


def _checks_of_event_time(source: Source) -> list[Column]:
    """Why an event is rejected for its time, in words. The first that is not null counts."""
    time, expression = F.col(EVENT_TIME), source.event_time.expression
    got = F.expr(expression).cast("string")
    checks = [F.when(got.isNull(), f"event time: {expression} is null")]
    want = f", want {_describe_encoding(source.event_time)}"
    checks.append(_when(time.isNull(), "event time: got ", F.left(got, F.lit(80)), want))
    stamp = F.date_format(time, "yyyy-MM-dd'T'HH:mm:ss'Z'")
    ahead = source.ahead.total_seconds()
    is_ahead = time > F.col(ARRIVED) + F.make_dt_interval(secs=F.lit(ahead))
    checks.append(_when(is_ahead, "event time ", stamp, f" is more than {ahead / 3600:g} h ahead of its arrival"))
    first = source.first_time or _FIRST_TIME
    checks.append(_when(time < _moment(first), "event time ", stamp, f" is before {_minute(first)}"))
    if source.latest:
        is_late = time >= _moment(source.latest)
        checks.append(_when(is_late, "event time ", stamp, f" is not before {_minute(source.latest)}"))
    return checks


def _moment(moment: datetime) -> Column:
    """``moment`` for Spark. As a Python object, it would be taken for one of the Julian calendar before 1582."""
    return F.lit(f"{moment.astimezone(UTC).isoformat()}").cast("timestamp")


def _when(condition: Column, before: str, value: Column, after: str) -> Column:
    """A sentence with ``value`` in it if ``condition`` holds, else null."""
    return F.when(condition, F.concat(F.lit(before), value, F.lit(after)))


def _minute(moment: datetime) -> str:
    return f"{moment.isoformat()[:16]}Z"


def _describe_encoding(time: EventTime) -> str:
    return {
        "iso": "ISO text with seconds and an offset, such as 2013-01-05T14:30:00Z "
        "(without an offset: declare encoding: local and a zone)",
        "local": "ISO text without an offset, such as 2013-01-05T14:30:00",
        "epoch_seconds": "seconds since 1970",
        "epoch_milliseconds": "milliseconds since 1970",
    }[time.encoding]
