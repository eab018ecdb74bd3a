"""The metrics that can be asked for: those with tables, and those over other metrics."""

from dataclasses import replace

from hourline_core.ledger.metric_tables import MetricTables
from hourline_core.ledger.snapshot import Snapshot
from hourline_core.model import Project


def served_metrics(project: Project, snapshot: Snapshot) -> list[MetricTables]:
    """Each metric as it is served. One over another metric is served from the other's tables; see ``view_parts``."""
    return [*snapshot.served, *(tables for tables, _ in served_rollups(project, snapshot))]


def served_rollups(project: Project, snapshot: Snapshot) -> list[tuple[MetricTables, MetricTables]]:
    """Each metric over another one, and the metric that has its tables."""
    own = {tables.metric.name: tables for tables in snapshot.served}
    return [
        (replace(own[rollup.base], metric=rollup.over(own[rollup.base].metric)), own[rollup.base])
        for rollup in project.rollups.values()
        if rollup.base in own
    ]
