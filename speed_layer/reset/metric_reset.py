"""Resets of a metric: what was computed is deleted."""

from datetime import datetime

from hourline_core.errors import UsageError
from hourline_core.ledger.layout import Layout
from hourline_core.ledger.progress_rows import ProgressRow
from hourline_core.model import Metric, Project
from speed_layer.reset.results import Results
from speed_layer.reset.tables import ResetTables


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
        tiles = {of: table for of, table in self._tables.provisional.items() if of[0] == metric.name}
        self._results = Results(Layout.of(project), "metric", metric.name, tiles)
        progress = (f"progress/{metric.source}", "one more row")
        self.touched = [progress, *self._tables.unfinished(), *self._results.touched()]

    def apply(self, moment: datetime) -> int:
        """Do the reset, and return its sequence. ``moment`` (UTC) dates it. Raises ConflictError when another process
        writes to the tables.

        In this order no reader sees a part of an answer. Hours become ``missing`` first, and a reader of the older
        progress sees that there was a reset.
        """
        sequence = self._tables.clear()
        last = self._tables.progress.last_row()
        assert last is not None  # as when it was planned
        row = ProgressRow.of_metric_reset(last, sequence, [self._metric.name], moment)
        self._tables.progress.reset([row], self._tables.versions(), of_metric=True)
        self._results.delete(sequence)
        return sequence
