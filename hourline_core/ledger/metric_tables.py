"""The declarations of a metric that have tables, and the version of each table that counts."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from deltalake import DeltaTable

from hourline_core.ledger.coverage import Coverage
from hourline_core.ledger.damage import OnDamage, views_of
from hourline_core.ledger.layout import DECLARATION, Layout
from hourline_core.ledger.progress import Progress
from hourline_core.model import DeclaredMetric, Metric, Project, declaration_hash, from_stored
from hourline_core.storage.open_tables import OpenTables
from hourline_core.storage.seen_versions import require_seen


@dataclass(frozen=True)
class MetricTables(DeclaredMetric):
    """The tables of one declaration of a metric. A changed metric has two declarations until the new one is
    promoted.
    """

    provisional: int
    """The version of its provisional table."""
    complete_from: int
    """The sequence from which on its provisional rows are complete. What is below counts by a recompute only."""
    final: int | None = None
    """The version of its final table that coverage pins. None: nothing was published."""
    served: bool = True
    """Whether answers come from this declaration."""


def declarations_with_tables(
    project: Project, metric: Metric, progress: Progress, opened: OpenTables
) -> list[tuple[MetricTables, DeltaTable]]:
    """The declarations of a metric that have tables, the oldest first, each with its provisional table.

    ``progress`` is that of its source: its last row names the declarations that the speed layer writes. Before there is
    a row with metrics, that is the one of ``project``. Raises TableError.
    """
    layout, source = Layout.of(project), project.source_of(metric)
    last, current = progress.last_row(), declaration_hash(source, metric)
    written = {
        known.declaration: known.complete_from
        for known in (last.metrics if last else ())
        if known.metric == metric.name
    }
    declarations: list[tuple[MetricTables, DeltaTable]] = []
    for declaration in written if last and last.metrics else [current]:
        uri = layout.provisional_of(metric.name, declaration)
        table = opened.open(uri) if declaration in written else opened.find(uri)
        if table is None:
            continue  # declared, but the speed layer has not started since
        require_seen(table, progress.table)
        declared = (source, metric)
        if declaration != current:
            declared = from_stored(table.metadata().configuration[DECLARATION], source, metric.window)
        complete_from = written.get(declaration, progress.sequence + 1)
        declarations.append((MetricTables(*declared, table.version(), complete_from), table))
    return declarations


def as_covered(metrics: Iterable[list[MetricTables]], coverage: Coverage) -> list[MetricTables]:
    """The declarations of each metric, the oldest first, with the version of final that coverage pins, and whether
    they are served.
    """
    covered: list[MetricTables] = []
    for declarations in metrics:
        own = [coverage.of(tables.metric.name, tables.declaration) for tables in declarations]
        promoted = [of.is_promoted(tables.complete_from) for of, tables in zip(own, declarations, strict=True)]
        # The newest promoted one. If none is promoted, the oldest.
        served = max((place for place, whole in enumerate(promoted) if whole), default=0)
        covered += [
            replace(tables, final=of.pinned(), served=place == served)
            for place, (of, tables) in enumerate(zip(own, declarations, strict=True))
        ]
    return covered


def open_published(
    project: Project, metrics: Iterable[MetricTables], coverage: Coverage, opened: OpenTables, on_damage: OnDamage
) -> list[DeltaTable]:
    """The final tables at the versions that ``coverage`` pins. Raises TableError if one of them, or of staged, is
    missing or damaged, unless ``on_damage`` goes on.
    """
    layout = Layout.of(project)
    published: list[DeltaTable] = []
    for tables in metrics:
        with on_damage.looking_up(*views_of(tables.metric)):
            if tables.final is not None:
                published.append(opened.open(layout.final(tables.source, tables.metric), tables.final))
        with on_damage.looking_up(f"{tables.metric.name}_staged"):
            for version in coverage.of(tables.metric.name, tables.declaration).staged_versions():
                opened.open(layout.staged(tables.source, tables.metric), version)
    return published
