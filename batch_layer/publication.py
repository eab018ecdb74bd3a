"""Commits a publication: final is overwritten hour by hour, then coverage is committed once for all metrics.

An hour that did not pass its audit is marked in coverage, and nothing else of it changes: readers keep what they had.
Its rows stay in the version of the staged table that the mark names.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime

import pyarrow as pa
from deltalake import DeltaTable

from batch_layer.drift.by_cause import HourDrift
from batch_layer.stage import StagedMetric
from hourline_core.compute.aggregation import AggregationPlan
from hourline_core.errors import ConflictError, TableError
from hourline_core.ledger.coverage import Coverage
from hourline_core.ledger.coverage_rows import COVERAGE_SCHEMA, BlockedHour, CoverageRow, CoveredHour, Promotion
from hourline_core.ledger.layout import DRIFT_SCHEMA, QUALITY_SCHEMA, Layout
from hourline_core.ledger.open_progress import sync_progress
from hourline_core.ledger.unfinished_publication import drop_unpublished, leave_none_open
from hourline_core.model import Project
from hourline_core.model.decoding import decoding_of
from hourline_core.model.hours import sql_timestamp
from hourline_core.storage import commits
from hourline_core.storage.commits import is_from_earlier_boot
from hourline_core.storage.compaction import SAVED_FILES, SMALL_BYTES, compact, count_compactable
from hourline_core.storage.creation import open_or_create
from hourline_core.storage.opening import exists, open_table
from hourline_core.storage.seen_versions import versions_of
from hourline_core.storage.vacuum import vacuum
from hourline_core.storage.version_retention import KEPT_HOURS, PUBLISHED

_FILES = 50
"""Each publication adds a file to drift and one to quality. This number of files is merged into one."""
_FILES_OF_COVERAGE = 20
"""A publication that finds this number of files in coverage writes all of its rows into one. Each job of a recompute
reads them all.
"""
_AS_CREATED = 0
"""The version of a table without rows, as it was created. It counts until something is published."""


@dataclass(frozen=True)
class MetricPublication:
    """What one publication commits of one metric."""

    staged: StagedMetric
    blocked: Mapping[datetime, str] = field(default_factory=dict)
    """The hours that did not pass their audit, each with the hash of its expectations ("": the audit itself failed)."""
    drift: list[HourDrift] = field(default_factory=list)
    """How much, and why, the hours that passed change."""
    lookups: str | None = None
    """The versions of lookups that its rows were computed with, as coverage keeps them."""
    lookups_as_of: datetime | None = None
    """The moment (UTC) that a person has asked for these versions of. None: they were the newest ones."""
    promotes: bool = False
    """Whether this publication covers the last missing hours of a changed declaration, which is served from then on."""

    @property
    def aggregation(self) -> AggregationPlan:
        """The metric, resolved against its source."""
        return self.staged.aggregation

    @property
    def passed(self) -> list[datetime]:
        """The hours to publish."""
        return [hour for hour in self.staged.hours if hour not in self.blocked]


class Publication:
    """One publication, begun before its cutoff is taken. It commits on the coverage that it began with, or not at all.

    So a process that was suspended while another one published, at whichever step, changes nothing and gets a
    ConflictError. Cutoffs never decrease. Creates coverage if there is none. Raises TableError.
    """

    def __init__(self, project: Project) -> None:
        self._project, self._layout = project, Layout.of(project)
        self._coverage = self._open(
            self._layout.coverage, "coverage", COVERAGE_SCHEMA, "which version of final counts, and up to which cutoff"
        )
        made = (self._layout.drift, self._layout.quality)
        if is_from_earlier_boot(self._coverage) and all(exists(uri, self._layout.storage_options) for uri in made):
            # A publication that was lost with the power may have been seen: its number is not given again.
            leave_none_open(self._layout, self._coverage)
            commits.fence(self._coverage)
        self._covered = Coverage.at(self._coverage)
        self.number = self._coverage.version() + 1
        """The version of coverage that this publication will be."""

    def publish(
        self,
        metrics: list[MetricPublication],
        findings: pa.Table,
        moment: datetime,
        cost: Mapping[str, float] | None = None,
    ) -> None:
        """Overwrite the hours that passed in final, then commit coverage. Readers see nothing before that commit, and
        everything after it.

        ``findings`` are the audit's (QUALITY_SCHEMA, without the number of the publication). ``moment`` (UTC) dates the
        publication. ``cost`` (events × metrics, seconds) is kept with the commit, for the estimate of a backfill.
        Raises ConflictError; then readers keep what they had.
        """
        sync_progress(self._project, {of.aggregation.source.name: of.aggregation.source for of in metrics}.values())
        final = {item.aggregation.metric.name: self._open_final(item.aggregation) for item in metrics}
        drift = self._open(
            self._layout.drift, "drift", DRIFT_SCHEMA, "by how much each recomputed hour changed, and why"
        )
        quality = self._open(
            self._layout.quality, "quality", QUALITY_SCHEMA, "what the audit of each recomputed hour found"
        )
        # Last: all that these tables hold now was there when the publication began, or is not published.
        self._refuse_overtaken()
        self._keep(drift, self._drift_rows(metrics, moment))
        self._keep(quality, self._number(findings))
        fresh: list[CoverageRow] = []
        for item in metrics:
            fresh += self._overwrite_final(item, final[item.aggregation.metric.name], moment)
            fresh += self._blocked_rows(item)
        self._commit_coverage(fresh, versions_of([drift, quality]), cost or {})

    def _number(self, findings: pa.Table) -> pa.Table:
        """``findings`` with the number of this publication (QUALITY_SCHEMA)."""
        return findings.set_column(0, "publication", pa.array([self.number] * findings.num_rows, pa.int64()))

    def _open(self, uri: str, kind: str, schema: pa.Schema, description: str) -> DeltaTable:
        return open_or_create(uri, self._layout.storage_options, kind, schema, PUBLISHED, description)

    def _open_final(self, aggregation: AggregationPlan) -> DeltaTable:
        uri, name = self._layout.final(aggregation.source, aggregation.metric), aggregation.metric.name
        return self._open(uri, "final", aggregation.schema, f"final tiles of {name}")

    def _refuse_overtaken(self) -> None:
        """Raise ConflictError if coverage has a commit since the publication began."""
        uri, version = self._layout.coverage, self._coverage.version()
        if open_table(uri, self._layout.storage_options).version() != version:
            raise ConflictError(
                f"another process has written to the table at {self._coverage.table_uri} since version {version}; "
                "this one stops and changes nothing"
            )

    def _keep(self, table: DeltaTable, rows: pa.Table) -> None:
        """Append rows under the version of coverage that will publish them. Delete first what an earlier run left
        under it, which was never published.
        """
        drop_unpublished(table, self._coverage)
        if rows.num_rows:
            commits.append(table, rows, {"publication": self.number})
        if len(table.file_uris()) > _FILES:
            compact(table, by="publication")
            vacuum(table, KEPT_HOURS)

    def _drift_rows(self, metrics: list[MetricPublication], moment: datetime) -> pa.Table:
        rows = [
            {
                "publication": self.number,
                "published": moment,
                "source": item.aggregation.source.name,
                "metric": item.aggregation.metric.name,
                "declaration": item.aggregation.declaration,
                "cutoff": item.staged.cutoff,
                **asdict(entry),
            }
            for item in metrics
            for entry in item.drift
        ]
        return pa.Table.from_pylist(rows, DRIFT_SCHEMA)

    def _blocked_rows(self, metric: MetricPublication) -> list[BlockedHour]:
        """The rows of coverage for the hours that did not pass: the mark, and what was published of them before."""
        aggregation, staged = metric.aggregation, metric.staged
        covered = self._covered.of(aggregation.metric.name, aggregation.declaration).covered(metric.blocked.keys())
        return [
            BlockedHour(
                aggregation.metric.name,
                aggregation.declaration,
                aggregation.source.name,
                hour,
                blocked_cutoff=staged.cutoff,
                staged=staged.version,
                expectations=expectations,
                covered=covered.get(hour),
                blocked_decoding=decoding_of(aggregation.source).hash,
                blocked_lookups=metric.lookups,
            )
            for hour, expectations in metric.blocked.items()
        ]

    def _overwrite_final(self, metric: MetricPublication, table: DeltaTable, moment: datetime) -> list[CoverageRow]:
        """Overwrite one metric's hours that passed, on top of the version that counts. Returns its new rows of
        coverage.
        """
        if not metric.passed:
            return []
        aggregation, cutoff = metric.aggregation, metric.staged.cutoff
        of = (aggregation.metric.name, aggregation.declaration)
        published = self._covered.of(*of).pinned() or _AS_CREATED
        if table.version() != published:
            # An earlier run got no further than this table. Its rows must not be published with another cutoff.
            commits.restore(table, published, {"restored": published})
        rows, hours = metric.staged.rows_of(metric.passed), metric.passed
        commits.overwrite(table, rows, _among("hour", hours), {"cutoff": cutoff, "hours": len(hours)})
        if count_compactable(table, "hour", SMALL_BYTES) >= SAVED_FILES:
            # Readers open every file of final. The merged version is published with the hours, or not at all.
            # A damaged file of other hours must not hold up these. Its readers and the maintenance tell of it.
            with suppress(TableError):
                compact(table, "hour", SMALL_BYTES)
        source, version = aggregation.source.name, table.version()
        decoding = decoding_of(aggregation.source).hash
        fresh: list[CoverageRow] = [
            CoveredHour(
                *of,
                source,
                hour,
                cutoff,
                version,
                moment,
                decoding,
                metric.lookups,
                lookups_as_of=metric.lookups_as_of if metric.lookups else None,
            )
            for hour in hours
        ]
        if metric.promotes:
            fresh.append(Promotion(*of, source, cutoff, version, moment))
        return fresh

    def _commit_coverage(self, fresh: list[CoverageRow], seen: Mapping[str, int], cost: Mapping[str, float]) -> None:
        rows, replaced = self._rows_of_coverage(fresh)
        hours = {row.hour for row in fresh if isinstance(row, CoveredHour | BlockedHour)}
        commits.overwrite(self._coverage, rows, replaced, {"hours": len(hours), **cost}, seen)

    def _rows_of_coverage(self, fresh: list[CoverageRow]) -> tuple[pa.Table, str | None]:
        """What is written to coverage, and the condition on what that replaces. None: all rows."""
        if len(self._coverage.file_uris()) < _FILES_OF_COVERAGE:
            return self._covered.replacement(fresh)
        return self._covered.with_replacement(fresh), None


def _among(column: str, hours: list[datetime]) -> str:
    listed = ", ".join(f"'{sql_timestamp(hour)}'" for hour in hours)
    return f"{column} IN ({listed})"
