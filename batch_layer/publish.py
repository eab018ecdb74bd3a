"""Stage a recompute's rows; then publish: overwrite final hour by hour, and commit coverage once for all metrics."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from batch_layer.drift import HourDrift
from hourline import tables
from hourline.declarations import Project
from hourline.layout import COVERAGE_SCHEMA, DRIFT_SCHEMA, Layout, sql_timestamp
from hourline.snapshot import pinned_version
from hourline.tiling import Tiling

_DRIFT_FILES = 50
"""Each publication adds a file; so many are merged into one."""


@dataclass(frozen=True)
class Staged:
    """The recomputed rows of one metric, in its staged table, not yet published."""

    tiling: Tiling
    rows: pa.Table
    hours: list[datetime]
    """All hours that were recomputed, also those without rows."""
    cut: int
    """The sequence up to which events were counted."""
    drift: list[HourDrift] = field(default_factory=list)
    """By how much the hours change, and why."""
    takes_over: bool = False
    """Whether nothing is missing any more of a changed declaration, so that it is the one that is served from this publication on."""


class Publication:
    """One publication, begun before its cut is taken: it commits on the versions that it found then, or not at all.

    So whoever slept through another's publication, in whichever step, changes nothing and gets a ConflictError; and cuts never decrease.
    """

    def __init__(self, project: Project, tilings: list[Tiling]) -> None:
        self._layout = Layout.of(project)
        options = self._layout.storage_options
        self._coverage = tables.open_or_create(
            self._layout.coverage, options, "coverage", COVERAGE_SCHEMA, tables.PUBLISHED, "which version of final counts, and up to which cut"
        )
        self._covered: pa.Table = self._coverage.to_pyarrow_table().cast(COVERAGE_SCHEMA)
        self._drift = tables.open_or_create(
            self._layout.drift, options, "drift", DRIFT_SCHEMA, tables.PUBLISHED, "by how much each recomputed hour changed, and why"
        )
        self._final = {
            tiling.metric.name: tables.open_or_create(
                self._layout.final(tiling.source, tiling.metric),
                options,
                "final",
                tiling.schema,
                tables.PUBLISHED,
                f"final tiles of {tiling.metric.name}",
            )
            for tiling in tilings
        }

    def stage(
        self, tiling: Tiling, rows: pa.Table, hours: list[datetime], cut: int, drift: list[HourDrift] | None = None, takes_over: bool = False
    ) -> Staged:
        """Keep what was recomputed in ``staged/<metric>``, for the audit and for inspection; no reader of results sees it."""
        uri = self._layout.staged(tiling.source, tiling.metric)
        table = tables.open_or_create(
            uri, self._layout.storage_options, "staged", tiling.schema, tables.STREAMED, f"staged tiles of {tiling.metric.name}"
        )
        tables.overwrite(table, rows, None, {"cut": cut})
        return Staged(tiling, rows, hours, cut, drift or [], takes_over)

    def publish(self, staged: list[Staged], moment: datetime, cost: Mapping[str, float] | None = None) -> None:
        """Overwrite the staged hours in final, then commit coverage: before that commit no reader sees any of it, after it all.

        ``moment`` (UTC) dates it; ``cost`` (events × metrics, seconds) is kept with the commit, for the estimate of a backfill. Raises ConflictError;
        readers keep what they had.
        """
        self._keep_drift(staged, moment)
        fresh = [self._overwrite_final(item, moment) for item in staged]
        self._commit_coverage(pa.concat_tables(fresh), cost or {})

    def _keep_drift(self, staged: list[Staged], moment: datetime) -> None:
        """Append the drift under the version of coverage that will publish it; what an earlier run left under it was never published."""
        publication = self._coverage.version() + 1
        tables.drop_unpublished(self._drift, self._coverage)
        rows = [
            {
                "publication": publication,
                "published": moment,
                "source": item.tiling.source.name,
                "metric": item.tiling.metric.name,
                "declaration": item.tiling.declaration,
                "cut": item.cut,
                **asdict(entry),
            }
            for item in staged
            for entry in item.drift
        ]
        if rows:
            tables.append(self._drift, pa.Table.from_pylist(rows, DRIFT_SCHEMA), {"publication": publication})
        if len(self._drift.file_uris()) > _DRIFT_FILES:
            tables.compact(self._drift, by="publication")

    def _overwrite_final(self, staged: Staged, moment: datetime) -> pa.Table:
        """Overwrite one metric's hours, on top of the version that counts; returns its new rows of coverage."""
        metric = staged.tiling.metric.name
        declaration = staged.tiling.declaration
        table: DeltaTable = self._final[metric]
        published = pinned_version(self._covered, staged.tiling.metric, declaration) or 0  # version 0 is the empty table, as it was created
        if table.version() != published:
            # An earlier run got no further than this table. Built upon, its rows would be published with a cut that is not theirs.
            tables.restore(table, published, {"restored": published})
        tables.overwrite(table, staged.rows, _among("hour", staged.hours), {"cut": staged.cut, "hours": len(staged.hours)})
        row = {
            "metric": metric,
            "declaration": declaration,
            "source": staged.tiling.source.name,
            "cut": staged.cut,
            "version": table.version(),
            "published": moment,
        }
        hours = [*staged.hours, None] if staged.takes_over else staged.hours
        return pa.Table.from_pylist([{**row, "hour": hour} for hour in hours], COVERAGE_SCHEMA)

    def _commit_coverage(self, fresh: pa.Table, cost: Mapping[str, float]) -> None:
        """Replace the rows of the same metric, declaration and hour; who takes over, also the row by which another declaration did.

        Delta replaces by predicate: whatever else it meets is carried over.
        """
        hours = pc.unique(fresh["hour"].drop_null())
        met = self._covered.filter(pc.or_(pc.is_in(self._covered["hour"], hours), pc.is_null(self._covered["hour"])))
        key = ["metric", "declaration", "hour"]
        carried = met.filter(pc.is_valid(met["hour"])).join(fresh.select(key), key, join_type="left anti").select(COVERAGE_SCHEMA.names)
        taking_over = fresh.filter(pc.is_null(fresh["hour"]))["metric"]
        others = met.filter(pc.and_(pc.is_null(met["hour"]), pc.invert(pc.is_in(met["metric"], taking_over))))
        rows = pa.concat_tables([carried, others, fresh]).sort_by([(name, "ascending") for name in key])
        tables.overwrite(self._coverage, rows, f"{_among('hour', hours.to_pylist())} OR hour IS NULL", {"hours": len(hours), **cost})


def _among(column: str, hours: list[datetime]) -> str:
    listed = ", ".join(f"'{sql_timestamp(hour)}'" for hour in hours)
    return f"{column} IN ({listed})"
