"""bare_tables with records that arrive at any time, in any partition, and are accepted or rejected: what findings are
about.
"""

from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from hourline_core.findings.look import look
from hourline_core.ledger.finding import Finding
from hourline_core.ledger.layout import REJECTED_SCHEMA
from hourline_core.ledger.progress import SPEED_WRITER
from hourline_core.ledger.progress_rows import HourEvents, OffsetsRead, ProgressRow, RecordCounts, to_arrow
from hourline_core.ledger.source_clock import SourceClock
from hourline_core.model import Source
from hourline_core.model.hours import HOUR
from hourline_core.model.windows import HOURLY
from hourline_core.sql.database import open_database
from hourline_core.storage import commits
from tests.support.bare_tables import BASE, SOURCE, BareTables

TOPIC = "topic-id"


class Arrivals(BareTables):
    """The tables of the source of bare_tables, declared with ``changes``."""

    def __init__(self, folder: Path, **changes: Any) -> None:
        super().__init__(folder, [])
        declared = {**SOURCE.model_dump(exclude_defaults=True, exclude={"fields", "event_time", "topic"}), **changes}
        source = Source(fields=SOURCE.fields, event_time=SOURCE.event_time, topic=SOURCE.topic, **declared)
        self.project = replace(self.project, sources={"clicks": source})
        self.clock = SourceClock()
        self._finished: list[ProgressRow] = []
        self._rejected: list[dict[str, Any]] = []
        self.start()

    def arrive(
        self,
        at: datetime,
        accepted: int = 0,
        *,
        rejected: int = 0,
        reason: str = "invalid JSON",
        partition: int = 0,
        behind: timedelta = timedelta(0),
        **counts: int,
    ) -> None:
        """A finished micro-batch of records of one partition at ``at`` (UTC). Their event time is ``behind`` it.
        ``counts`` are others of RecordCounts, or ``late``.
        """
        late = counts.pop("late", 0)
        time = at - behind
        known = self.clock.of_partition((TOPIC, partition), at)
        moved = replace(known, arrived=at, clock=max(known.clock or time, time) if accepted else known.clock)
        self.clock = self.clock.after_records([moved])
        if idle := self.project.sources["clicks"].idle:
            self.clock = self.clock.without_idle(at, idle)
        records = accepted + rejected + sum(counts.values())
        refused = {"topic_id": TOPIC, "topic": "clicks", "partition": partition, "reason": reason, "arrived": at}
        self._rejected += [
            {**refused, "sequence": self.sequence, "offset": self.offset + number, "value": b"{"}
            for number in range(rejected)
        ]
        row = ProgressRow(
            self.sequence,
            TOPIC,
            "clicks",
            offsets=(OffsetsRead(partition, self.offset, self.offset + records - 1),),
            counts=RecordCounts(records=records, accepted=accepted, rejected=rejected, **counts),
            hours=(HourEvents(HOURLY.assign(time), accepted, late),) if accepted else (),
            metrics=self.source_tables.written_metrics(),
            clock=self.clock.time,
            started=at,
            finished=at + timedelta(milliseconds=10),
            partitions=self.clock.partitions,
        )
        self._finished.append(row)
        self.sequence += 1
        self.offset += records

    def arrive_hourly(self, first: datetime, hours: int, accepted: int = 20, partitions: int = 1) -> datetime:
        """Records in each half hour, and a recompute at their end. Returns when the next ones would come."""
        for number in range(2 * hours):
            for partition in range(partitions):
                self.arrive(first + number * HOUR / 2, accepted, partition=partition)
        self.recompute()
        return first + hours * HOUR

    def recompute(self) -> None:
        """Publish all hours that have closed."""
        assert self.clock.time
        self.commit()
        closed = (HOURLY.assign(self.clock.time - HOUR) - BASE) // HOUR
        if closed > 0:
            self.publish(*range(closed))

    def commit(self) -> None:
        """Commit what has arrived since the last time, as the commits of its micro-batches would."""
        tables = self.source_tables
        if self._rejected:
            self._append(tables.rejected, pa.Table.from_pylist(self._rejected, REJECTED_SCHEMA))
        hours = [(row.sequence, known.hour) for row in self._finished for known in row.hours]
        for name, table in tables.provisional.items():
            schema = tables.provisional_schemas[name]
            rows = [{"sequence": sequence, "hour": moment, "n": 1} for sequence, moment in hours]
            self._append(table, pa.Table.from_pylist(rows, schema))
        if self._finished:
            self._append(tables.progress.table, to_arrow(self._finished))
        self._rejected, self._finished = [], []

    def _append(self, table: DeltaTable, rows: pa.Table) -> None:
        if rows.num_rows:
            commits.append(table, rows, {}, [SPEED_WRITER], self.sequence - 1)

    def found(self, now: datetime) -> dict[str, Finding]:
        """By kind, what is found at ``now`` (UTC)."""
        self.commit()
        with open_database(self.project, lambda: now) as (database, snapshot):
            found = look(self.project, database, snapshot, now)
        kinds = {one.kind: one for one in found}
        assert len(kinds) == len(found), "one of a kind"
        return kinds

    def the(self, kind: str, now: datetime) -> Finding:
        """The finding of a kind, which must be there at ``now`` (UTC)."""
        found = self.found(now)
        assert kind in found, list(found)
        return found[kind]
