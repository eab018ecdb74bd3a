"""The hours that cannot be computed by today's declaration, since the bytes of their records were not kept."""

from datetime import datetime

from batch_layer.decoding.changed_hours import read_changed_hours
from hourline_core.ledger.decodings import ArchiveDecodings
from hourline_core.ledger.layout import Layout
from hourline_core.model import Project, Source, declaration_hash
from hourline_core.model.hours import Clock, wall_clock
from hourline_core.sql.database import open_database
from hourline_core.storage.opening import exists


def find_hours_without_bytes(project: Project, clock: Clock = wall_clock) -> dict[str, set[datetime]]:
    """By source, the hours (UTC) that are missing for a metric over a field that is read in another way now. A reset of
    the source brings the bytes of the records that Kafka still has. Raises TableError.
    """
    if not any(_has_lost_fields(project, source) for source in project.sources.values()):
        return {}
    found: dict[str, set[datetime]] = {}
    with open_database(project, clock, {"hourline.metric_hours"}) as (database, snapshot):
        missing = database.execute(
            "SELECT source, metric, declaration, hour FROM hourline.metric_hours WHERE counted = 'missing'"
        ).fetchall()
        changed = {
            name: read_changed_hours(database, project, project.sources[name], known.sequence)
            for name, known in snapshot.progress.items()
        }
    for name, metric_name, declaration, hour in missing:
        source, metric, of_source = project.sources[name], project.metrics[metric_name], changed.get(name)
        if of_source and declaration == declaration_hash(source, metric) and of_source.lack_bytes(source, metric, hour):
            found.setdefault(name, set()).add(hour)
    return found


def _has_lost_fields(project: Project, source: Source) -> bool:
    layout = Layout.of(project)
    if not source.raw or not exists(layout.events(source), layout.storage_options):
        return False
    decodings = ArchiveDecodings.read(layout, source)
    return any(lost.fields for lost in decodings.lost_fields)
