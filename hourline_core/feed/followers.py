"""Reports how far each follower has come: `hourline followers`."""

from dataclasses import dataclass
from datetime import datetime

from hourline_core.feed.confirmed_gaps import confirmed_after
from hourline_core.feed.positions import ASSETS, FOLLOWERS, read_confirmations, read_position
from hourline_core.feed.published import newest_publication, published_after
from hourline_core.model import Project


@dataclass(frozen=True)
class Follower:
    """A follower, and its lag."""

    name: str
    about: str
    """What it does with what was published."""
    publication: int
    """The newest publication that it has dealt with. 0: none."""
    newest: int
    """The newest publication of all."""
    waiting: int
    """The number of hours of metrics that it has not dealt with, up to about 5,000."""
    since: datetime | None
    """When the first of these was published (UTC). None: none waits."""
    gaps: int
    """The number of confirmed gaps that it has not dealt with. The reports follow none."""


def report_followers(project: Project) -> list[Follower]:
    """All followers. Raises TableError, OSError."""
    newest, found = newest_publication(project), []
    for name, about in FOLLOWERS.items():
        position = read_position(project, name)
        outstanding = published_after(project, position)
        gaps = confirmed_after(project, read_confirmations(project, name)).sequences if name == ASSETS else {}
        counts = len(outstanding.hours), outstanding.since, sum(map(len, gaps.values()))
        found.append(Follower(name, about, position, newest, *counts))
    return found
