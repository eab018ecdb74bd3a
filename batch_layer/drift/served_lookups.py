"""The versions of lookups that archived events were served with: those of the publication of their hour and, beyond its
cutoff, those of their micro-batch.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (as everywhere in Spark code)

from batch_layer.job import Job
from batch_layer.read_archive import cutoff_of
from hourline_core.compute.lookup_columns import Pinned, with_lookups
from hourline_core.ledger.coverage_rows import NO_CUTOFF, CoveredHour
from hourline_core.ledger.layout import Layout
from hourline_core.ledger.progress import Progress
from hourline_core.lookups.join import PinnedLookup
from hourline_core.lookups.pinning import names_of, pin_recorded, versions_of
from hourline_core.lookups.versions import find_newest, is_kept
from hourline_core.model import Source
from hourline_core.model.scratch_columns import HOUR, SEQUENCE
from hourline_core.storage.opening import open_table

_Versions = frozenset[tuple[str, int]]


@dataclass(frozen=True)
class ServedLookups:
    """By which versions of lookups the events of some hours of ``source`` were served."""

    source: Source
    groups: list[tuple[Column, Pinned]]
    """Each event fulfils the condition of one of them."""
    other_hours: frozenset[datetime]
    """The hours with events that were served with other versions than the job uses."""
    forgotten_hours: frozenset[datetime]
    """Those of them with a version that is no longer kept. Here, the newest one stands in. If no version can be read as
    the lookup was declared, events have no row.
    """

    def add_to(self, events: DataFrame) -> DataFrame:
        """The ``events``, which have no derived fields, with a struct for each lookup."""
        if not self.groups:
            return events
        names = names_of(self.source)
        parts = [
            with_lookups(events.where(among), self.source, pinned, names - pinned.keys())
            for among, pinned in self.groups
        ]
        return reduce(DataFrame.unionByName, parts)


def read_served_lookups(
    job: Job, source: Source, hours: list[datetime], cutoff: int, covered: Mapping[datetime, CoveredHour]
) -> ServedLookups:
    """The versions by which ``hours`` of ``source``, as it was served, were answered at ``cutoff``. Raises
    TableError.
    """
    if not source.lookups:
        return ServedLookups(source, [], frozenset(), frozenset())
    published = {hour: (one.cutoff, frozenset(versions_of(one.lookups).items())) for hour, one in covered.items()}
    conditions: dict[_Versions, list[Column]] = defaultdict(list)
    published_hours: dict[_Versions, set[datetime]] = defaultdict(set)
    later_hours: dict[_Versions, set[datetime]] = defaultdict(set)
    cutoffs: dict[_Versions, dict[datetime, int]] = defaultdict(dict)
    for hour, (of_hour, versions) in published.items():
        cutoffs[versions][hour] = of_hour
        published_hours[versions].add(hour)
    for versions, known in cutoffs.items():
        conditions[versions].append(F.col(SEQUENCE) <= cutoff_of(HOUR, known))
    beyond = F.col(SEQUENCE) > cutoff_of(HOUR, {hour: known for hour, (known, _) in published.items()})
    for first, last, versions, touched in _micro_batches(job, source, hours, cutoff):
        conditions[versions].append(beyond & F.col(SEQUENCE).between(first, last))
        later_hours[versions] |= {hour for hour in touched if last > published.get(hour, (NO_CUTOFF, None))[0]}
    groups: list[tuple[Column, Pinned]] = []
    others, forgotten = set[datetime](), set[datetime]()
    now = job.pin_lookups(job.project.sources[source.name])
    for versions, those in conditions.items():
        pinned, lost = _pin(source, Layout.of(job.project), dict(versions), hours)
        if lost:
            forgotten |= published_hours[versions] | later_hours[versions]
        if any(name not in now or now[name].versions != one.versions for name, one in pinned.items()):
            others |= published_hours[versions]
        # What a micro-batch has used is what an event keeps.
        if any(
            name not in now or now[name].version != version for name, version in versions if not _is_kept(now, name)
        ):
            others |= later_hours[versions]
        groups.append((reduce(or_, those), pinned))
    return ServedLookups(source, groups, frozenset(others | forgotten), frozenset(forgotten))


def _pin(
    source: Source, layout: Layout, versions: Mapping[str, int], hours: list[datetime]
) -> tuple[dict[str, PinnedLookup], bool]:
    """The lookups at these versions, and whether one is no longer kept, so that the newest one stands in. A lookup that
    has none at all is left out.
    """
    pinned = pin_recorded(source, layout, versions, hours)
    gone = {name for name, one in pinned.items() if name in versions and not is_kept(layout, one.lookup, one.version)}
    for name in gone:
        one = pinned.pop(name)
        if of := find_newest(layout, one.lookup):
            pinned[name] = PinnedLookup(one.lookup, layout, of.number)
    lost = gone or names_of(source) - pinned.keys() or any(one.forgotten for one in pinned.values())
    return pinned, bool(lost)


def _is_kept(now: Mapping[str, PinnedLookup], name: str) -> bool:
    return name in now and bool(now[name].used)


def _micro_batches(
    job: Job, source: Source, hours: list[datetime], cutoff: int
) -> list[tuple[int, int, _Versions, set[datetime]]]:
    """The spans of sequences whose micro-batches used the same versions, with those of ``hours`` that they touch."""
    layout, version = Layout.of(job.project), job.snapshot.progress[source.name].version
    progress = Progress(open_table(layout.progress(source), layout.storage_options, version))
    wanted, found, before = {*hours}, list[tuple[int, int, _Versions, set[datetime]]](), 0
    for row in progress.rows(0, cutoff):
        versions = frozenset(row.lookups.items())
        touched = wanted & {one.hour for one in row.hours}
        if found and found[-1][2] == versions:
            first, _, _, earlier = found[-1]
            found[-1] = (first, row.sequence, versions, earlier | touched)
        else:
            # Another topic's row of the same sequence has the same versions.
            found.append((before + 1, row.sequence, versions, touched))
        before = row.sequence
    return found
