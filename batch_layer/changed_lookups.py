"""Finds the published hours whose events meet other rows of lookups now, and marks them in coverage as stale.

It compares the version that an hour's result is of with the newest one. The keys that differ are looked for among the
archived events of these hours, of which the columns of the keys alone are read. Where they come, the ids are read, too,
since not each event of an id counts. An hour without such an event is of the newest version, too, which coverage then
says. So a difference is looked for once, and readers compute nothing.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import duckdb
import pyarrow as pa

from hourline_core.compute.native_expressions import translate
from hourline_core.errors import TableError
from hourline_core.ledger.coverage import Coverage, read_coverage
from hourline_core.ledger.coverage_rows import COVERAGE_SCHEMA
from hourline_core.ledger.decodings import ArchiveDecodings
from hourline_core.ledger.layout import TIMESTAMP, Layout, archived_names
from hourline_core.ledger.unfinished_publication import leave_none_open
from hourline_core.lookups.changes import END, FIRST, find_changes, key_columns
from hourline_core.lookups.pinning import as_text, names_of, versions_of
from hourline_core.lookups.versions import find_newest, is_kept, scan_differing
from hourline_core.model import Lookup, Metric, Project, Source, declaration_hash
from hourline_core.model.hours import Clock, wall_clock
from hourline_core.model.identity import words_of
from hourline_core.model.scratch_columns import (
    EVENT_TIME,
    HOUR,
    OFFSET,
    PARTITION,
    PLACE,
    SCRATCH_PREFIX,
    SEQUENCE,
    TOPIC_ID,
)
from hourline_core.sql.database import open_database
from hourline_core.sql.literals import identifier, literal
from hourline_core.storage import commits
from hourline_core.storage.creation import open_or_create
from hourline_core.storage.opening import exists
from hourline_core.storage.version_retention import PUBLISHED

_COVERED, _CUTOFF = f"{SCRATCH_PREFIX}covered", f"{SCRATCH_PREFIX}cutoff"
_SEVERAL = 0
"""Stands for the versions of an hour whose events kept those of their micro-batches. No version has this number."""

_HOURS_WITH_IDS = 24
"""The number of hours whose ids are compared at once."""


@dataclass
class _Outdated:
    """Rows of coverage about one metric whose results are of the same version of a lookup, which is not the newest."""

    places: list[int] = field(default_factory=list)
    cutoffs: dict[datetime, int] = field(default_factory=dict)
    """By hour (UTC), the sequence up to which its result counts events."""


def mark_stale_hours(project: Project, tell: Callable[[str], None], clock: Clock = wall_clock) -> int:
    """Mark the published hours whose events meet other rows of a lookup in its newest version. Returns their number, as
    far as they were not marked before.

    The caller has the lease of the batch layer. ``tell`` is called with a sentence if two versions cannot be compared.
    Raises TableError, and ConflictError when another process publishes.
    """
    layout, newest = Layout.of(project), _newest_versions(project)
    if not newest or not exists(layout.coverage, layout.storage_options):
        return 0
    description = "which version of final counts, and up to which cutoff"
    table = open_or_create(layout.coverage, layout.storage_options, "coverage", COVERAGE_SCHEMA, PUBLISHED, description)
    coverage = Coverage.at(table)
    outdated = _find_outdated(project, coverage, newest)
    if not outdated:
        return 0
    lookups, changed = (coverage.rows[name].to_pylist() for name in ("lookups", "changed_lookups"))
    hours, marked = coverage.rows["hour"].to_pylist(), set()
    sources = {project.metrics[metric].source for metric, *_ in outdated}
    with open_database(project, clock, {f"hourline.events_{name}" for name in sources}) as (database, snapshot):
        archives = {
            name: _Archive(database, project, project.sources[name], tell)
            for name in sources
            if f"events/{name}" in snapshot.other_tables
        }
        for (metric, name, version), rows in outdated.items():
            declared, touched = project.metrics[metric], set[datetime]()
            if archive := archives.get(declared.source):
                touched = archive.find_touched(declared, project.lookups[name], (version, newest[name]), rows.cutoffs)
            for place in rows.places:
                if hours[place] in touched:
                    changed[place] = json.dumps(sorted({*json.loads(changed[place] or "[]"), name}))
                    marked.add((declared.source, hours[place]))
                else:
                    lookups[place] = as_text({**versions_of(lookups[place]), name: newest[name]})
    leave_none_open(layout, table)
    commits.overwrite(table, coverage.with_lookups(lookups, changed), None, {"stale": len(marked)})
    return len(marked)


def find_outdated_lookups(project: Project) -> list[str]:
    """The lookups, sorted, with a newer version than that of some published hours, of which nobody has looked yet
    whether they are stale. Raises TableError.
    """
    newest = _newest_versions(project)
    return sorted({name for _, name, _ in _find_outdated(project, read_coverage(project), newest)}) if newest else []


def _newest_versions(project: Project) -> dict[str, int]:
    """By name, the versions of the lookups whose changed rows restate published hours."""
    layout, names = Layout.of(project), {name for source in project.sources.values() for name in names_of(source)}
    restated = [project.lookups[name] for name in names if project.lookups[name].on_change == "restate"]
    return {lookup.name: of.number for lookup in restated if (of := find_newest(layout, lookup))}


def _find_outdated(
    project: Project, coverage: Coverage, newest: Mapping[str, int]
) -> dict[tuple[str, str, int], _Outdated]:
    """By metric, lookup and version, the hours that are published by today's declaration and are not stale by this
    lookup yet.
    """
    pairs = coverage.rows.select(["metric", "lookups"]).group_by(["metric", "lookups"]).aggregate([]).to_pylist()
    outdated = {(one["metric"], one["lookups"]): _outdated_versions(project, newest, **one) for one in pairs}
    if not any(outdated.values()):
        return {}
    today = {one.name: declaration_hash(project.source_of(one), one) for one in project.metrics.values()}
    columns = ["metric", "declaration", "hour", "cutoff", "lookups", "changed_lookups", "lookups_as_of"]
    # Two versions may have come since. Each is compared with the newest one.
    found: dict[tuple[str, str, int], _Outdated] = defaultdict(_Outdated)
    for place, row in enumerate(coverage.rows.select(columns).to_pylist()):
        if row["cutoff"] is None or today.get(row["metric"]) != row["declaration"]:
            continue
        if row["lookups_as_of"] is not None:  # A person has chosen its versions.
            continue
        marked = json.loads(row["changed_lookups"] or "[]")
        for name, version in outdated[row["metric"], row["lookups"]].items():
            if name not in marked:
                of = found[row["metric"], name, version]
                of.places.append(place)
                of.cutoffs[row["hour"]] = max(row["cutoff"], of.cutoffs.get(row["hour"], 0))
    return found


def _outdated_versions(project: Project, newest: Mapping[str, int], metric: str, lookups: str | None) -> dict[str, int]:
    """Of what coverage has of an hour of ``metric``, the versions that are not the ``newest`` ones, by lookup. A lookup
    that the metric names, and coverage does not, was of _SEVERAL.
    """
    if lookups is None or metric not in project.metrics:
        return {}
    declared = project.metrics[metric]
    source, words = project.source_of(declared), words_of(project.source_of(declared), declared)
    named = {source.lookup_name(use) for use in source.lookups if use.casefold() in words}
    versions = {**dict.fromkeys(named, _SEVERAL), **versions_of(lookups)}
    return {name: version for name, version in versions.items() if newest.get(name, version) != version}


class _Archive:
    """The archived events of a source, of which the keys and ids are read."""

    def __init__(
        self, database: duckdb.DuckDBPyConnection, project: Project, source: Source, tell: Callable[[str], None]
    ) -> None:
        self._database, self._layout, self._source, self._tell = database, Layout.of(project), source, tell
        self._workspace = project.workspace
        columns = [name for name, *_ in database.execute(f"DESCRIBE hourline.events_{source.name}").fetchall()]
        there, known = {name.casefold() for name in columns}, archived_names(source, columns)
        # A field that was declared after the last micro-batch is no column yet.
        read = {name: identifier(of) if of.casefold() in there else "NULL" for name, of in known.items()}
        selected = ", ".join(f"{of} AS {identifier(name)}" for name, of in read.items())
        self._events = f"(SELECT {selected} FROM hourline.events_{source.name})"
        identity = translate(source, source.id) if source.id else None
        self._counts = _counts(source, identity.sql) if identity else ""
        self._is_as_declared = not ArchiveDecodings.read(self._layout, source).others
        self._found: dict[object, set[datetime]] = {}

    def find_touched(
        self, metric: Metric, lookup: Lookup, versions: tuple[int, int], cutoffs: Mapping[datetime, int]
    ) -> set[datetime]:
        """Those of the hours (UTC) in ``cutoffs`` that are touched. An event up to the cutoff counts there, and meets
        other values in the second of two ``versions`` than in the first. Values are those that the metric names. If
        only Spark can tell ids, each event counts.

        If only Spark can tell the keys, if a version is no longer kept, or if the events kept theirs until now, these
        are all hours with events. It is told if the versions cannot be compared, as when there is no space for that, or
        one is damaged.
        """
        words, touched = words_of(self._source, metric), set[datetime]()
        values = tuple(name for name in lookup.columns if name.casefold() in words and name not in lookup.key)
        for use in self._source.lookups:
            if self._source.lookup_name(use) == lookup.name and use.casefold() in words:
                asked = (use, versions, values, tuple(cutoffs.items()))
                if asked not in self._found:  # Metrics of a source mostly ask for the same.
                    self._found[asked] = self._find(use, lookup, versions, values, cutoffs)
                touched |= self._found[asked]
        return touched

    def _find(
        self,
        use: str,
        lookup: Lookup,
        versions: tuple[int, int],
        values: Collection[str],
        cutoffs: Mapping[datetime, int],
    ) -> set[datetime]:
        if versions[0] == _SEVERAL:
            return self._find_hours(cutoffs, "")
        keys = [key.sql for text in self._source.lookups[use].key if (key := translate(self._source, text))]
        if len(keys) < len(lookup.key) or not self._is_as_declared:
            return self._find_hours(cutoffs, "")
        if not all(is_kept(self._layout, lookup, version) for version in versions):
            return self._find_hours(cutoffs, "")
        try:
            with scan_differing(self._layout, lookup, versions) as (before, now):
                changes = find_changes(lookup, before, now, values, self._workspace)
        except TableError as error:
            self._tell(
                f"versions {versions[0]} and {versions[1]} of lookup '{lookup.name}' cannot be compared, so all hours "
                f"with events of source '{self._source.name}' count as stale that are of the first one: {error}"
            )
            return self._find_hours(cutoffs, "")
        return self._find_hours_of(cutoffs, _meets(lookup, keys), changes) if changes.num_rows else set()

    def _find_hours_of(self, cutoffs: Mapping[datetime, int], meets: str, changes: pa.Table) -> set[datetime]:
        """The hours in ``cutoffs`` with an event that counts up to its cutoff, and ``meets`` one of ``changes``."""
        touched = sorted(self._find_hours(cutoffs, meets, changes))
        if not self._counts:
            return set(touched)
        # To compare ids takes some 150 bytes for each event.
        days = [touched[first : first + _HOURS_WITH_IDS] for first in range(0, len(touched), _HOURS_WITH_IDS)]
        found = (self._find_hours({hour: cutoffs[hour] for hour in day}, meets, changes, self._counts) for day in days)
        return set().union(*found)

    def _find_hours(
        self, cutoffs: Mapping[datetime, int], meets: str, changes: pa.Table | None = None, counts: str = ""
    ) -> set[datetime]:
        """The hours in ``cutoffs`` with an event up to its cutoff that ``counts`` and ``meets`` one of ``changes``
        (SQL). Empty: any event will do.
        """
        hours = pa.table({_COVERED: pa.array(list(cutoffs), TIMESTAMP), _CUTOFF: pa.array(list(cutoffs.values()))})
        self._database.register("_covered", hours)
        if changes is not None:
            self._database.register("_changes", changes)
        # The bounds let DuckDB skip files.
        within = f"{HOUR} BETWEEN {literal(min(cutoffs))} AND {literal(max(cutoffs))}"
        try:
            found = self._database.execute(f"""
                WITH there AS NOT MATERIALIZED (
                    FROM {self._events} JOIN _covered ON {HOUR} = {_COVERED} AND {SEQUENCE} <= {_CUTOFF} WHERE {within}
                )
                SELECT DISTINCT {HOUR} FROM ({counts or "FROM there"})
                {f"JOIN _changes ON {meets}" if meets else ""}""").fetchall()
        finally:
            self._database.unregister("_covered")
            self._database.unregister("_changes")
        return {hour for (hour,) in found}


def _meets(lookup: Lookup, keys: Sequence[str]) -> str:
    """A condition: the event has the key of a change, ``keys`` (SQL), and lies in its span."""
    equal = [f"{name} = {key}" for name, key in zip(key_columns(lookup), keys, strict=True)]
    at = f"epoch_us({EVENT_TIME})"
    return " AND ".join([*equal, f"{FIRST} <= {at}", f"{at} < {END}"])


def _counts(source: Source, identity: str) -> str:
    """A query: those of the events ``there`` that count by their ``identity`` (SQL), as a recompute decides it."""
    order = f"{SEQUENCE}, {TOPIC_ID}, {PARTITION}, {OFFSET}, coalesce({PLACE}, 0)"
    number = "count(*) OVER of_id" if source.takes_back else f"row_number() OVER (of_id ORDER BY {order})"
    return f"""
        FROM there WHERE ({identity}) IS NULL UNION ALL
        FROM there WHERE ({identity}) IS NOT NULL
        WINDOW of_id AS (PARTITION BY {HOUR}, {identity}) QUALIFY {number} = 1"""
