"""The snapshot of a read: the version of every table, taken in the order that makes the read exact.

Progress comes first, then provisional, then coverage. It starts again if coverage has a cutoff beyond that progress, or
a metric was reset meanwhile, which deletes rows that this progress still counts on. Final is read only at the version
that coverage pins, never at its newest. In another order, an event could be counted twice or not at all.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from deltalake import DeltaTable

from hourline_core.errors import TableError
from hourline_core.ledger.coverage import Coverage, open_coverage
from hourline_core.ledger.coverage_rows import BlockedHour
from hourline_core.ledger.damage import OnDamage, Strict, views_of
from hourline_core.ledger.layout import Layout
from hourline_core.ledger.metric_tables import MetricTables, as_covered, declarations_with_tables, open_published
from hourline_core.ledger.open_progress import open_progress
from hourline_core.ledger.other_table_versions import other_table_versions
from hourline_core.model import Metric, Project
from hourline_core.storage.data_files import DataFiles, name_of
from hourline_core.storage.open_tables import OpenTables
from hourline_core.storage.opening import known_files, update
from hourline_core.storage.seen_versions import refuse_older


@dataclass(frozen=True)
class SourceProgress:
    """The version of the progress table, and the last finished sequence at that version (0: none)."""

    version: int
    sequence: int
    has_gaps: bool = False
    """Whether it has gaps, perhaps beyond that sequence."""


@dataclass(frozen=True)
class Snapshot:
    """Versions of tables that belong together. A source or metric that is absent had no tables, or was made anew."""

    progress: Mapping[str, SourceProgress]
    """By source."""
    metrics: list[MetricTables]
    """The metrics as they are declared now. For a changed metric also the declaration that the speed layer still
    writes until the new one is promoted.
    """
    coverage: Coverage
    """The rows of coverage about these."""
    other_tables: Mapping[str, int]
    """By name, the versions of the other tables: ``events/<source>``, ``rejected/<source>``,
    ``quarantine/<source>``, ``drift``, ``quality``, ``confirmations``.
    """
    unreadable: Mapping[str, str] = field(default_factory=dict)
    """By view, why it cannot be read. Empty unless the snapshot was taken as ``Degraded``."""
    files: Mapping[tuple[str, int], DataFiles] = field(default_factory=dict)
    """By name and version, the files of the tables that every answer uses (progress, coverage, provisional and
    final), if they are on this machine.
    """

    made_anew: Mapping[str, int] = field(default_factory=dict)
    """The sources that are absent since their events were made anew after that, with the last sequence of that time."""

    @property
    def publication(self) -> int | None:
        """The number of the last publication. None: nothing was published yet."""
        return self.coverage.publication

    @property
    def recomputed(self) -> list[MetricTables]:
        """The one declaration of each metric that recomputes compute: the newest one."""
        return list({tables.metric.name: tables for tables in self.metrics}.values())

    @cached_property
    def blocked(self) -> dict[tuple[str, datetime], BlockedHour]:
        """By metric and hour, the hours that did not pass their last audit, of the declarations that recomputes
        compute.
        """
        recomputed = {(tables.metric.name, tables.declaration) for tables in self.recomputed}
        return {
            (row.metric, row.hour): row
            for row in self.coverage.blocked()
            if (row.metric, row.declaration) in recomputed
        }

    @property
    def sources_of_blocked(self) -> dict[tuple[str, datetime], str]:
        """By metric and hour, the sources of the blocked hours."""
        return {cell: mark.source for cell, mark in self.blocked.items()}

    def staged_versions(self, tables: MetricTables) -> list[int]:
        """The versions of a metric's staged table that hold the rows of blocked hours, as far as they can be read."""
        if f"{tables.metric.name}_staged" in self.unreadable:
            return []
        return self.coverage.of(tables.metric.name, tables.declaration).staged_versions()

    @property
    def versions(self) -> dict[str, list[int]]:
        """By name, the versions of all tables that are read. ``open_table`` has checked each of them, except for its
        data files.
        """
        versions = {f"progress/{name}": [known.version] for name, known in self.progress.items()}
        for tables in self.metrics:
            of = f"{tables.metric.name}/{tables.declaration}"
            versions[f"final/{of}"] = [] if tables.final is None else [tables.final]
            versions[f"provisional/{of}"] = [tables.provisional]
            versions[f"staged/{of}"] = self.staged_versions(tables)
        versions["coverage"] = [] if self.publication is None else [self.publication]
        return versions | {name: [version] for name, version in self.other_tables.items()}

    @property
    def cutoffs_beyond(self) -> list[str]:
        """The sources of which coverage has a cutoff beyond progress. Such tables do not belong together."""
        return self.coverage.cutoffs_beyond({name: known.sequence for name, known in self.progress.items()})

    @property
    def served(self) -> list[MetricTables]:
        """The one declaration of each metric that is served."""
        return [tables for tables in self.metrics if tables.served]


def take_snapshot(project: Project) -> Snapshot:
    """The newest consistent snapshot of the project's tables. Raises TableError when it cannot be read."""
    for _ in range(100):  # a publication between the first and the last step is rare; a hundred in a row mean damage
        snapshot, overtaken = look_up(project, Strict())
        beyond = snapshot.cutoffs_beyond
        if not overtaken and not beyond:
            return snapshot
    raise TableError(
        f"coverage has cutoffs beyond the progress of {', '.join(beyond)}: tables of different times have been mixed, "
        "as after a partial restore"
    )


def look_up(project: Project, on_damage: OnDamage, publication: int | None = None) -> tuple[Snapshot, bool]:
    """The newest versions, or those at an earlier ``publication``; and whether a metric was reset during the look-up,
    so that they do not belong together.

    Raises TableError, unless ``on_damage`` goes on.
    """
    with OpenTables(project.settings.storage_options) as opened:
        progresses = {
            source.name: known
            for source in project.sources.values()
            if (known := open_progress(project, source, opened, on_damage))
        }
        progress = {
            name: SourceProgress(known.table.version(), known.sequence, known.has_gaps)
            for name, known in progresses.items()
        }
        resets = {name: known.metric_reset for name, known in progresses.items()}
        declarations: list[list[MetricTables]] = []
        provisional: list[tuple[Metric, DeltaTable]] = []
        for metric in project.metrics.values():
            if metric.source in progresses:
                with on_damage.looking_up(*views_of(metric)):
                    with_tables = declarations_with_tables(project, metric, progresses[metric.source], opened)
                    declarations.append([tables for tables, _ in with_tables])
                    provisional += [(metric, table) for _, table in with_tables]
        covering = open_coverage(project, opened, publication)
        coverage = Coverage.at(covering)
        version = None if covering is None else covering.version()
        for metric, table in provisional:
            with on_damage.looking_up(*views_of(metric)):
                # It may have lost rows to what was published then.
                refuse_older(Layout.of(project).coverage, version, table, "coverage")
        metrics = as_covered(declarations, coverage)
        final = open_published(project, metrics, coverage, opened, on_damage)
        tables_of_progress = {name: known.table for name, known in progresses.items()}
        answered_from = [*tables_of_progress.values(), *(table for _, table in provisional), *final]
        files = files_of([*answered_from, covering] if covering else answered_from)
        others = other_table_versions(project, tables_of_progress, covering, opened, on_damage)
        for name, table in tables_of_progress.items():
            with on_damage.looking_up(f"progress/{name}"):
                update(table)
        overtaken = any(known.metric_reset != resets[name] for name, known in progresses.items())
    metrics = [tables for tables in metrics if tables.metric.name not in on_damage.unreadable]
    return Snapshot(progress, metrics, coverage.about(metrics), others, on_damage.unreadable, files), overtaken


def files_of(tables: Iterable[DeltaTable]) -> dict[tuple[str, int], DataFiles]:
    """The files of these tables, as in ``Snapshot.files``."""
    return {(name_of(table), table.version()): files for table in tables if (files := known_files(table))}
