"""Keeps the speed layer's tables small while it runs. Their one writer does it, between two micro-batches.

It compacts old progress. It prunes provisional rows at or below a *published* cutoff: no reader counts them any more,
since cutoffs never decrease. It compacts the small files of many commits into few; provisional rows keep their
sequences, because a sum over several could cross a cutoff already chosen. It vacuums files that no reader can still
need.
"""

from datetime import timedelta
from typing import TYPE_CHECKING

from deltalake import DeltaTable

from hourline_core.ledger.coverage import Coverage, DeclarationCoverage, open_coverage
from hourline_core.ledger.layout import Layout
from hourline_core.ledger.progress import Progress
from hourline_core.ledger.snapshot import take_snapshot
from hourline_core.model import Project, Source
from hourline_core.model.hours import Clock, sql_timestamp, wall_clock
from hourline_core.storage import commits
from hourline_core.storage.compaction import SMALL_BYTES, compact
from hourline_core.storage.durable import sync_all, sync_version
from hourline_core.storage.open_tables import OpenTables
from hourline_core.storage.opening import exists, open_table
from hourline_core.storage.table_maintenance import TableMaintenance
from hourline_core.storage.vacuum import vacuum
from hourline_core.storage.version_retention import KEPT_HOURS
from speed_layer.commit.progress_compaction import compact_progress

if TYPE_CHECKING:
    from speed_layer.commit.source_tables import SourceTables

MICRO_BATCHES = 200
"""The number of micro-batches between two runs of maintenance."""

MERGED = 20
"""The number of micro-batches after which the smallest files of a table are merged. Commits and reads take longer with
each file of a table.
"""

_MERGED_ROWS = 500_000
"""Files with this number of rows are not merged again, whatever their size. The next commit waits for a merge, which
takes about a second for a million rows.
"""


def maintain_after(project: Project, source_tables: "SourceTables", finished: int) -> None:
    """Do what is due after ``finished`` micro-batches. Raises ConflictError as ``maintain_source`` does."""
    if finished % MICRO_BATCHES == 0:
        maintain_source(project, source_tables)
        return
    for number, table in enumerate(source_tables.tables):
        # The tables take turns, so that no commit waits for the merges of all of them.
        if (finished - number) % MERGED == 0:
            compact(table, below=SMALL_BYTES)


def maintain_source(
    project: Project, source_tables: "SourceTables", kept_hours: int = KEPT_HOURS, clock: Clock = wall_clock
) -> None:
    """Compact progress, prune, compact and vacuum the tables of one source. ``clock`` (UTC) says which progress is old.
    Raises ConflictError when another process writes to them.
    """
    coverage = _read_durable_coverage(project)
    for older, newer in source_tables.changing():
        covered = coverage.of(newer.metric.name, newer.declaration)
        if covered.is_promoted(source_tables.complete_from[newer.name]):
            source_tables.stop_writing(older)
    for written in source_tables.aggregations:
        prune(source_tables.provisional[written.name], coverage.of(written.metric.name, written.declaration))
    cutoffs = coverage.recomputed_up_to(source_tables.source.name)
    compact_progress(source_tables.progress, clock() - _asked_again(project, kept_hours), cutoffs)
    for table in source_tables.tables:
        compact(table, below_rows=_MERGED_ROWS)
    if not project.settings.speed.fsync:
        sync_all()  # What replaces the old files must be on disk before they are deleted.
    for table in source_tables.tables:
        vacuum(table, kept_hours)
        commits.clean_up_log(table)


def maintain_stopped(
    project: Project,
    source: Source,
    *,
    dry_run: bool = False,
    kept_hours: int = KEPT_HOURS,
    clock: Clock = wall_clock,
) -> list[str]:
    """Do the same for the tables of ``source`` while no speed layer runs. Returns one line for each table that was
    changed, or that ``dry_run`` would change.

    The next start clears what an unfinished micro-batch has left. The caller holds the lease "speed". Raises
    ConflictError, TableError.
    """
    layout, snapshot = Layout.of(project), take_snapshot(project)
    if source.name not in snapshot.progress:
        return []
    coverage = _read_durable_coverage(project)
    addresses: dict[str, DeclarationCoverage | None] = dict.fromkeys(
        f"{kind}/{source.name}" for kind in ("events", "rejected", "progress")
    )
    if exists(layout.quarantine(source), layout.storage_options):
        addresses[f"quarantine/{source.name}"] = None
    for of in snapshot.metrics:
        if of.source.name == source.name:
            address = f"provisional/{of.metric.name}/{of.declaration}"
            addresses[address] = coverage.of(of.metric.name, of.declaration)
    lines = []
    for address, covered in addresses.items():
        maintenance = TableMaintenance(address, open_table(f"{layout.root}/{address}", layout.storage_options), dry_run)
        if covered and (done := prune(maintenance.table, covered, dry_run)):
            maintenance.done.append(f"{done:,} hours pruned")
        if address.startswith("progress/"):
            before, cutoffs = clock() - _asked_again(project, kept_hours), coverage.recomputed_up_to(source.name)
            less = compact_progress(Progress(maintenance.table), before, cutoffs, dry_run)
            maintenance.done += [f"{less:,} rows compacted into later ones"] if less else []
        maintenance.compact("sequence")
        maintenance.vacuum(kept_hours)
        if not dry_run:
            commits.clean_up_log(maintenance.table)
        lines += maintenance.line
    return lines


def _read_durable_coverage(project: Project) -> Coverage:
    """The newest coverage, on disk. A power cut must not take it after rows were deleted because of it."""
    with OpenTables(project.settings.storage_options) as opened:
        table = open_coverage(project, opened)
        if table is not None:
            sync_version(table)
        return Coverage.at(table)


def _asked_again(project: Project, kept_hours: int) -> timedelta:
    """The time for which an answer of a micro-batch can be repeated."""
    return max(project.settings.batch.answers_kept, timedelta(hours=kept_hours))


def prune(table: DeltaTable, covered: DeclarationCoverage, dry_run: bool = False) -> int:
    """Delete the provisional rows that the newest publication covers, and return their number of hours. The commit
    names that publication: without it, the table must not be read any more.
    """
    there = table.to_pyarrow_table(columns=["hour", "sequence"]).group_by("hour").aggregate([("sequence", "min")])
    first = {row["hour"]: row["sequence_min"] for row in there.to_pylist()}
    by_cutoff: dict[int, list[str]] = {}
    for hour, cutoff in covered.cutoffs(first.keys()).items():
        if first[hour] <= cutoff:
            by_cutoff.setdefault(cutoff, []).append(f"'{sql_timestamp(hour)}'")
    hours = sum(map(len, by_cutoff.values()))
    if by_cutoff and covered.publication is not None and not dry_run:
        in_final = " OR ".join(
            f"(sequence <= {cutoff} AND hour IN ({', '.join(moments)}))" for cutoff, moments in by_cutoff.items()
        )
        # Answers of now can be repeated for two hours by the version before. The cleanup of the log goes by its age, so
        # that version is made now.
        commits.fence(table)
        commits.delete(table, in_final, {"pruned": f"{hours} hours"}, {"coverage": covered.publication})
    return hours
