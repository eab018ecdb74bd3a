"""Which versions of lookups were the newest ones at an earlier moment."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NamedTuple

from hourline_core.errors import UsageError, did_you_mean
from hourline_core.ledger.layout import Layout
from hourline_core.ledger.time_travel import moment_of, published_at
from hourline_core.ledger.token import AnswerToken
from hourline_core.lookups.join import PinnedLookup
from hourline_core.lookups.versions import find_version_at, is_kept
from hourline_core.model import Project
from hourline_core.model.hours import parse_moment


class LookupsAsOf(NamedTuple):
    """Lookups at the versions that were the newest ones at an earlier moment."""

    moment: datetime
    """The moment (UTC)."""
    pinned: Mapping[str, PinnedLookup]
    """By name."""


def pin_as_of(project: Project, names: Iterable[str], text: str, now: datetime) -> LookupsAsOf:
    """These lookups as of ``text``: a time (UTC), or that of a token. ``now`` is in UTC.

    Raises UsageError if it is neither or lies in the future, or if a version of then does not exist or is no longer
    kept. Raises TableError.
    """
    moment = _moment_of(project, text, now)
    layout, pinned = Layout.of(project), dict[str, PinnedLookup]()
    for name in sorted(names):
        lookup = project.lookups[name]
        version = find_version_at(layout, lookup, moment)
        if version is None or not is_kept(layout, lookup, version.number):
            raise UsageError(
                f"lookup '{name}' has no version of {moment:%Y-%m-%d %H:%M:%S} UTC: it was not read before, or that "
                f"version is no longer kept; `keep` in lookups/{name}.yaml says how long, and `hourline lookups` shows "
                "the newest version"
            )
        pinned[name] = PinnedLookup(lookup, layout, version.number)
    return LookupsAsOf(moment, pinned)


def _moment_of(project: Project, text: str, now: datetime) -> datetime:
    moment = parse_moment(text)
    if moment is None:
        token = AnswerToken.parse(text)
        if unknown := sorted(token.sequences.keys() - project.sources.keys()):
            raise UsageError(f"there is no source '{unknown[0]}'{did_you_mean(unknown[0], project.sources)}")
        moments = [one for one in (moment_of(project, token), published_at(project, token)) if one]
        if not moments:
            raise UsageError(f"nothing had been processed at {text}: there is no version of a lookup of that time")
        return max(moments)
    if moment > now:
        raise UsageError(f"'{text}' lies in the future: it is {now:%Y-%m-%dT%H:%M:%SZ} now")
    return moment
