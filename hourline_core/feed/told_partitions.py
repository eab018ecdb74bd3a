"""Keeps with which token the assets have told of a partition last: what changed in it since then is news.

A token of the run before is not enough. A late event counts at once, as a provisional one. If another hour is told
before the late event is recomputed, a token of that moment counts it already, and the difference would be empty.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from pathlib import Path

from hourline_core.feed.positions import ASSETS
from hourline_core.model import Project
from hourline_core.runtime.notes import read_note, write_note

_MOST = 200
"""Airflow keeps these with each event of a telling, and there may be 5,000 events."""


@dataclass(frozen=True)
class Telling:
    """What the assets told at once."""

    publication: int
    """The newest publication that it tells of."""
    confirmations: int
    """The version of the table of confirmed gaps that it tells of."""
    token: str
    """The token of the results at that moment."""
    at: datetime
    """When it was (UTC)."""
    partitions: Mapping[str, Sequence[str]]
    """By the name of the asset, the keys of its partitions."""
    closed: Mapping[str, str] = field(default_factory=dict)
    """By source, the end of the last closed hour that it tells of (ISO text). An older version of Hourline noted none.
    """


def read_tellings(project: Project, publication: int, confirmations: int, now: datetime) -> list[Telling]:
    """The tellings up to these versions whose tokens can still be compared with, in their order. A later one is about
    tables that were deleted. Raises OSError.
    """
    said = read_note(_file(project)) or {}
    tellings = (Telling(**{**one, "at": datetime.fromisoformat(one["at"])}) for one in said.get("tellings", []))
    first = now - project.settings.batch.answers_kept
    return [
        one
        for one in tellings
        if one.publication <= publication and one.confirmations <= confirmations and one.at > first
    ]


def note_telling(project: Project, telling: Telling) -> None:
    """Note a telling, once, beside the earlier ones that are still needed. One without a partition is left out: of the
    same versions, the one before had some. Raises OSError.
    """
    if not telling.partitions:
        return
    versions = (telling.publication, telling.confirmations)
    known = read_tellings(project, *versions, telling.at)
    earlier = [one for one in known if (one.publication, one.confirmations, one.closed) != (*versions, telling.closed)]
    tellings = [{**vars(one), "at": one.at.isoformat()} for one in (*earlier, telling)]
    write_note(_file(project), {"tellings": tellings})


def told_last(tellings: Sequence[Telling], asset: str, keys: Collection[str]) -> dict[str, str]:
    """The token with which each of these partitions of an asset was told last, of at most 200 of them: those that were
    told most recently. Others are not in it.
    """
    left, found = set(keys), dict[str, str]()
    for one in reversed(tellings):
        known = left.intersection(one.partitions.get(asset, ()))
        found |= dict.fromkeys(sorted(known), one.token)
        left -= known
    return dict(islice(found.items(), _MOST))


def _file(project: Project) -> Path:
    return project.workspace / "followers" / f"{ASSETS}_told.json"
