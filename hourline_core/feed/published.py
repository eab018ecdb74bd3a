"""Reads which hours were published after a publication. It is read from the tables alone, whoever published."""

from dataclasses import dataclass
from datetime import datetime

from hourline_core.ledger.layout import Layout
from hourline_core.model import Project
from hourline_core.storage.opening import exists, open_table

_HOURS = 5_000
"""The maximum number of hours × metrics at once. One publication that has more is given as a whole."""


@dataclass(frozen=True)
class PublishedHour:
    """An hour of a metric whose published result was replaced, or is the first one."""

    metric: str
    hour: datetime
    """The hour (UTC)."""
    publication: int
    """The newest of these publications that published it. With metric and hour, it identifies the entry."""


@dataclass(frozen=True)
class PublishedHours:
    """The hours that some publications have published."""

    hours: tuple[PublishedHour, ...]
    """By metric and hour, each once."""
    up_to: int
    """The newest of these publications: the position of who has read this."""
    since: datetime | None = None
    """When the first of these was published (UTC). None: there is none."""


def newest_publication(project: Project) -> int:
    """The number of the newest publication. 0: there is none. Raises TableError."""
    layout = Layout.of(project)
    if not exists(layout.coverage, layout.storage_options):
        return 0
    return int(open_table(layout.coverage, layout.storage_options).version())


def published_after(project: Project, publication: int) -> PublishedHours:
    """The hours that were published after ``publication``, in the order of publications, up to about 5,000 hours of
    metrics at once. A changed declaration is published with all of its hours when it is promoted. A ``publication``
    that is not there yet is that of tables that were deleted: all hours are given. Raises TableError.
    """
    layout, newest = Layout.of(project), newest_publication(project)
    if publication > newest:  # It is a position in other tables, which are gone.
        publication = 0
    if publication == newest or not exists(layout.drift, layout.storage_options):
        return PublishedHours((), newest)
    # Drift is written before coverage. Its rows after the newest publication are not published, and may be deleted.
    rows = open_table(layout.drift, layout.storage_options).to_pyarrow_table(
        columns=["publication", "published", "metric", "hour"],
        filters=[("publication", ">", publication), ("publication", "<=", newest)],
    )
    found: dict[tuple[str, datetime], int] = {}
    entries = rows.group_by(["publication", "published", "metric", "hour"]).aggregate([]).to_pylist()
    entries.sort(key=lambda entry: entry["publication"])
    for number, entry in enumerate(entries):
        if number >= _HOURS and entry["publication"] != entries[number - 1]["publication"]:
            newest = entries[number - 1]["publication"]
            break
        found[entry["metric"], entry["hour"]] = entry["publication"]
    hours = (PublishedHour(metric, hour, last) for (metric, hour), last in sorted(found.items()))
    return PublishedHours(tuple(hours), newest, entries[0]["published"] if entries else None)
