"""Counts what a micro-batch has read: each record once, and each event once."""

import pyarrow as pa
import pyarrow.compute as pc

from hourline_core.ledger.progress_rows import RecordCounts
from hourline_core.model.scratch_columns import DUPLICATE, NOT_TAKEN_OUTCOMES
from speed_layer.intake.record_rows import number_of_records, outcomes_of
from speed_layer.recovery.counted_records import CountedBefore


def count_records(fresh: pa.Table, known: CountedBefore, *, joined: bool = False) -> RecordCounts:
    """The counts of ``fresh`` (the rows of a micro-batch that did not count before, with OUTCOME and DUPLICATE).
    ``known`` is what their records count as already, which is taken back. Each event that is ``joined`` is a record.
    """
    outcomes, duplicates = outcomes_of(fresh), pc.sum(fresh[DUPLICATE]).as_py() or 0
    records = number_of_records(fresh, joined=joined) - known.records
    return RecordCounts(
        records=records,
        accepted=outcomes.get("accepted", 0) - duplicates,
        rejected=outcomes.get("rejected", 0) - known.rejected,
        duplicates=duplicates,
        tombstones=outcomes.get("tombstone", 0),
        not_taken=sum(outcomes.get(name, 0) for name in NOT_TAKEN_OUTCOMES) - known.not_taken,
        taken_by_none=outcomes.get("taken_by_none", 0),
        exploded=fresh.num_rows - known.rejected - known.empty - known.not_taken - records,
        empty=outcomes.get("empty", 0) - known.empty,
    )
