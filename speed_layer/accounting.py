"""Counts what a micro-batch has read: each record once, and each event once."""

import pyarrow as pa
import pyarrow.compute as pc

from hourline_core.ledger.progress_rows import RecordCounts
from hourline_core.model.scratch_columns import DUPLICATE, OFFSET, OUTCOME, PARTITION, PLACE
from speed_layer.reprocessing import CountedBefore


def number_of_records(rows: pa.Table) -> int:
    """The number of records of ``rows`` (PARTITION, OFFSET, PLACE), each of which is an event, or a record without."""
    exploded = pc.any(pc.greater(rows[PLACE], 0)).as_py()
    return len(rows.group_by([PARTITION, OFFSET]).aggregate([]) if exploded else rows)


def count_records(fresh: pa.Table, known: CountedBefore) -> RecordCounts:
    """The counts of ``fresh`` (the rows of a micro-batch that did not count before, with OUTCOME and DUPLICATE).
    ``known`` is what their records count as already, which is taken back.
    """
    outcomes = {entry["values"]: entry["counts"] for entry in pc.value_counts(fresh[OUTCOME]).to_pylist()}
    duplicates = pc.sum(fresh[DUPLICATE]).as_py() or 0
    records = number_of_records(fresh) - known.records
    return RecordCounts(
        records=records,
        accepted=outcomes.get("accepted", 0) - duplicates,
        rejected=outcomes.get("rejected", 0) - known.rejected,
        duplicates=duplicates,
        tombstones=outcomes.get("tombstone", 0),
        exploded=fresh.num_rows - known.rejected - known.empty - records,
        empty=outcomes.get("empty", 0) - known.empty,
    )
