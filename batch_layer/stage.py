"""Stages recomputed tiles. What is audited and published is read back from the table ``staged/<metric>``."""

from collections.abc import Mapping
from dataclasses import dataclass

from batch_layer.aggregate import MetricTiles, SourceTiles
from batch_layer.hour_totals import HourTotals
from batch_layer.read_archive import SourceEvents
from hourline_core.ledger.layout import Layout
from hourline_core.model import Project
from hourline_core.storage import commits
from hourline_core.storage.creation import open_or_create
from hourline_core.storage.version_retention import PUBLISHED


@dataclass(frozen=True)
class StagedMetric(MetricTiles):
    """The recomputed tiles of one metric in its staged table, not yet published."""

    version: int
    """The version of the staged table."""


@dataclass(frozen=True)
class StagedSource:
    """The staged tiles of all metrics of one source, and the events that they were computed from."""

    events: SourceEvents
    metrics: list[StagedMetric]
    totals: Mapping[str, HourTotals]
    """By metric, what it counts in each hour over all dimensions."""


def stage(tiles: SourceTiles) -> StagedSource:
    """Stage the tiles of each metric. Raises ConflictError."""
    staged = [stage_metric(tiles.events.job.project, metric) for metric in tiles.metrics]
    return StagedSource(tiles.events, staged, tiles.totals)


def stage_metric(project: Project, tiles: MetricTiles) -> StagedMetric:
    """Replace the rows of the metric's staged table by ``tiles``, and read them back. No reader of results sees them.

    Rows of hours that an earlier audit has blocked stay in the version of the table that coverage names. Raises
    ConflictError.
    """
    layout, aggregation = Layout.of(project), tiles.aggregation
    table = open_or_create(
        layout.staged(aggregation.source, aggregation.metric),
        layout.storage_options,
        "staged",
        aggregation.schema,
        PUBLISHED,
        f"staged tiles of {aggregation.metric.name}",
    )
    commits.overwrite(table, tiles.rows, None, {"cutoff": tiles.cutoff})
    return StagedMetric(aggregation, tiles.hours, tiles.cutoff, table.to_pyarrow_table(), table.version())
