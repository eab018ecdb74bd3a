"""Opens the progress of a source, which is read before all other tables."""

from collections.abc import Iterable

from hourline_core.errors import TableError
from hourline_core.ledger.damage import OnDamage
from hourline_core.ledger.layout import Layout
from hourline_core.ledger.progress import Progress
from hourline_core.model import Project, Source
from hourline_core.storage.durable import sync_all, sync_version
from hourline_core.storage.open_tables import OpenTables
from hourline_core.storage.opening import exists, open_table, readable_versions


def find_progress(project: Project, source: Source) -> Progress | None:
    """Progress at its newest version. None: no speed layer has started with this source. Raises TableError."""
    layout = Layout.of(project)
    if not exists(layout.progress(source), layout.storage_options):
        return None
    return Progress(open_table(layout.progress(source), layout.storage_options))


def open_progress(project: Project, source: Source, opened: OpenTables, on_damage: OnDamage) -> Progress | None:
    """As ``find_progress``, for a snapshot: among the tables ``opened``. None also while a first start, which makes
    progress first, has not made the tables of events and of rejected records.

    If it is damaged, or missing beside events, raises TableError. If ``on_damage`` goes on, it is the newest version
    that can be read.
    """
    layout = Layout.of(project)
    uri = layout.progress(source)
    with on_damage.looking_up(f"progress/{source.name}"):
        if (table := opened.find(uri)) is None:
            refuse_without_progress(layout, source)
            return None
        progress = Progress(table)
        return progress if is_begun(layout, source, progress) else None
    return Progress(next(readable_versions(uri, layout.storage_options)))


def sync_progress(project: Project, sources: Iterable[Source]) -> None:
    """Write to disk what the speed layer has finished of ``sources``, before another table depends on it. The speed
    layer does so after each commit, unless `speed.fsync` is off. Raises TableError.
    """
    if not project.settings.speed.fsync:
        sync_all()
        return
    for source in sources:
        if progress := find_progress(project, source):
            sync_version(progress.table)


def is_begun(layout: Layout, source: Source, progress: Progress) -> bool:
    """Whether a first start has made all tables of ``source``. It makes progress first, and may end in between."""
    others = (layout.events(source), layout.rejected(source))
    return progress.sequence > 0 or all(exists(other, layout.storage_options) for other in others)


def refuse_without_progress(layout: Layout, source: Source) -> None:
    """Raise TableError if a source has events and no progress. Progress is created first, so it has been deleted."""
    if exists(layout.events(source), layout.storage_options):
        raise TableError(
            f"the table at {layout.progress(source)} is gone, but there is one at {layout.events(source)}; "
            "restore it from a backup, because it records which events count"
        )
