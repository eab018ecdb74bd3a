"""Which versions of its lookups a job or a micro-batch uses."""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime

from hourline_core.errors import TableError
from hourline_core.ledger.layout import Layout
from hourline_core.ledger.progress import Progress
from hourline_core.lookups.join import PinnedLookup
from hourline_core.lookups.refresh import LookupState, read_state, refresh
from hourline_core.lookups.versions import find_kept, find_newest, is_kept
from hourline_core.model import Project, Source
from hourline_core.model.hours import Clock
from hourline_core.storage.opening import exists, open_table


def names_of(source: Source) -> set[str]:
    """The names of the lookups that a source uses."""
    return {source.lookup_name(name) for name in source.lookups}


def pin_newest(project: Project, names: Iterable[str], clock: Clock) -> dict[str, PinnedLookup]:
    """By name, the newest versions of these lookups. A table that was never read is read now; ``clock`` (UTC) dates
    that. Raises TableError if it cannot be used.
    """
    states = [read_state(project, project.lookups[name]) for name in names]
    return _pin(project, [state if state.version else refresh(project, state.lookup, clock) for state in states])


def find_pinned(project: Project, names: Iterable[str]) -> dict[str, PinnedLookup] | None:
    """The same, without reading any table of somebody else. None: one of these lookups was never read."""
    states = [read_state(project, project.lookups[name]) for name in names]
    return _pin(project, states) if all(state.version for state in states) else None


class RefreshedLookups:
    """The lookups of one source in the speed layer, which reads their tables again when it is time. ``clock`` is in
    UTC.
    """

    def __init__(self, project: Project, source: Source, clock: Clock) -> None:
        self._project, self._clock = project, clock
        self._names = sorted(names_of(source))
        self._states: dict[str, LookupState] = {}
        self._read: dict[str, datetime] = {}

    def pinned(self) -> Mapping[str, PinnedLookup]:
        """By name, the version that a micro-batch uses which begins now. A table is read first if that was longer ago
        than its interval. If it cannot be used, the version before is. Raises TableError if there is none.
        """
        for name in self._names:
            lookup, now = self._project.lookups[name], self._clock()
            if name not in self._read or now - self._read[name] >= lookup.refresh:
                self._states[name], self._read[name] = refresh(self._project, lookup, self._clock), now
        return _pin(self._project, self._states.values())


def pin_used(newest: PinnedLookup, source: Source, hours: Collection[datetime] | None) -> PinnedLookup:
    """The lookup at the versions that the micro-batches of ``source`` have used, for the events of ``hours`` (UTC), or
    of all (None). For those that are no longer kept, ``newest`` stands in. Raises TableError.
    """
    uri, lookup, layout = newest.layout.progress(source), newest.lookup, newest.layout
    if not exists(uri, layout.storage_options):
        return newest
    spans = Progress(open_table(uri, layout.storage_options)).versions_used(lookup.name, hours)
    needed = {version for _, version, has_events in spans if has_events}
    kept = {version for version in needed if is_kept(layout, lookup, version)}
    # Repeated events of the hours may be of other versions, and are read, too.
    kept |= find_kept(layout, lookup, {version for _, version, _ in spans} - needed)
    used, forgotten, first = list[tuple[int, int]](), list[tuple[int, int]](), 0
    for last, version, has_events in spans:
        used.append((last, version if version in kept else newest.version))
        if has_events and version not in kept:
            since, _ = forgotten.pop() if forgotten and forgotten[-1][1] == first - 1 else (first, last)
            forgotten.append((since, last))
        first = last + 1
    return replace(newest, used=tuple(used), forgotten=tuple(forgotten))


def versions_text(pinned: Mapping[str, PinnedLookup]) -> str | None:
    """The versions as coverage keeps them, without those of lookups whose events keep theirs. None: there are no
    lookups.
    """
    return as_text({name: of.version for name, of in pinned.items() if not of.used}) if pinned else None


def as_text(versions: Mapping[str, int]) -> str:
    """These versions, by name, as coverage keeps them."""
    return json.dumps(dict(sorted(versions.items())))


def versions_of(text: str | None) -> dict[str, int]:
    """The versions that ``versions_text`` has given, by name."""
    return {name: int(version) for name, version in json.loads(text or "{}").items()}


def pin_recorded(
    source: Source, layout: Layout, versions: Mapping[str, int], hours: Collection[datetime] = ()
) -> dict[str, PinnedLookup]:
    """By name, the lookups of ``source``, which may be an earlier declaration of it, at these versions, as they were
    recorded for ``hours`` (UTC). Without one, the events of these kept the versions of their micro-batches, or no value
    mattered. A lookup that has none at all is left out. Raises TableError.
    """
    pinned = {}
    for lookup in {source.lookup_name(name): source.lookup_of(name) for name in source.lookups}.values():
        if lookup.name in versions:
            pinned[lookup.name] = PinnedLookup(lookup, layout, versions[lookup.name])
        elif newest := find_newest(layout, lookup):
            pinned[lookup.name] = pin_used(PinnedLookup(lookup, layout, newest.number), source, hours)
    return pinned


def _pin(project: Project, states: Iterable[LookupState]) -> dict[str, PinnedLookup]:
    pinned = {}
    for state in states:
        lookup = state.lookup
        if state.version is None:
            where = project.where_declared("lookup", lookup.name, ("table",))
            raise TableError(f"{where}: lookup '{lookup.name}' was never read: {state.problem}")
        pinned[lookup.name] = PinnedLookup(lookup, Layout.of(project), state.version.number)
    return pinned
