"""What one read sees: the version of every table, taken in the order that makes a read exact.

Progress first, then provisional, then coverage; again from the start if coverage has a cut beyond that progress, or a metric was reset meanwhile
(which takes away rows that this progress still counts on); final only at the version that coverage pins, never its newest. Read in another order, an
event could be counted twice or not at all.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from hourline.declarations import Project, declaration_hash
from hourline.errors import TableError
from hourline.layout import COVERAGE_SCHEMA, Layout
from hourline.tables import exists, open_table

SPEED_WRITER = "hourline-speed"
"""The application id under which the speed layer records the newest sequence in each table that it writes."""

METRIC_RESET = "hourline-metric-reset"
"""The application id under which progress records the newest sequence at which a metric was reset."""


@dataclass(frozen=True)
class SourceProgress:
    """The progress table's version, and the last finished sequence at that version (0 before the first)."""

    version: int
    sequence: int


@dataclass(frozen=True)
class Snapshot:
    """The versions that belong together. A source, provisional or final that is not in its mapping has no table, or no pinned version, yet."""

    progress: Mapping[str, SourceProgress]
    """By source."""
    provisional: Mapping[str, int]
    """By metric: the version of its provisional table."""
    final: Mapping[str, int]
    """By metric: the version of its final table that coverage pins."""
    coverage: pa.Table
    """The rows of coverage (COVERAGE_SCHEMA) of the metrics as they are declared now."""


def take_snapshot(project: Project) -> Snapshot:
    """The newest consistent snapshot of the project's tables. Raises TableError when it cannot be read."""
    for _ in range(100):  # a publication between the first and the last step is rare; a hundred in a row mean damage
        snapshot, overtaken = _take(project)
        cuts = _highest(snapshot.coverage, "source", "cut")
        if not overtaken and all(source in snapshot.progress and cut <= snapshot.progress[source].sequence for source, cut in cuts.items()):
            return snapshot
    beyond = ", ".join(sorted(cuts))
    raise TableError(f"coverage has cuts beyond the progress of {beyond}: tables of different times have been mixed, as after a partial restore")


def read_coverage(project: Project) -> tuple[int | None, pa.Table]:
    """Coverage's version (None: nothing was ever published) and its rows (COVERAGE_SCHEMA) of the metrics as they are declared now."""
    layout = Layout.of(project)
    if not exists(layout.coverage, layout.storage_options):
        return None, COVERAGE_SCHEMA.empty_table()
    table = open_table(layout.coverage, layout.storage_options)
    rows = table.to_pyarrow_table().cast(COVERAGE_SCHEMA)
    declared = pc.binary_join_element_wise(rows["metric"], rows["declaration"], "/")
    return table.version(), rows.filter(pc.is_in(declared, pa.array(_declared(project), pa.string())))


def pinned_versions(coverage: pa.Table) -> dict[str, int]:
    """By metric, the version of its final table that counts: the highest one that a row of coverage names."""
    return _highest(coverage, "metric", "version")


def _take(project: Project) -> tuple[Snapshot, bool]:
    """The newest versions, and whether a metric was reset while they were looked up."""
    layout = Layout.of(project)
    options = layout.storage_options
    progress, provisional, opened = {}, {}, []
    for source in project.sources.values():
        if exists(uri := layout.progress(source), options):
            table = open_table(uri, options)
            progress[source.name] = SourceProgress(table.version(), table.transaction_version(SPEED_WRITER) or 0)
            opened.append((table, table.transaction_version(METRIC_RESET)))
    for metric in project.metrics.values():
        if exists(uri := layout.provisional(project.sources[metric.source], metric), options):
            provisional[metric.name] = open_table(uri, options).version()
    coverage = read_coverage(project)[1]
    for table, _ in opened:
        table.update_incremental()
    overtaken = any(table.transaction_version(METRIC_RESET) != before for table, before in opened)
    return Snapshot(progress, provisional, pinned_versions(coverage), coverage), overtaken


def _declared(project: Project) -> list[str]:
    return [f"{metric.name}/{declaration_hash(project.sources[metric.source], metric)}" for metric in project.metrics.values()]


def _highest(rows: pa.Table, key: str, value: str) -> dict[str, int]:
    highest = rows.group_by(key).aggregate([(value, "max")])
    return dict(zip(highest[key].to_pylist(), highest[f"{value}_max"].to_pylist(), strict=True))
