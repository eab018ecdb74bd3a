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
from hourline_core.ledger.layout import COVERAGE_SCHEMA, DRIFT_SCHEMA, QUALITY_SCHEMA, Layout
from hourline_core.ledger.snapshot import pinned_version
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
        self._covered: pa.Table = self._coverage.to_pyarrow_table().cast(COVERAGE_SCHEMA)
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
        fresh = [rows for item in staged for rows in (self._overwrite_final(item, moment), self._blocked_rows(item))]
        self._commit_coverage(pa.concat_tables(fresh), cost or {})

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

    def _rows_of(self, aggregation: AggregationPlan) -> pa.Table:
        named = pc.and_(
            pc.equal(self._covered["metric"], aggregation.metric.name),
            pc.equal(self._covered["declaration"], aggregation.declaration),
        )
        return self._covered.filter(named)

    def _blocked_rows(self, staged: Staged) -> pa.Table:
        """The rows of coverage for the hours that did not pass: what was published of them before, and the mark."""
        aggregation = staged.aggregation
        before = {row["hour"]: row for row in self._rows_of(aggregation).to_pylist()}
        rows = [
            {
                **before.get(hour, {}),
                "metric": aggregation.metric.name,
                "declaration": aggregation.declaration,
                "source": aggregation.source.name,
                "hour": hour,
                "blocked_cutoff": staged.cutoff,
                "staged": staged.version,
                "expectations": expectations,
            }
            for hour, expectations in staged.blocked.items()
        ]
        return pa.Table.from_pylist(rows, COVERAGE_SCHEMA)

    def _overwrite_final(self, staged: Staged, moment: datetime) -> pa.Table:
        """Overwrite one metric's hours that passed, on top of the version that counts; returns its new rows of
        coverage.
        """
        if not staged.passed:
            return COVERAGE_SCHEMA.empty_table()
        metric = staged.aggregation.metric.name
        declaration = staged.aggregation.declaration
        table: DeltaTable = self._final[metric]
        published = (
            pinned_version(self._covered, staged.aggregation.metric, declaration) or 0
        )  # version 0 is the empty table, as it was created
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
        row = {
            "metric": metric,
            "declaration": declaration,
            "source": staged.aggregation.source.name,
            "cutoff": staged.cutoff,
            "version": table.version(),
            "published": moment,
        }
        hours = [*staged.passed, None] if staged.promotes else staged.passed
        return pa.Table.from_pylist([{**row, "hour": hour} for hour in hours], COVERAGE_SCHEMA)

    def _commit_coverage(self, fresh: pa.Table, cost: Mapping[str, float]) -> None:
        """Replace the rows of the same metric, declaration and hour; who takes over, also the row (with a cutoff) by
        which another declaration did.

        Delta replaces by predicate: whatever else it meets is carried over.
        """
        hours = pc.unique(fresh["hour"].drop_null())
        met = self._covered.filter(pc.or_(pc.is_in(self._covered["hour"], hours), pc.is_null(self._covered["hour"])))
        key = ["metric", "declaration", "hour"]
        carried = (
            met.filter(pc.is_valid(met["hour"]))
            .join(fresh.select(key), key, join_type="left anti")
            .select(COVERAGE_SCHEMA.names)
        )
        taking_over = fresh.filter(pc.is_null(fresh["hour"]))["metric"]
        overtaken = pc.and_(pc.is_valid(met["cutoff"]), pc.is_in(met["metric"], taking_over))
        others = met.filter(pc.and_(pc.is_null(met["hour"]), pc.invert(overtaken)))
        rows = pa.concat_tables([carried, others, fresh]).sort_by([(name, "ascending") for name in key])
        kept = tables.seen([self._drift, self._quality])
        tables.overwrite(
            self._coverage,
            rows,
            f"{_among('hour', hours.to_pylist())} OR hour IS NULL",
            {"hours": len(hours), **cost},
            kept,
        )


def _among(column: str, hours: list[datetime]) -> str:
    listed = ", ".join(f"'{sql_timestamp(hour)}'" for hour in hours)
    return f"{column} IN ({listed})"
