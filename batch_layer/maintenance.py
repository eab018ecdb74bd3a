"""The daily maintenance of the batch layer's tables: compaction, vacuum, and the retention of audits and backfills.
Each table has its own turn, so the hourly recompute waits for one table at most.

Compacting final makes a new version of it, which counts once a row of coverage names it. That row has no hour, since
the rows of the hours name the version in which each was *recomputed*, which backfills use. A process that is killed in
between leaves an unpublished version. The next publication or compaction restores the version before.

A vacuum keeps every version that coverage names now. It also keeps those that coverage named before, as long as a
running query or a repeatable answer may need them. A file of
a blocked hour's staged rows may have been out of date for weeks when the hour is mended, and a reader may still read
it. The log stays whole: pinned versions, and version 0 of final, are read by it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from batch_layer.decoding.to_decode import DECODE_WRITER
from hourline_core.ledger.coverage import Coverage
from hourline_core.ledger.coverage_rows import CompactedFinal
from hourline_core.ledger.decoded_tables import list_decoded
from hourline_core.ledger.layout import Layout
from hourline_core.ledger.report_pages import SHOWN
from hourline_core.ledger.unfinished_publication import leave_none_open
from hourline_core.model import Project, Source
from hourline_core.model.decoding import decoding_of
from hourline_core.model.hours import Clock, sql_timestamp, wall_clock
from hourline_core.runtime.lease import turn
from hourline_core.sql.database import open_database
from hourline_core.sql.shared_snapshot import SharedSnapshot
from hourline_core.storage import commits
from hourline_core.storage.compaction import SAVED_FILES, count_compactable
from hourline_core.storage.durable import sync_version
from hourline_core.storage.opening import exists, open_table
from hourline_core.storage.table_maintenance import TableMaintenance
from hourline_core.storage.vacuum import list_vacuumable
from hourline_core.storage.version_retention import KEPT_HOURS

_WORTH = 10
"""The number of files that a compaction of drift, quality or coverage must save. For final, it is ``SAVED_FILES``."""


@dataclass
class Maintenance:
    """One run over all tables of the batch layer. With ``dry_run`` it changes nothing, and reports what it would do."""

    project: Project
    dry_run: bool = False
    clock: Clock = wall_clock
    """Decides what is older than ``batch.reports_kept`` (UTC). What a query may still need goes by the tables' own
    times.
    """
    kept_hours: int = KEPT_HOURS
    on_waiting: Callable[[int], None] = lambda process: None
    """Called with the process that this one waits for, while that recomputes."""
    _layout: Layout = field(init=False)
    _known: dict[int, Coverage] = field(init=False, default_factory=dict)
    """By version, the rows of coverage, which never change."""

    def __post_init__(self) -> None:
        self._layout = Layout.of(self.project)

    def run(self) -> Iterator[str]:
        """Maintain each table. Returns one line for each table that was changed; the next run does what a kill
        leaves undone. Raises ConflictError, TableError.
        """
        # The first publication makes drift and quality, and coverage is made before.
        made = (self._layout.coverage, self._layout.drift, self._layout.quality)
        if not all(exists(uri, self._layout.storage_options) for uri in made):
            return
        named = Coverage.at(self._open(self._layout.coverage)).declarations()
        of_metrics: list[Callable[[], list[str]]] = [
            partial(step, *of) for of in sorted(named) for step in (self._final, self._staged)
        ]
        of_sources: list[Callable[[], list[str]]] = [
            partial(self._decoded, source) for source in self.project.sources.values()
        ]
        of_project = (self._drift, self._quality, self._coverage, self._findings, self._backfills)
        for step in (*of_metrics, *of_sources, *of_project):
            with turn(self.project.workspace, "batch", self.on_waiting):
                lines = step()
            yield from lines

    def _final(self, metric: str, declaration: str) -> list[str]:
        uri = self._layout.final_of(metric, declaration)
        table = self._open(self._layout.coverage)
        coverage = Coverage.at(table)
        pinned = coverage.of(metric, declaration).pinned()
        if pinned is None:  # all of its hours are blocked, or it was reset meanwhile
            return []
        maintenance = TableMaintenance(f"final/{metric}/{declaration}", self._open(uri, pinned), self.dry_run)
        if count_compactable(maintenance.table, "hour") >= SAVED_FILES:
            if not self.dry_run:
                maintenance.table = self._open(uri)
                if maintenance.table.version() != pinned:  # what a killed run has left
                    commits.restore(maintenance.table, pinned, {"restored": pinned})
            maintenance.compact("hour", SAVED_FILES)
            if not self.dry_run:
                self._pin(table, coverage, metric, declaration, maintenance.table.version())
        maintenance.table = self._open(uri)
        in_use = {then.of(metric, declaration).pinned() for then in self._in_use()}
        maintenance.vacuum(self.kept_hours, {version for version in in_use if version is not None})
        return maintenance.line

    def _staged(self, metric: str, declaration: str) -> list[str]:
        uri = self._layout.staged_of(metric, declaration)
        if not exists(uri, self._layout.storage_options):
            return []
        maintenance = TableMaintenance(f"staged/{metric}/{declaration}", self._open(uri), self.dry_run)
        named = [then.of(metric, declaration).staged_versions() for then in self._in_use()]
        maintenance.vacuum(self.kept_hours, {version for versions in named for version in versions})
        return maintenance.line

    def _decoded(self, source: Source) -> list[str]:
        """The tables of decodings of ``source``. One that nobody needs any more is emptied: the source is not declared
        by it, no answer that can be repeated has hours that were published by it, and nobody has written to it since
        then, as a process would that still has an older declaration.
        """
        needed = {decoding_of(source).hash, *(hash for then in self._in_use() for hash in then.decodings())}
        lines = []
        for hash in list_decoded(self._layout, source):
            table = self._open(self._layout.decoded(source, hash))
            maintenance = TableMaintenance(f"decoded/{source.name}/{hash}", table, self.dry_run)
            if hash not in needed and table.file_uris() and table.history(1)[0]["timestamp"] < self._oldest_in_use():
                maintenance.done.append(f"{_count_rows(table):,} rows of a former declaration deleted")
                if not self.dry_run:
                    rows = pa.schema(table.schema().to_arrow()).empty_table()
                    # If the source is declared so again, all is decoded again.
                    commits.overwrite(table, rows, None, {"former": hash}, writers=[DECODE_WRITER])
            maintenance.vacuum(self.kept_hours)
            lines += maintenance.line
        return lines

    def _drift(self) -> list[str]:
        return self._maintain_by_publication(TableMaintenance("drift", self._open(self._layout.drift), self.dry_run))

    def _quality(self) -> list[str]:
        maintenance = TableMaintenance("quality", self._open(self._layout.quality), self.dry_run)
        count, old = self._old_findings()
        if count:
            if not self.dry_run:
                commits.delete(maintenance.table, old, {"older": f"than {self.project.settings.batch.reports_kept}"})
            maintenance.done.append(f"{count:,} findings deleted")
        return self._maintain_by_publication(maintenance)

    def _maintain_by_publication(self, maintenance: TableMaintenance) -> list[str]:
        """The tables with rows of each publication."""
        maintenance.compact("publication", _WORTH)
        maintenance.vacuum(self.kept_hours)
        return self._with_checkpoint(maintenance)

    def _coverage(self) -> list[str]:
        maintenance = TableMaintenance("coverage", self._open(self._layout.coverage), self.dry_run)
        before = len(maintenance.table.file_uris())
        if before > _WORTH:
            if not self.dry_run:
                self._commit(
                    maintenance.table, Coverage.at(maintenance.table).in_order(), {"compacted": f"{before} files"}
                )
            maintenance.done.append(f"{before:,} files compacted into 1")
        kept = self._versions_in_use()
        if list_vacuumable(maintenance.table, self.kept_hours, kept):
            if not self.dry_run:
                leave_none_open(self._layout, maintenance.table)
            maintenance.vacuum(self.kept_hours, kept)
        return self._with_checkpoint(maintenance)

    def _findings(self) -> list[str]:
        if not exists(self._layout.findings, self._layout.storage_options):
            return []
        maintenance = TableMaintenance("findings", self._open(self._layout.findings), self.dry_run)
        maintenance.vacuum(self.kept_hours)
        return self._with_checkpoint(maintenance)

    def _backfills(self) -> list[str]:
        oldest = (self.clock() - self.project.settings.batch.reports_kept).timestamp()
        old = [
            file for file in sorted((self.project.workspace / "backfills").glob("*")) if file.stat().st_mtime < oldest
        ]
        if not self.dry_run:
            for file in old:
                file.unlink(missing_ok=True)
        return (
            [f"backfills: {'would have ' if self.dry_run else ''}{len(old):,} notes of interrupted ones deleted"]
            if old
            else []
        )

    def _pin(self, table: DeltaTable, coverage: Coverage, metric: str, declaration: str, version: int) -> None:
        """Publish a compacted version of final. The cutoffs and the rows of its hours stay as they are."""
        source = coverage.of(metric, declaration).source
        row = CompactedFinal(metric, declaration, source, version, self.clock())
        self._commit(table, coverage.with_compacted(row), {"compacted": f"final/{metric}/{declaration}"})

    def _commit(self, coverage: DeltaTable, rows: pa.Table, metadata: dict[str, str]) -> None:
        leave_none_open(self._layout, coverage)
        commits.overwrite(coverage, rows, None, metadata)

    def _with_checkpoint(self, maintenance: TableMaintenance) -> list[str]:
        if maintenance.done and not self.dry_run:
            maintenance.table.create_checkpoint()
            sync_version(maintenance.table)
        return maintenance.line

    def _old_findings(self) -> tuple[int, str]:
        """The number of rows of quality that nothing shows any more, and the condition that selects them. Kept are
        the rows that the overview and `status` show, however old, and the findings of hours that are blocked or were
        accepted by a person.
        """
        cutoff = sql_timestamp(self.clock() - self.project.settings.batch.reports_kept)
        with open_database(self.project, self.clock, {"hourline.quality"}, SharedSnapshot()) as (database, snapshot):
            hours = {hour for _, hour in snapshot.blocked}
            hours |= {
                hour
                for (hour,) in database.execute(
                    "SELECT hour FROM hourline.quality WHERE metric IS NOT NULL "
                    "QUALIFY origin = 'person' AND publication = max(publication) OVER (PARTITION BY metric, hour)"
                ).fetchall()
            }
            newest = database.execute(
                "SELECT source, max(hour) FROM hourline.quality GROUP BY ALL ORDER BY ALL"
            ).fetchall()
            shown = [f"(source = '{source}' AND hour < '{sql_timestamp(last - SHOWN)}')" for source, last in newest]
            spared = (
                f" AND hour NOT IN ({', '.join(repr(sql_timestamp(hour)) for hour in sorted(hours))})" if hours else ""
            )
            old = f"audited < '{cutoff}' AND ({' OR '.join(shown) or 'false'}){spared}"
            ((count,),) = database.execute(f"SELECT count(*) FROM hourline.quality WHERE {old}").fetchall()
        return count, old

    def _in_use(self) -> list[Coverage]:
        """The rows of coverage now, and at each version since the oldest repeatable answer."""
        versions = self._versions_in_use()
        for version in versions:
            if version not in self._known:
                self._known[version] = Coverage.at(self._open(self._layout.coverage, version))
        return [self._known[version] for version in versions]

    def _versions_in_use(self) -> list[int]:
        """The versions of coverage that were the newest one at some time within ``kept_hours``, or
        ``batch.answers_kept``.
        """
        commits = self._open(self._layout.coverage).history()  # the newest first
        oldest = self._oldest_in_use()
        recent = sum(commit["timestamp"] > oldest for commit in commits)
        return [commit["version"] for commit in commits[: recent + 1]]

    def _oldest_in_use(self) -> float:
        """The time since when versions may be in use, in milliseconds since 1970."""
        kept = max(timedelta(hours=self.kept_hours), self.project.settings.batch.answers_kept)
        return (wall_clock() - kept).timestamp() * 1000

    def _open(self, uri: str, version: int | None = None) -> DeltaTable:
        return open_table(uri, self._layout.storage_options, version)


def _count_rows(table: DeltaTable) -> int:
    return int(pc.sum(pa.table(table.get_add_actions())["num_records"]).as_py())
