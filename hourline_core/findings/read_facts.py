"""Reads the facts that findings are decided by: from a snapshot's tables in DuckDB, and from the workspace."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import duckdb

from hourline_core.findings.facts import (
    ChangedLookup,
    GapFacts,
    PartitionFacts,
    Quarantine,
    Reason,
    Recent,
    RefusedLookup,
    RejectedRun,
    Silence,
    SourceClockFacts,
    SourceFacts,
    SpeedFacts,
    Waiting,
)
from hourline_core.ledger.read_offsets import ARRIVALS
from hourline_core.ledger.snapshot import Snapshot
from hourline_core.ledger.token import AnswerToken
from hourline_core.lookups.pinning import names_of as lookup_names
from hourline_core.lookups.refresh import LookupState, read_state
from hourline_core.model import Project, Source
from hourline_core.model.branches import branches_of
from hourline_core.model.decoding import decoding_of
from hourline_core.model.topics import names_of
from hourline_core.runtime.kafka_absence import last_absence
from hourline_core.runtime.lease import lease_holder
from hourline_core.runtime.registry_absence import registry_absences
from hourline_core.runtime.sink_state import SinkProblem, find_sink_problem
from hourline_core.runtime.speed_end import last_end
from hourline_core.runtime.topic_absence import absent_topics
from hourline_core.runtime.unread_files import find_unread_files
from hourline_core.runtime.unwritten_reports import last_unwritten
from hourline_core.sql import arrivals
from hourline_core.sql.all_progress import PARTITION_CLOCKS_SQL, TOPICS_SQL, keep_all_progress
from hourline_core.sql.quarantine import quarantined_sql

_REASONS = 20
"""The maximum number of reasons that are read."""
_SCANNED = 1_000_000
"""The maximum number of rejected records in 28 days among which new reasons are looked for."""
_NEW = timedelta(days=1)


def read_speed_facts(project: Project) -> SpeedFacts:
    """What the workspace says of the speed layer, and of the reports."""
    workspace = project.workspace
    runs = lease_holder(workspace, "speed") is not None
    ended = None if runs else last_end(workspace)
    return SpeedFacts(runs, ended, last_absence(workspace), unwritten=last_unwritten(workspace))


class FactsReader:
    """Reads the facts of the sources of one snapshot at ``now`` (UTC). The snapshot's tables are attached."""

    def __init__(
        self, project: Project, database: duckdb.DuckDBPyConnection, snapshot: Snapshot, now: datetime
    ) -> None:
        self._project, self._database, self._snapshot, self._now = project, database, snapshot, now
        self._gone = absent_topics(project.workspace)
        self._without_registry = registry_absences(project.workspace)
        self._stale = snapshot.coverage.stale_hours()
        keep_all_progress(database)
        self._arrivals = {row["source"]: row for row in self._rows(arrivals.arrivals_sql(now))}
        self._clocks = self._rows_by_source(PARTITION_CLOCKS_SQL)
        self._topics = self._rows_by_source(TOPICS_SQL)
        self._waiting = {name for (name,) in database.execute(arrivals.SOURCES_WITH_WAITING_HOURS).fetchall()}

    def read(self, source: Source) -> SourceFacts:
        """The facts of one source. Raises duckdb.Error."""
        place = self._project.where_declared("source", source.name)
        facts = SourceFacts(
            source,
            place.rpartition(":")[0] or place,
            gone={name: self._gone[name] for name in names_of(source.topic) if name in self._gone},
            registry=self._without_registry.get(source.name),
        )
        if source.reads_files and (unread := find_unread_files(self._project.workspace, source.name)):
            facts = replace(facts, unread_files=tuple(unread.held), all_unread_files=unread.held_files)
        states = [read_state(self._project, self._project.lookups[name]) for name in sorted(lookup_names(source))]
        facts = replace(
            facts,
            refused_lookups=_refused_lookups(states),
            changed_lookups=self._changed_lookups(source, states),
            failing_sinks=tuple(_failing_sinks(self._project, source, str(AnswerToken.of(self._snapshot)))),
        )
        known = self._snapshot.progress.get(source.name)
        if known is None:
            return facts
        sequence = known.sequence
        if row := self._arrivals.get(source.name):
            facts = self._with_clocks(self._with_records(facts, sequence, row), sequence, row)
        return self._with_work(facts, sequence)

    def _changed_lookups(self, source: Source, states: Iterable[LookupState]) -> tuple[ChangedLookup, ...]:
        found = []
        for one in states:
            stale, most = self._stale.get(one.lookup.name, set()), one.lookup.most_changed_hours
            if one.version and len(stale) > most and any(name == source.name for name, _ in stale):
                found.append(ChangedLookup(one.lookup.name, len(stale), most, one.version.committed))
        return tuple(found)

    def _with_records(self, facts: SourceFacts, sequence: int, row: Mapping[str, Any]) -> SourceFacts:
        source = facts.source
        counts = {name: row[f"recent_{name}"] for name in arrivals.COUNTS}
        recent = Recent(row["recent_began"], row["last"], **counts)
        branches = branches_of(self._project.sources.values(), source)
        if branches is None or not branches.counts_untaken:  # They are taken since the declaration was changed.
            recent = replace(recent, taken_by_none=0)
        first, last = row["recent_first"], row["recent_last"]
        if recent.rejected > 0:
            recent = replace(recent, rejected=recent.rejected - self._accepted_since(source, first, last))
        run = None
        if row["run_rejected"] > 0:
            first, last = min(first, row["run_first"]), row["run_last"]
            records = row["run_rejected"] - self._accepted_since(source, row["run_first"], last)
            run = RejectedRun(row["run_began"], row["last"], records)
        reasons: tuple[Reason, ...] = ()
        if recent.rejected > 0 or run:
            found = self._rows(arrivals.reasons_sql(source, row["run_first"] if run else first, last, _REASONS))
            reasons = tuple(map(_reason, found))
        new: tuple[Reason, ...] = ()
        if reasons and row["all_rejected"] <= _SCANNED:
            query = arrivals.new_reasons_sql(source, sequence, self._now, self._now - _NEW)
            new = tuple(map(_reason, self._rows(query)))
        return replace(facts, recent=recent, run=run, reasons=reasons, new_reasons=new)

    def _with_clocks(self, facts: SourceFacts, sequence: int, row: Mapping[str, Any]) -> SourceFacts:
        source = facts.source
        if row["clock"] is not None:
            delay = None if row["delay"] is None else timedelta(seconds=row["delay"])
            facts = replace(facts, clock=SourceClockFacts(row["clock"], row["clock_since"], delay))
        if row["read_last"] is None:  # only files were imported
            return facts
        silence = Silence(row["read_last"], timedelta(seconds=row["silence"] or 0), row["begun"])
        names = {row["topic_id"]: row["topic"] for row in self._topics[source.name]}
        names[ARRIVALS] = source.place or source.name
        after = (source.findings.silent_partition if source.idle is None else source.findings.idle_partition).after
        partitions = []
        for known in self._clocks[source.name]:
            of = Silence(known["arrived"], begun=row["begun"])
            if of.exceeds(after, silence.last):  # It is silent, so what is usual matters.
                address = known["topic_id"], known["partition"]
                usual = self._row(arrivals.pauses_of_partition_sql(source, sequence, self._now, *address)) or {}
                of = Silence(known["arrived"], timedelta(seconds=usual["silence"] or 0), usual["begun"])
            name = f"{names.get(known['topic_id'], known['topic_id'])}[{known['partition']}]"
            partitions.append(PartitionFacts(name, known["clock"], of))
        return replace(facts, silence=silence, partitions=tuple(partitions))

    def _with_work(self, facts: SourceFacts, sequence: int) -> SourceFacts:
        source, snapshot = facts.source, self._snapshot
        if snapshot.progress[source.name].has_gaps:
            gaps = self._rows(
                f'SELECT sequence, sum("end" - first)::BIGINT AS records, min(accepted) AS found '
                f"FROM hourline.gaps_{source.name} WHERE confirmed IS NULL GROUP BY sequence ORDER BY sequence"
            )
            found = (GapFacts(f"{source.name}.{gap['sequence']}", gap["records"], gap["found"]) for gap in gaps)
            facts = replace(facts, gaps=tuple(found))
        if (query := quarantined_sql(snapshot, source, sequence)) and (row := self._row(query)) and row["events"]:
            facts = replace(facts, quarantine=Quarantine(row["events"], row["file"], row["message"], row["arrived"]))
        if source.name in self._waiting:
            served = [tables for tables in snapshot.served if tables.source.name == source.name]
            row = self._row(arrivals.waiting_hours_sql(source, sequence, served))
            if row and row["hours"] and row["since"]:
                facts = replace(facts, waiting=Waiting(row["hours"], row["since"]))
        if source.remembers_ids and facts.clock:
            row = self._row(arrivals.ids_sql(source, facts.clock.time - source.id_horizon))
            facts = replace(facts, ids=row["events"] if row else 0)
        return facts

    def _accepted_since(self, source: Source, first: int, last: int) -> int:
        """The number of rejected records of these sequences that were decoded anew as events."""
        if f"decoded/{source.name}/{decoding_of(source).hash}" not in self._snapshot.other_tables:
            return 0
        ((count,),) = self._database.execute(arrivals.accepted_since_sql(source, first, last)).fetchall()
        return int(count)

    def _rows_by_source(self, query: str) -> Mapping[str, list[dict[str, Any]]]:
        found = defaultdict[str, list[dict[str, Any]]](list)
        for row in self._rows(query):
            found[row.pop("source")].append(row)
        return found

    def _row(self, query: str) -> dict[str, Any] | None:
        return next(iter(self._rows(query)), None)

    def _rows(self, query: str) -> list[dict[str, Any]]:
        return [
            {name: value.astimezone(UTC) if isinstance(value, datetime) else value for name, value in row.items()}
            for row in self._database.execute(query).to_arrow_table().to_pylist()
        ]


def _reason(row: Mapping[str, Any]) -> Reason:
    example = f"{row['topic']}[{row['partition']}]@{row['offset']}"
    return Reason(row["reason"], row["records"], example, row.get("arrived"))


def _refused_lookups(states: Iterable[LookupState]) -> tuple[RefusedLookup, ...]:
    return tuple(RefusedLookup(one.lookup.name, one.problem, one.refreshed) for one in states if one.problem)


def _failing_sinks(project: Project, source: Source, token: str) -> Iterator[SinkProblem]:
    for _, sink in sorted(project.sinks.items()):
        if project.all_metrics[sink.metric].source == source.name and (
            found := find_sink_problem(project.workspace, sink, token)
        ):
            yield found
