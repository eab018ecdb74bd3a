"""The tables that are read beside the results: events, rejected, quarantine, drift, quality and confirmations."""

from collections.abc import Mapping

from deltalake import DeltaTable

from hourline_core.ledger.damage import OnDamage
from hourline_core.ledger.decodings import ArchiveDecodings
from hourline_core.ledger.layout import Layout
from hourline_core.ledger.progress import Progress
from hourline_core.model import Project, user_measures_of
from hourline_core.storage.data_files import name_of
from hourline_core.storage.open_tables import OpenTables
from hourline_core.storage.seen_versions import refuse_older, require_seen


def other_table_versions(
    project: Project,
    progress: Mapping[str, DeltaTable],
    coverage: DeltaTable | None,
    opened: OpenTables,
    on_damage: OnDamage,
) -> dict[str, int]:
    """By name, their newest versions. Raises TableError if one is damaged, or lacks a commit that ``progress`` (by
    source) or ``coverage`` has seen; unless ``on_damage`` goes on.
    """
    layout = Layout.of(project)
    wanted: list[tuple[str, DeltaTable, tuple[str, ...]]] = []
    for name, table in progress.items():
        source = project.sources[name]
        wanted.append((layout.events(source), table, (f"events_{name}", "late_events")))
        wanted.append((layout.rejected(source), table, (f"rejected_{name}",)))
        if any(user_measures_of(metric) for metric in project.metrics_of(name)):
            wanted.append((layout.quarantine(source), table, (f"quarantine_{name}",)))
    if coverage is not None:
        wanted += [(layout.drift, coverage, ("drift", "publications")), (layout.quality, coverage, ("quality",))]
    versions: dict[str, int] = {}
    for uri, by, views in wanted:
        with on_damage.looking_up(*views):
            # An older version of Hourline, or an older declaration, has made no quarantine.
            may_lack = by is coverage or uri.startswith(f"{layout.root}/quarantine/")
            other = opened.find(uri) if may_lack else opened.open(uri)
            if other is None:
                refuse_older(uri, None, by, uri.removeprefix(f"{layout.root}/"))
                continue  # all of its publications or micro-batches are older than the table
            require_seen(other, by)
            versions[name_of(other)] = other.version()
            if uri.startswith(f"{layout.root}/events/"):
                source = project.sources[uri.rpartition("/")[2]]
                decodings = ArchiveDecodings.of(other, source)
                if decodings.others and (decoded := opened.find(layout.decoded(source, decodings.now.hash))):
                    versions[name_of(decoded)] = decoded.version()
    # Only who has gaps can have confirmed one.
    if any(Progress(table).has_gaps for table in progress.values()) and (known := opened.find(layout.confirmations)):
        versions[name_of(known)] = known.version()
    return versions
