"""Reads up to when the hours of a source have closed. Within a long silence, a window may be final by that alone."""

from collections.abc import Iterable
from datetime import UTC, datetime

from hourline_core.ledger.layout import Layout
from hourline_core.ledger.progress import Progress
from hourline_core.model import Project, Source
from hourline_core.model.hours import HOUR, Clock, time_before
from hourline_core.storage.opening import exists, open_table

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def closed_until(source: Source, clock: datetime) -> datetime:
    """The end of the last hour that a source's clock has closed (UTC)."""
    passed = time_before(clock, source.grace)
    return passed - (passed - _EPOCH) % HOUR


def newest_closed(project: Project, sources: Iterable[str], clock: Clock) -> dict[str, datetime]:
    """By source, the end of the last hour that has closed, from its newest row of progress alone. Sources without an
    event are left out. Raises TableError.
    """
    layout, found = Layout.of(project), dict[str, datetime]()
    for source in map(project.sources.__getitem__, sources):
        uri = layout.progress(source)
        if not exists(uri, layout.storage_options):
            continue
        last = Progress(open_table(uri, layout.storage_options)).last_row()
        if last and last.clock:
            found[source.name] = closed_until(source, clock() if source.clock == "wall" else last.clock)
    return found
