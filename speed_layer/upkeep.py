"""Keeps the speed layer's tables small while it runs, by their one writer, between two micro-batches.

Prunes provisional rows at or below a *published* cut, since no reader counts them any more, nor ever will: cuts never decrease. Compacts the small
files of many commits into few; rows keep their sequences, as a sum over several could cross a cut already chosen. Vacuums files that no version
needs which a reader may still be at.
"""

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from hourline import tables
from hourline.declarations import Project
from hourline.layout import sql_timestamp
from hourline.snapshot import has_taken_over, read_coverage
from speed_layer.ledger import Ledger

MICRO_BATCHES = 200
"""So many micro-batches lie between two times of upkeep."""


def keep_up(project: Project, ledger: Ledger, kept_hours: int = tables.KEPT_HOURS) -> None:
    """Prune, compact and vacuum the tables of one source. Raises ConflictError when another process writes to them."""
    coverage = read_coverage(project)[1]
    for older, newer in ledger.changing():
        if has_taken_over(coverage, newer.metric, newer.declaration, ledger.born[newer.name]):
            ledger.stop_writing(older)
    for name, table in ledger.provisional.items():
        covered = pc.binary_join_element_wise(coverage["metric"], coverage["declaration"], "_")
        prune(table, coverage.filter(pc.equal(covered, name)))
    for table in (ledger.events, ledger.rejected, ledger.progress, *ledger.provisional.values()):
        tables.compact(table)
        tables.vacuum(table, kept_hours)


def prune(table: DeltaTable, covered: pa.Table) -> None:
    """Delete the provisional rows that final has taken over; ``covered`` are the metric's rows of coverage (hour, cut)."""
    there = table.to_pyarrow_table(columns=["hour", "sequence"]).group_by("hour").aggregate([("sequence", "min")])
    done = there.join(covered.select(["hour", "cut"]), "hour", join_type="inner")
    done = done.filter(pc.less_equal(done["sequence_min"], done["cut"]))
    by_cut: dict[int, list[str]] = {}
    for row in done.to_pylist():
        by_cut.setdefault(row["cut"], []).append(f"'{sql_timestamp(row['hour'])}'")
    if by_cut:
        taken_over = " OR ".join(f"(sequence <= {cut} AND hour IN ({', '.join(hours)}))" for cut, hours in by_cut.items())
        tables.delete(table, taken_over, {"pruned": f"{done.num_rows} hours"})
