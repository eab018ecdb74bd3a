"""Resets of a metric: what was computed is deleted."""

from datetime import datetime

from hourline_core.errors import UsageError
from hourline_core.ledger.coverage import Coverage, condition_on
from hourline_core.ledger.layout import Layout
from hourline_core.ledger.progress_rows import ProgressRow
from hourline_core.ledger.unfinished_publication import drop_unpublished
from hourline_core.model import Metric, Project
from hourline_core.storage import commits
from hourline_core.storage.opening import exists, open_table
from speed_layer.reset.tables import ResetTables, count_rows


class MetricReset:
    """A reset of ``metric``, which deletes what was computed, so that it is computed again from the archived events:
    planned at construction, done by ``apply``. The caller holds the leases "speed" and "batch".

    Raises TableError, and UsageError when nothing was computed yet.
    """

    def __init__(self, project: Project, metric: Metric) -> None:
        self._metric = metric
        self._tables = ResetTables(project, project.source_of(metric))
        if not self._tables.progress.last_row():
            raise UsageError(
                f"nothing was computed for metric '{metric.name}' yet: "
                f"no micro-batch of source '{metric.source}' has finished"
            )
        layout, options = Layout.of(project), project.settings.storage_options
        self._provisional = {of: table for of, table in self._tables.provisional.items() if of[0] == metric.name}
        is_there = exists(layout.coverage, options)
        self._coverage = open_table(layout.coverage, options) if is_there else None
        # What is kept of each publication, under its number. The first publication makes these tables, and coverage is
        # made before.
        self._kept = [open_table(uri, options) for uri in (layout.drift, layout.quality) if exists(uri, options)]
        covered = Coverage.at(self._coverage).hours(metric.name)
        self.touched = [(f"progress/{metric.source}", "one more row"), *self._tables.unfinished()]
        for (name, declaration), table in self._provisional.items():
            self.touched.append(
                (f"provisional/{name}/{declaration}", f"all of its {count_rows(table):,} row(s) are deleted")
            )
        if covered:
            self.touched.append(("coverage", f"{len(covered):,} hour(s) of {metric.name} are taken out"))

    def apply(self, moment: datetime) -> int:
        """Do the reset, and return its sequence. ``moment`` (UTC) dates it. Raises ConflictError when another process
        writes to the tables.

        In this order no reader sees a part of an answer. Hours become ``missing`` first, and a reader of the older
        progress sees that there was a reset.
        """
        sequence = self._tables.clear()
        last = self._tables.progress.last_row()
        assert last is not None  # as when it was planned
        row = ProgressRow.of_metric_reset(last, sequence, self._metric.name, moment)
        self._tables.progress.reset([row], self._tables.versions(), of_metric=True)
        for table in self._provisional.values():
            commits.delete(table, None, {"reset": sequence})
        if self._coverage:
            for kept in self._kept:
                drop_unpublished(kept, self._coverage)
                # Coverage gets a version that is no publication. A frozen recompute must keep no rows under its number.
                commits.fence(kept)
            commits.delete(self._coverage, condition_on(self._metric.name), {"reset": sequence})
        return sequence
