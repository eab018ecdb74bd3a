"""What one read sees: the version of every table, taken in the order that makes a read exact.

Progress first, then provisional, then coverage; again from the start if coverage has a cutoff beyond that progress, or
a metric was reset meanwhile (which takes away rows that this progress still counts on); final only at the version that
coverage pins, never its newest. Read in another order, an event could be counted twice or not at all.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime

from deltalake import DeltaTable

from hourline_core.errors import TableError
from hourline_core.ledger.coverage import Coverage, open_coverage
from hourline_core.ledger.coverage_rows import BlockedHour
from hourline_core.ledger.layout import DECLARATION, Layout
from hourline_core.ledger.progress import Progress
from hourline_core.model import DeclaredMetric, Metric, Project, Source, declaration_hash, from_stored
from hourline_core.storage.data_files import DataFiles, local_files, name_of
from hourline_core.storage.open_tables import OpenTables
from hourline_core.storage.tables import (
    exists,
    readable_versions,
    refuse_older,
    require_seen,
    update,
)


@dataclass(frozen=True)
class SourceProgress:
    """The progress table's version, and the last finished sequence at that version (0 before the first)."""

    version: int
    sequence: int


@dataclass(frozen=True)
class MetricTables(DeclaredMetric):
    """The tables of one declaration of a metric; a changed metric has two of them until the new one takes over."""

    provisional: int
    """The version of its provisional table."""
    complete_from: int
    """The sequence from which on its provisional rows are whole; what lies below counts by a recompute alone."""
    final: int | None = None
    """The version of its final table that coverage pins; None: nothing was published."""
    served: bool = True
    """Whether answers come from this declaration."""


@dataclass(frozen=True)
class Snapshot:
    """The versions that belong together. A source or metric that is not here has no tables yet."""

    progress: Mapping[str, SourceProgress]
    """By source."""
    metrics: list[MetricTables]
    """The metrics as they are declared now and, of those that have changed, what the speed layer still writes until the
    new one takes over.
    """
    coverage: Coverage
    """What coverage says about these."""
    beside: Mapping[str, int]
    """By name, the versions of the tables that are read beside these: ``events/<source>``, ``rejected/<source>``,
    ``drift``, ``quality``.
    """
    lost: Mapping[str, str] = field(default_factory=dict)
    """Where damage is put up with: by view, why it cannot be had."""
    files: Mapping[tuple[str, int], DataFiles] = field(default_factory=dict)
    """By name and version, the files of those tables that every answer is made of: progress, coverage, provisional and
    final, where they are here.
    """

    @property
    def publication(self) -> int | None:
        """The number of the last publication; None: nothing was published yet."""
        return self.coverage.publication

    @property
    def recomputed(self) -> list[MetricTables]:
        """The one declaration of each metric that recomputes compute: the newest one."""
        return list({tables.metric.name: tables for tables in self.metrics}.values())

    @property
    def blocked(self) -> dict[tuple[str, datetime], BlockedHour]:
        """By metric and hour, what did not pass its last audit; of the declarations that recomputes compute."""
        return {(row.metric, row.hour): row for row in self.coverage.about(self.recomputed).blocked()}

    def staged_versions(self, tables: MetricTables) -> list[int]:
        """The versions of a metric's staged table that hold the rows of blocked hours, as far as they can be read."""
        if f"{tables.metric.name}_staged" in self.lost:
            return []
        return self.coverage.of(tables.metric.name, tables.declaration).staged_versions()

    @property
    def versions(self) -> dict[str, list[int]]:
        """By name, the versions of all tables that are read; each is one that ``open_table`` has found whole, but for
        its data files.
        """
        found = {f"progress/{name}": [known.version] for name, known in self.progress.items()}
        for tables in self.metrics:
            of = f"{tables.metric.name}/{tables.declaration}"
            found[f"final/{of}"] = [] if tables.final is None else [tables.final]
            found[f"provisional/{of}"] = [tables.provisional]
            found[f"staged/{of}"] = self.staged_versions(tables)
        found["coverage"] = [] if self.publication is None else [self.publication]
        return found | {name: [version] for name, version in self.beside.items()}

    @property
    def cutoffs_beyond(self) -> list[str]:
        """The sources of which coverage has a cutoff beyond progress: these tables do not belong together."""
        return self.coverage.cutoffs_beyond({name: known.sequence for name, known in self.progress.items()})

    @property
    def served(self) -> list[MetricTables]:
        """The one declaration of each metric that answers come from."""
        return [tables for tables in self.metrics if tables.served]


def take_snapshot(project: Project) -> Snapshot:
    """The newest consistent snapshot of the project's tables. Raises TableError when it cannot be read."""
    for _ in range(100):  # a publication between the first and the last step is rare; a hundred in a row mean damage
        snapshot, overtaken = _take(project)
        beyond = snapshot.cutoffs_beyond
        if not overtaken and not beyond:
            return snapshot
    raise TableError(
        f"coverage has cutoffs beyond the progress of {', '.join(beyond)}: tables of different times have been mixed, "
        "as after a partial restore"
    )


def as_covered(found: Iterable[list[MetricTables]], coverage: Coverage) -> list[MetricTables]:
    """The declarations of each metric, the older before the newer: at the version of final that coverage pins, and
    which of them is served.
    """
    metrics: list[MetricTables] = []
    for declarations in found:
        served = ""
        for tables in declarations:
            whole = coverage.of(tables.metric.name, tables.declaration).is_promoted(tables.complete_from)
            served = tables.declaration if whole else served or tables.declaration
        metrics += [
            replace(
                tables,
                final=coverage.of(tables.metric.name, tables.declaration).pinned(),
                served=tables.declaration == served,
            )
            for tables in declarations
        ]
    return metrics


def snapshot_as_far_as_whole(project: Project, publication: int | None, lost: dict[str, str]) -> Snapshot:
    """A snapshot in which damaged tables are left out, and noted in ``lost`` by the views that need them; at an earlier
    ``publication``, if given.

    Raises TableError when it cannot be had, as when coverage has cutoffs beyond progress, or provisional no longer has
    what is above its cutoffs.
    """
    snapshot, overtaken = _take(project, publication, lost)
    if overtaken:
        raise TableError("a metric was reset while its tables were looked up")
    if beyond := snapshot.cutoffs_beyond:
        raise TableError(f"coverage has cutoffs beyond the progress of {', '.join(beyond)}")
    return snapshot


def _take(
    project: Project, publication: int | None = None, lost: dict[str, str] | None = None
) -> tuple[Snapshot, bool]:
    """The newest versions, and whether a metric was reset while they were looked up."""
    with OpenTables(project.settings.storage_options) as opened:
        return _looked_up(project, opened, publication, lost)


def _looked_up(
    project: Project, opened: OpenTables, publication: int | None, lost: dict[str, str] | None
) -> tuple[Snapshot, bool]:
    progresses = {
        source.name: Progress(table)
        for source in project.sources.values()
        if (table := _open_progress(project, source, opened, lost))
    }
    progress = {name: SourceProgress(known.table.version(), known.sequence) for name, known in progresses.items()}
    resets = {name: known.metric_reset for name, known in progresses.items()}
    last = {name: known.last_row() for name, known in progresses.items()}
    written = {name: row.metrics if row else () for name, row in last.items()}
    found: list[list[MetricTables]] = []
    provisional: list[tuple[Metric, DeltaTable]] = []
    for metric in project.metrics.values():
        if metric.source in progresses:
            complete_from = {
                known.declaration: known.complete_from
                for known in written[metric.source]
                if known.metric == metric.name
            }
            with _losing(lost, *views_of(metric)):
                tables = _with_tables(
                    project,
                    metric,
                    complete_from,
                    progress[metric.source].sequence,
                    progresses[metric.source].table,
                    opened,
                )
                found.append([of for of, _ in tables])
                provisional += [(metric, table) for _, table in tables]
    covering = open_coverage(project, opened, publication)
    coverage = Coverage.at(covering)
    version = None if covering is None else covering.version()
    for metric, table in provisional:
        with _losing(lost, *views_of(metric)):
            refuse_older(
                Layout.of(project).coverage, version, table, "coverage"
            )  # it may have lost rows to what was published then
    metrics = as_covered(found, coverage)
    final = verify_published(project, metrics, coverage, opened, lost)
    files = files_of(
        [
            *(known.table for known in progresses.values()),
            *(table for _, table in provisional),
            *([covering] if covering else []),
            *final,
        ]
    )
    metrics = [tables for tables in metrics if tables.metric.name not in (lost or {})]
    beside = other_table_versions(
        project, {name: known.table for name, known in progresses.items()}, covering, opened, lost
    )
    for name, known in progresses.items():
        with _losing(lost, f"progress/{name}"):
            update(known.table)
    overtaken = any(known.metric_reset != resets[name] for name, known in progresses.items())
    return Snapshot(progress, metrics, coverage.about(metrics), beside, lost or {}, files), overtaken


def _open_progress(
    project: Project, source: Source, opened: OpenTables, lost: dict[str, str] | None
) -> DeltaTable | None:
    """None: no speed layer has started with this source. Where damage is put up with, the newest version that can be
    read.
    """
    layout = Layout.of(project)
    uri = layout.progress(source)
    with _losing(lost, f"progress/{source.name}"):
        if (table := opened.find(uri)) is None:
            refuse_without_progress(layout, source)
        return table
    return next(readable_versions(uri, layout.storage_options))


def refuse_without_progress(layout: Layout, source: Source) -> None:
    """Raise TableError if there are events of a source that has no progress, which is made before them: it is lost."""
    if exists(layout.events(source), layout.storage_options):
        raise TableError(
            f"the table at {layout.progress(source)} is gone, while there is one at {layout.events(source)}; bring it back from a backup, "
            "since it says which of the events count"
        )


def other_table_versions(
    project: Project,
    progress: Mapping[str, DeltaTable],
    coverage: DeltaTable | None,
    opened: OpenTables,
    lost: dict[str, str] | None = None,
) -> dict[str, int]:
    """By name, the newest versions of events, rejected, drift and quality. Raises TableError when one is damaged, or
    lacks a commit that ``progress`` (by source) or ``coverage`` went by; or leaves it out, and notes in ``lost`` which
    views do without it.
    """
    layout = Layout.of(project)
    sources = {name: project.sources[name] for name in progress}
    wanted: list[tuple[str, DeltaTable, tuple[str, ...]]] = [
        (layout.events(source), progress[name], (f"events_{name}", "late_events")) for name, source in sources.items()
    ]
    wanted += [(layout.rejected(source), progress[name], (f"rejected_{name}",)) for name, source in sources.items()]
    if coverage is not None:
        wanted += [(layout.drift, coverage, ("drift", "publications")), (layout.quality, coverage, ("quality",))]
    found: dict[str, int] = {}
    for uri, by, views in wanted:
        with _losing(lost, *views):
            table = opened.find(uri) if by is coverage else opened.open(uri)
            if table is None:
                refuse_older(uri, None, by, uri.rpartition("/")[2])
                continue  # all of its publications are older than the table
            require_seen(table, by)
            found[name_of(table)] = table.version()
    return found


def files_of(tables: Iterable[DeltaTable]) -> dict[tuple[str, int], DataFiles]:
    """As in ``Snapshot.files``, of these tables at the versions that they stand on."""
    return {(name_of(table), table.version()): files for table in tables if (files := local_files(table))}


def verify_published(
    project: Project,
    metrics: Iterable[MetricTables],
    coverage: Coverage,
    opened: OpenTables,
    lost: dict[str, str] | None = None,
) -> list[DeltaTable]:
    """The tables final at the versions that ``coverage`` names. Raises TableError when one of them, or of staged, is
    not there, or damaged; or notes the views in ``lost``.
    """
    layout = Layout.of(project)
    found: list[DeltaTable] = []
    for tables in metrics:
        with _losing(lost, *views_of(tables.metric)):
            if tables.final is not None:
                found.append(opened.open(layout.final(tables.source, tables.metric), tables.final))
        with _losing(lost, f"{tables.metric.name}_staged"):
            for version in coverage.of(tables.metric.name, tables.declaration).staged_versions():
                opened.open(layout.staged(tables.source, tables.metric), version)
    return found


def views_of(metric: Metric) -> list[str]:
    """The views of a metric."""
    return [metric.name, *(f"{metric.name}_{end}" for end in ("states", "final", "provisional", "staged"))]


@contextmanager
def _losing(lost: dict[str, str] | None, *views: str) -> Iterator[None]:
    """Where damage is put up with, a TableError within the block is noted for the views that it takes."""
    try:
        yield
    except TableError as error:
        if lost is None:
            raise
        for view in views:
            lost.setdefault(view, str(error))


def _with_tables(
    project: Project,
    metric: Metric,
    written: Mapping[str, int],
    sequence: int,
    progress: DeltaTable,
    opened: OpenTables,
) -> list[tuple[MetricTables, DeltaTable]]:
    """The declarations of a metric that have tables, the older before the newer; with the provisional table of each.

    ``written`` are those that the speed layer writes, by its last micro-batch (``sequence``), each with the sequence
    from which on it does.
    """
    layout, source = Layout.of(project), project.sources[metric.source]
    found: list[tuple[MetricTables, DeltaTable]] = []
    current = declaration_hash(source, metric)
    for declaration in [*written, *({current} - written.keys())]:
        uri = layout.provisional_of(metric.name, declaration)
        table = opened.open(uri) if declaration in written else opened.find(uri)
        if table is None:
            continue  # declared, but the speed layer has not started since
        require_seen(table, progress)
        declared = (
            (source, metric)
            if declaration == current
            else from_stored(table.metadata().configuration[DECLARATION], source)
        )
        found.append((MetricTables(*declared, table.version(), written.get(declaration, sequence + 1)), table))
    return found
