"""Stage a recompute's rows; then, once they are audited, publish: overwrite final hour by hour, and commit coverage
once for all metrics.

An hour that did not pass its audit is marked in coverage, and nothing else of it changes: readers keep what they had,
its rows stay in the version of the staged table that the mark names.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from batch_layer.drift import HourDrift
from hourline_core.compute.aggregation import AggregationPlan
from hourline_core.ledger.coverage import Coverage
from hourline_core.ledger.coverage_rows import COVERAGE_SCHEMA, BlockedHour, CoverageRow, CoveredHour, Promotion
from hourline_core.ledger.layout import DRIFT_SCHEMA, QUALITY_SCHEMA, Layout
from hourline_core.model import Project
from hourline_core.model.hours import sql_timestamp
from hourline_core.storage import tables

_FILES = 50
"""Each publication adds a file to drift and one to quality; so many are merged into one."""


@dataclass(frozen=True)
class Staged:
    """The recomputed rows of one metric, as they lie in its staged table, not yet published."""

    aggregation: AggregationPlan
    rows: pa.Table
    hours: list[datetime]
    """All hours that were recomputed, also those without rows."""
    cutoff: int
    """The sequence up to which events were counted."""
    version: int
    """Of the staged table."""
    columns: pa.Schema
    """Of the staged table."""
    drift: list[HourDrift] = field(default_factory=list)
    """By how much the hours that passed change, and why."""
    promotes: bool = False
    """Whether nothing is missing any more of a changed declaration, so that it is the one that is served from this
    publication on.
    """
    blocked: Mapping[datetime, str] = field(default_factory=dict)
    """The hours that did not pass their audit, each with the hash of the expectations it was audited with ("": the
    audit itself failed).
    """

    @property
    def passed(self) -> list[datetime]:
        """The hours to publish."""
        return [hour for hour in self.hours if hour not in self.blocked]


class Publication:
    """One publication, begun before its cutoff is taken: it commits on the versions that it found then, or not at all.

    So whoever slept through another's publication, in whichever step, changes nothing and gets a ConflictError; and
    cutoffs never decrease.
    """

    def __init__(self, project: Project, aggregations: list[AggregationPlan]) -> None:
        self._layout = Layout.of(project)
        options = self._layout.storage_options
        self._coverage = tables.open_or_create(
            self._layout.coverage,
            options,
            "coverage",
            COVERAGE_SCHEMA,
            tables.PUBLISHED,
            "which version of final counts, and up to which cutoff",
        )
        self._covered = Coverage.at(self._coverage)
        self._drift = tables.open_or_create(
            self._layout.drift,
            options,
            "drift",
            DRIFT_SCHEMA,
            tables.PUBLISHED,
            "by how much each recomputed hour changed, and why",
        )
        self._quality = tables.open_or_create(
            self._layout.quality,
            options,
            "quality",
            QUALITY_SCHEMA,
            tables.PUBLISHED,
            "what the audit of each recomputed hour found",
        )
        self._final = {
            aggregation.metric.name: tables.open_or_create(
                self._layout.final(aggregation.source, aggregation.metric),
                options,
                "final",
                aggregation.schema,
                tables.PUBLISHED,
                f"final tiles of {aggregation.metric.name}",
            )
            for aggregation in aggregations
        }

    @property
    def number(self) -> int:
        """The version of coverage that this publication will be."""
        return self._coverage.version() + 1

    def stage(self, aggregation: AggregationPlan, rows: pa.Table, hours: list[datetime], cutoff: int) -> Staged:
        """Keep what was recomputed in ``staged/<metric>``, for the audit and for inspection; no reader of results sees
        it.

        What is given back was read from the table again: that is what is audited and published. The rows of hours that
        are blocked since earlier stay in the version of the table that coverage names.
        """
        uri = self._layout.staged(aggregation.source, aggregation.metric)
        table = tables.open_or_create(
            uri,
            self._layout.storage_options,
            "staged",
            aggregation.schema,
            tables.PUBLISHED,
            f"staged tiles of {aggregation.metric.name}",
        )
        tables.overwrite(table, rows, None, {"cutoff": cutoff})
        there = table.to_pyarrow_table()
        return Staged(aggregation, there, hours, cutoff, table.version(), there.schema)

    def publish(
        self, staged: list[Staged], found: pa.Table, moment: datetime, cost: Mapping[str, float] | None = None
    ) -> None:
        """Overwrite the staged hours that passed in final, then commit coverage: before that commit no reader sees any
        of it, after it all.

        ``found`` is what the audit has found (QUALITY_SCHEMA, but for the number of the publication). ``moment`` (UTC)
        dates it; ``cost`` (events × metrics, seconds) is kept with the commit, for the estimate of a backfill. Raises
        ConflictError; readers keep what they had.
        """
        self._keep(self._drift, self._drift_rows(staged, moment))
        self._keep(
            self._quality, found.set_column(0, "publication", pa.array([self.number] * found.num_rows, pa.int64()))
        )
        fresh = [row for item in staged for row in (*self._overwrite_final(item, moment), *self._blocked_rows(item))]
        self._commit_coverage(fresh, cost or {})

    def _keep(self, table: DeltaTable, rows: pa.Table) -> None:
        """Append rows under the version of coverage that will publish them; what an earlier run left under it was never
        published.
        """
        tables.drop_unpublished(table, self._coverage)
        if rows.num_rows:
            tables.append(table, rows, {"publication": self.number})
        if len(table.file_uris()) > _FILES:
            tables.compact(table, by="publication")
            tables.vacuum(table, tables.KEPT_HOURS)

    def _drift_rows(self, staged: list[Staged], moment: datetime) -> pa.Table:
        rows = [
            {
                "publication": self.number,
                "published": moment,
                "source": item.aggregation.source.name,
                "metric": item.aggregation.metric.name,
                "declaration": item.aggregation.declaration,
                "cutoff": item.cutoff,
                **asdict(entry),
            }
            for item in staged
            for entry in item.drift
        ]
        return pa.Table.from_pylist(rows, DRIFT_SCHEMA)

    def _blocked_rows(self, staged: Staged) -> list[BlockedHour]:
        """The rows of coverage for the hours that did not pass: the mark, and what was published of them before."""
        aggregation = staged.aggregation
        covered = self._covered.of(aggregation.metric.name, aggregation.declaration).covered(staged.blocked.keys())
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
            )
            for hour, expectations in staged.blocked.items()
        ]

    def _overwrite_final(self, staged: Staged, moment: datetime) -> list[CoverageRow]:
        """Overwrite one metric's hours that passed, on top of the version that counts; returns its new rows of
        coverage.
        """
        if not staged.passed:
            return []
        aggregation = staged.aggregation
        of = (aggregation.metric.name, aggregation.declaration)
        table: DeltaTable = self._final[aggregation.metric.name]
        published = self._covered.of(*of).pinned() or 0  # version 0 is the empty table, as it was created
        if table.version() != published:
            # An earlier run got no further than this table. Built upon, its rows would be published with a cutoff that
            # is not theirs.
            tables.restore(table, published, {"restored": published})
        rows = staged.rows.filter(
            pc.is_in(staged.rows["hour"], pa.array(staged.passed, staged.rows.schema.field("hour").type))
        )
        tables.overwrite(
            table, rows, _among("hour", staged.passed), {"cutoff": staged.cutoff, "hours": len(staged.passed)}
        )
        source, version = aggregation.source.name, table.version()
        fresh: list[CoverageRow] = [
            CoveredHour(*of, source, hour, staged.cutoff, version, moment) for hour in staged.passed
        ]
        if staged.promotes:
            fresh.append(Promotion(*of, source, staged.cutoff, version, moment))
        return fresh

    def _commit_coverage(self, fresh: list[CoverageRow], cost: Mapping[str, float]) -> None:
        rows, replaced = self._covered.replacement(fresh)
        hours = {row.hour for row in fresh if isinstance(row, CoveredHour | BlockedHour)}
        kept = tables.seen([self._drift, self._quality])
        tables.overwrite(self._coverage, rows, replaced, {"hours": len(hours), **cost}, kept)


def _among(column: str, hours: list[datetime]) -> str:
    listed = ", ".join(f"'{sql_timestamp(hour)}'" for hour in hours)
    return f"{column} IN ({listed})"
