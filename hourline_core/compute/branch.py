"""Decides which records a source's branch takes, before all other validation.

Each source of a topic reads the fields that any of their conditions names, and evaluates all conditions. So all of them
come to the same decision, and each record is taken by a branch, or counted as taken by none.
"""

from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (as everywhere in Spark code)

from hourline_core.compute.decode import decode
from hourline_core.compute.record import undecodable_key, with_record
from hourline_core.model.branches import OTHERWISE, Branches
from hourline_core.model.expressions import attempt
from hourline_core.model.scratch_columns import NOT_TAKEN, RECORD_TIMESTAMP_TYPE, UNDECODED, UNREADABLE, VALUE


def with_branch(records: DataFrame, branches: Branches | None) -> DataFrame:
    """Add NOT_TAKEN and UNREADABLE to the records of ``read_topics``. Without ``branches``, all records are taken.

    If the fields that the conditions name cannot be read, no condition can be evaluated. One source of the topic takes
    such a record, to reject it.
    """
    if branches is None:
        return records.withColumns(dict.fromkeys((NOT_TAKEN, UNREADABLE), F.lit(None).cast("string")))
    source = branches.source
    decoded = with_record(_read_fields(records, branches), source)
    takes = {
        name: F.coalesce(F.expr(attempt(condition)), F.lit(False)) for name, condition in branches.conditions.items()
    }
    taken_by_others = reduce(or_, (column for name, column in takes.items() if name != source.name), F.lit(False))
    mine = ~taken_by_others if source.branch == OTHERWISE else takes[source.name]
    unreadable = _unreadable(branches)
    nobody = ~taken_by_others & F.lit(branches.counts_untaken)
    not_taken = (
        F.when(unreadable.isNotNull(), F.lit(None if branches.takes_unreadable else "not_taken"))
        .when(mine, F.lit(None))
        .when(nobody, "taken_by_none")
        .otherwise("not_taken")
    )
    return decoded.select(
        *records.columns, not_taken.cast("string").alias(NOT_TAKEN), unreadable.cast("string").alias(UNREADABLE)
    )


def _read_fields(records: DataFrame, branches: Branches) -> DataFrame:
    """The records with the fields that the conditions name, and UNDECODED."""
    if not branches.fields:
        return records.withColumn(UNDECODED, F.lit(None).cast("string"))
    return decode(records, branches.source.format, branches.fields)


def _unreadable(branches: Branches) -> Column:
    """Why the conditions cannot be evaluated. Null: they can."""
    reasons = [F.lit(None).cast("string")]
    if branches.fields:
        is_empty = F.length(F.col(VALUE)) == 0
        if branches.source.format.takes_empty:  # A row of a file always needs some bytes.
            is_empty &= F.col(RECORD_TIMESTAMP_TYPE).isNull()
        reasons.append(F.when(F.col(VALUE).isNull() | is_empty, "no value"))
        reasons.append(F.col(UNDECODED))
    if branches.name_record:
        reasons.append(undecodable_key(branches.source))
    return F.coalesce(*reasons)
