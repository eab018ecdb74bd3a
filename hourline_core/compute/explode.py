"""Makes several events of one record (flatMap): each element of an array is an event, with its place in the record."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (as everywhere in Spark code)

from hourline_core.compute.nullable import with_nullable_parts
from hourline_core.model import Source
from hourline_core.model.expressions import ATTEMPT
from hourline_core.model.scratch_columns import NOT_TAKEN, PLACE, REASON, SCRATCH_PREFIX, VALUE, VALUE_CRC

_ATTEMPTED = f"{SCRATCH_PREFIX}attempted"
"""struct of the array. Null: its expression raises an error for the record."""


def explode(records: DataFrame, source: Source) -> DataFrame:
    """One row for each element of the array that the source's ``explode`` gives, with PLACE and the element.

    ``records`` are decoded, and have ``record``, VALUE, VALUE_CRC, and REASON (why the record as a whole is rejected).
    No record is dropped. One that is rejected, not taken, or has no value, stays one row with the place 0. One whose
    array is empty or null stays one row with the place null. One that Spark raises an error for is rejected. VALUE is
    on the first row of each record alone. The fields that the expression names are left out.
    """
    ((name, expression),) = source.explode.items()
    is_readable = F.col(NOT_TAKEN).isNull() & F.col(VALUE_CRC).isNotNull() & F.col(REASON).isNull()
    array = F.expr(f"{ATTEMPT}(struct({expression}\n AS array))")
    records = records.withColumn(_ATTEMPTED, F.when(is_readable, array))
    raises = F.when(
        is_readable & F.col(_ATTEMPTED).isNull(), f"explode: '{expression}' raises an error for this record"
    )
    records = records.withColumn(REASON, F.coalesce(REASON, raises))
    others = [
        column
        for column in records.columns
        if column not in (PLACE, _ATTEMPTED) and (column not in source.fields or column in source.event_fields)
    ]
    elements = F.posexplode_outer(F.when(is_readable, F.col(f"{_ATTEMPTED}.array"))).alias(PLACE, name)
    exploded = with_nullable_parts(records.select(*others, elements), [name])
    is_first = F.coalesce(PLACE, F.lit(0)) == 0
    # Spark copies the rows: with the bytes of their record on each, a large record of many events is too much for it.
    return exploded.withColumns(
        {PLACE: F.when(is_readable, F.col(PLACE)).otherwise(0), VALUE: F.when(is_first, F.col(VALUE))}
    )
