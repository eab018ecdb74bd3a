"""The door: each Kafka record is accepted, rejected with a reason, or a tombstone. Nothing is dropped, nothing throws.

What is decided here depends on the record and on ``arrived`` alone. ``arrived`` is the time at which Spark planned the
micro-batch, the same for all its records, so that nothing here asks a clock.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (as everywhere in Spark code)

from hourline_core.model import EventTime, Source

ISO_WITH_OFFSET = r"^\d{4,6}-\d{1,2}-\d{1,2}[T ]\d{1,2}:\d{2}:\d{2}(\.\d{1,9})?\s?(Z|[+-]\d{2}:?\d{2})$"
ISO_LOCAL = r"^\d{4,6}-\d{1,2}-\d{1,2}([T ]\d{1,2}:\d{2}(:\d{2}(\.\d{1,9})?)?)?$"

_JSON = {
    "columnNameOfCorruptRecord": "_corrupt",
    "allowNonNumericNumbers": "false",
    "allowSingleQuotes": "false",
    # Strict, since Spark's own leniency reads '12:00' as noon of the day of reading.
    "timestampFormat": "yyyy-MM-dd['T'][ ]HH:mm:ss[.SSSSSSSSS][XXX]",
}


KEY, VALUE = "$key", "$value"
"""What a record's key and value are called here: no field can have these names."""


def validate(records: DataFrame, source: Source, event_time_type: str) -> DataFrame:
    """Judge Kafka records (key, value, topic, partition, offset, arrived).

    Returns topic, partition, offset, arrived; ``outcome`` (accepted, rejected, tombstone) and, unless accepted,
    ``reason``, KEY and VALUE; event_time, hour (UTC) and the declared fields, null unless accepted. ``event_time_type``
    is the Spark type of the event time's expression.
    """
    records = records.withColumnsRenamed({"key": KEY, "value": VALUE})
    # By themselves: within from_json they would be interpreted, not compiled.
    text = records.withColumn("_text", F.col(VALUE).cast("string")).withColumn("_valid", F.is_valid_utf8("_text"))
    # Spark's JSON reader stops after the first value and overlooks what follows it. Inside an array that ends with a
    # mark of ours, it cannot.
    whole = f"r array<struct<{_json_fields(source)}>>, e int, _corrupt string"
    marked = F.when(F.col("_valid"), F.concat(F.lit('{"r":['), F.col("_text"), F.lit('],"e":1}')))
    parsed = text.withColumn("_parsed", F.from_json(marked, whole, _JSON))
    body = F.col("_parsed.r")[0]
    fields = [body[_key(source, name)].alias(name) for name in source.fields]
    validated = parsed.select("*", *fields).withColumn("_time", _event_time(source.event_time, event_time_type))
    validated = validated.withColumn("reason", _reason(source)).withColumn(
        "outcome",
        F.when(F.col(VALUE).isNull(), "tombstone").when(F.col("reason").isNull(), "accepted").otherwise("rejected"),
    )
    accepted = F.col("outcome") == "accepted"
    refused = F.col("outcome") == "rejected"
    return validated.select(
        "topic",
        "partition",
        "offset",
        "arrived",
        "outcome",
        "reason",
        F.when(refused, F.col(KEY)).alias(KEY),
        F.when(refused, F.col(VALUE)).alias(VALUE),
        F.when(accepted, F.col("_time")).alias("event_time"),
        F.when(accepted, F.date_trunc("hour", F.col("_time"))).alias("hour"),
        *(F.when(accepted, F.col(name)).alias(name) for name in source.fields),
    )


def _event_time(time: EventTime, found: str) -> Column:
    """The event time in UTC, null where it cannot be read."""
    raw = F.expr(time.expression)
    match time.encoding:
        case "iso" | "local" if found.startswith("timestamp"):
            moment = raw.cast("timestamp")
        case "iso":
            moment = F.when(F.trim(raw).rlike(ISO_WITH_OFFSET), F.trim(raw).try_cast("timestamp"))
        case "local":
            moment = F.when(F.trim(raw).rlike(ISO_LOCAL), F.trim(raw).try_cast("timestamp_ntz")).cast("timestamp")
        case encoding if found in ("tinyint", "smallint", "int", "bigint"):
            most, exactly = (
                (250_000_000_000, F.timestamp_seconds)
                if encoding == "epoch_seconds"
                else (250_000_000_000_000, F.timestamp_millis)
            )
            moment = F.when((raw > -most) & (raw < most), exactly(raw))
        case _:
            # Decimal arithmetic: a double would lose microseconds, and a bigint wrap around.
            number = raw.try_cast("decimal(38,9)")
            micros = number * (1_000_000 if time.encoding == "epoch_seconds" else 1_000)
            moment = F.when(F.abs(micros) < 2.5e17, F.timestamp_micros(F.floor(micros).cast("bigint")))
    return F.to_utc_timestamp(moment, time.zone) if time.zone else moment


def _reason(source: Source) -> Column:
    """Why a record is rejected, in words; null when it is accepted (or a tombstone)."""
    parsed, text, time = F.col("_parsed"), F.col("_text"), F.col("_time")
    one = (F.size(parsed["r"]) == 1) & parsed["r"][0].isNotNull() & parsed["e"].isNotNull()
    reason = F.when(F.length(F.col(VALUE)) == 0, "empty value").when(~F.col("_valid"), "invalid UTF-8")
    reason = reason.when(parsed["_corrupt"].isNotNull() | ~F.coalesce(one, F.lit(False)), _malformed(source, text))
    for name, field in source.fields.items():
        if field.required:
            reason = reason.when(F.col(name).isNull(), f"required field '{name}' is missing or null")
        if field.spark_type in ("float", "double"):
            reason = reason.when(
                F.abs(F.col(name)) == float("inf"), f"field '{name}' is beyond what a {field.type} holds"
            )
    got = F.coalesce(F.expr(source.event_time.expression).cast("string"), F.lit("null"))
    reason = reason.when(
        time.isNull(),
        F.concat(F.lit("event time: got "), F.left(got, F.lit(80)), F.lit(f", want {_wanted(source.event_time)}")),
    )
    stamp = F.date_format(time, "yyyy-MM-dd'T'HH:mm:ss'Z'")
    latest = F.col("arrived") + F.make_dt_interval(secs=F.lit(source.ahead.total_seconds()))
    reason = reason.when(
        time > latest,
        F.concat(
            F.lit("event time "),
            stamp,
            F.lit(f" is more than {source.ahead.total_seconds() / 3600:g} h ahead of its arrival"),
        ),
    )
    reason = reason.when(
        time < F.lit(source.earliest),
        F.concat(F.lit("event time "), stamp, F.lit(f" is before {source.earliest:%Y-%m-%dT%H:%MZ}")),
    )
    if source.latest:
        reason = reason.when(
            time >= F.lit(source.latest),
            F.concat(F.lit("event time "), stamp, F.lit(f" is not before {source.latest:%Y-%m-%dT%H:%MZ}")),
        )
    return F.when(F.col(VALUE).isNotNull(), reason)


def _malformed(source: Source, text: Column) -> Column:
    """What is wrong with JSON that Spark could not read as the declared fields: the first field of another type, or no
    JSON object at all.
    """
    alone = F.from_json(text, f"{_json_fields(source)}, _corrupt string", _JSON)
    fields = []
    for name, field in source.fields.items():
        got = F.get_json_object(text, f"$['{_key(source, name)}']")
        wrong = alone[_key(source, name)].isNull() & (F.coalesce(got, F.lit("null")) != "null")
        fields.append(
            F.when(
                wrong, F.concat(F.lit(f"field '{name}': got "), F.left(got, F.lit(80)), F.lit(f", want {field.type}"))
            )
        )
    whole = F.when(
        F.is_variant_null(F.try_parse_json(text)) | F.try_parse_json(text).isNull() | alone["_corrupt"].isNull(),
        "invalid JSON: not exactly one object",
    )
    return F.coalesce(whole, *fields, F.lit("not a JSON object of the declared fields"))


def _wanted(time: EventTime) -> str:
    return {
        "iso": "ISO text with seconds and an offset, such as 2013-01-05T14:30:00Z (without an offset: declare encoding: local and a zone)",
        "local": "ISO text without an offset, such as 2013-01-05T14:30:00",
        "epoch_seconds": "seconds since 1970",
        "epoch_milliseconds": "milliseconds since 1970",
    }[time.encoding]


def _key(source: Source, name: str) -> str:
    return source.fields[name].key or name


def _json_fields(source: Source) -> str:
    return ", ".join(f"`{_key(source, name)}` {field.spark_type}" for name, field in source.fields.items())
