"""A project in a temporary folder on the real broker and Spark: send records, run the layers, and compare every answer
with the oracle.
"""

import hashlib
import json
import math
import random
import shutil
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import Message, Producer
from confluent_kafka.admin import AdminClient, NewPartitions  # type: ignore[attr-defined] # not in strict mypy's way
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

import serving_layer
from batch_layer.plan import PlannedHour, plan
from batch_layer.publish import Recomputed
from batch_layer.recompute import recompute
from hourline import load_project
from hourline_core.model.hours import wall_clock
from hourline_core.model.scratch_columns import PLACE
from hourline_core.model.topics import names_of
from hourline_core.runtime.topics import ensure_topics, topic_id_of
from speed_layer.gaps import OnLoss
from speed_layer.micro_batch import Finished
from speed_layer.run import run
from speed_layer.session import speed_session
from tests.support import oracle
from tests.support.oracle import FIRST_FILE, RECREATED, Event, Sent, SourceRule, count_recreated
from tests.support.recreated_topic import recreate_topic

_OLDER = {"exploded": None, "empty": None, "not_taken": None}
"""Columns that an older version did not write."""


@dataclass
class StackProject:
    """One project, what was sent to it, and what was recomputed. ``rules`` are its sources in Python, for the oracle."""

    root: Path
    kafka: str
    rules: Mapping[str, SourceRule]
    sent: dict[str, list[Sent]] = field(default_factory=dict)
    cutoffs: dict[tuple[str, datetime], int] = field(default_factory=dict)
    """By metric and hour, the sequence up to which it was recomputed."""
    blocked: set[tuple[str, datetime]] = field(default_factory=set)
    """The metrics and hours whose last recompute did not pass its audit: their cutoffs stay what they were."""
    incomplete: set[datetime] = field(default_factory=set)
    """The hours that lost records may belong to."""
    mended: dict[tuple[int, int], int] = field(default_factory=dict)
    """By partition and offset, the sequence after which a record is accepted that was rejected before."""
    topics: dict[str, list[str]] = field(default_factory=dict)
    """By source, the names of its topics."""
    partitions: dict[str, int] = field(default_factory=dict)
    """By source, the number of partitions of each of its topics."""
    merged: dict[str, str] = field(default_factory=dict)
    """By name, the ids of the topics of sources that read several. A partition of one has a number of its own, below
    zero; these numbers are in the order of the ids.
    """
    recreated: list[str] = field(default_factory=list)
    """The ids of the topics that were recreated, in their order. Their partitions have numbers of their own, below zero.
    """
    files: dict[str, int] = field(default_factory=dict)
    """By topic id, the imported files, each with the number of a partition that stands for it; no topic has that many.
    """

    def __post_init__(self) -> None:
        self.project = load_project(self.root, {"KAFKA": self.kafka})
        self.producer = self._new_producer()
        self.random = random.Random(self.project.name)  # noqa: S311 (the same numbers each time)
        for source in self.project.sources.values():
            self.sent[source.name], self.topics[source.name] = [], []
            self.partitions[source.name] = source.partitions
            for topic in ensure_topics(self.kafka, source, {}):
                self.add_topic(source.name, topic)

    def add_topic(self, source: str, topic: str) -> None:
        """Send to this topic, too. It exists."""
        self.topics[source].append(topic)
        if names_of(self.project.sources[source].topic) != (topic,):
            self.merged[topic] = topic_id_of(self.kafka, topic, {})

    def add_partitions(self, source: str, number: int) -> None:
        """Let the topics of a source have ``number`` partitions each, and send to these."""
        client = AdminClient({"bootstrap.servers": self.kafka, "log_level": 0})
        for topic in self.topics[source]:
            client.create_partitions([NewPartitions(topic, number)])[topic].result(30)
            deadline = time.monotonic() + 120
            # Else it refuses to send to those that it does not know.
            while len(self.producer.list_topics(topic, timeout=30).topics[topic].partitions) < number:
                assert time.monotonic() < deadline, f"{topic} has no {number} partitions"
        self.partitions[source] = number

    def recreate(self, source: str, partitions: int) -> None:
        """Delete the topic of a source, the only one of the project, and make another of that name. Send to that from now
        on.
        """
        (topic,) = self.topics[source]
        self.recreated.append(recreate_topic(self.kafka, topic, partitions))
        self.partitions[source] = partitions
        self.producer = self._new_producer()  # The one before knows the other topic.

    def forget_unread(self, source: str) -> None:
        """Expect no more of what was sent before the topic was recreated, and was not read."""
        read, now = self.sequences(source), len(self.recreated)
        self.sent[source] = [
            record
            for record in self.sent[source]
            if count_recreated(record.partition) == now or (record.partition, record.offset) in read
        ]

    def copy(self, folder: Path) -> "StackProject":
        """The same project in another folder, tables and all; it reads the same topics."""
        copied = StackProject(Path(shutil.copytree(self.root, folder / "copy")), self.kafka, self.rules)
        copied.topics, copied.merged = dict(self.topics), dict(self.merged)
        copied.partitions = dict(self.partitions)
        copied.sent = {source: list(records) for source, records in self.sent.items()}
        copied.cutoffs = dict(self.cutoffs)
        copied.blocked = set(self.blocked)
        copied.incomplete = set(self.incomplete)
        copied.mended = dict(self.mended)
        copied.recreated, copied.files = list(self.recreated), dict(self.files)
        return copied

    def send(self, source: str, bodies: Iterable[dict[str, Any]], partition: int | None = None) -> None:
        """Send events that must be accepted, each to a random partition, or to ``partition``, of a random topic of the
        source.
        """
        for body in bodies:
            self._produce(source, json.dumps(body, ensure_ascii=False).encode(), body, partition=partition)
        self.flush()

    def send_everywhere(self, source: str, bodies: Iterable[dict[str, Any]]) -> None:
        """Send each of these events to every partition. Four that are not all of one time move the clock over a gap."""
        bodies = list(bodies)
        for partition in range(self.partitions[source]):
            self.send(source, bodies, partition)

    def send_refused(self, source: str, values: Iterable[bytes | None], **record: Any) -> None:
        """Send records that must be rejected, or, for None, tombstones; ``record`` is as in ``send_records``."""
        for value in values:
            self._produce(source, value, None, record)
        self.flush()

    def send_records(self, source: str, records: Iterable[dict[str, Any]]) -> None:
        """Send whole records that must be accepted: ``body``, ``key``, ``headers`` (pairs) and ``timestamp``
        (milliseconds). The oracle's events have all of it, and the address, under ``record``.
        """
        for record in records:
            value = json.dumps(record["body"]).encode()
            self._produce(source, value, {**record["body"], "record": dict(record)}, record)
        self.flush()

    def write_history(self, file: Path, source: str, bodies: Iterable[dict[str, Any] | bytes]) -> Path:
        """A file to import: JSON lines, or Parquet. Bytes must be rejected, the others accepted."""
        bodies = list(bodies)
        if file.suffix == ".parquet":
            pq.write_table(pa.Table.from_pylist(bodies), file)
        else:
            lines = [
                body if isinstance(body, bytes) else json.dumps(body, ensure_ascii=False).encode() for body in bodies
            ]
            file.write_bytes(b"".join(line + b"\n" for line in lines))
        partition = FIRST_FILE + len(self.files)
        self.files["file:" + hashlib.sha256(file.read_bytes()).hexdigest()[:32]] = partition
        self.sent[source] += [
            Sent(partition, row, None if isinstance(body, bytes) else body) for row, body in enumerate(bodies)
        ]
        return file

    def flush(self) -> None:
        """Wait until Kafka has all that was sent."""
        assert self.producer.flush(120) == 0

    def drain(self, on_loss: OnLoss = None) -> list[Finished]:
        """Run the speed layer until all that was sent has been processed."""
        finished: list[Finished] = []
        with speed_session(self.project) as spark:
            run(spark, self.project, self.kafka, drain=True, on_finished=finished.append, on_loss=on_loss)
        return finished

    def recompute(self, wanted: list[PlannedHour] | None = None) -> list[Recomputed]:
        """Recompute ``wanted``, or what the plan says."""
        chosen = plan(self.project) if wanted is None else wanted
        done = recompute(self.project, chosen)
        blocked = {pair for one in done for pair in one.blocked}
        passed = [item for item in chosen if (item.metric, item.hour) not in blocked]
        self.blocked = self.blocked - {(item.metric, item.hour) for item in passed} | blocked
        self.recomputed(passed, {item.source: self.last_sequence(item.source) for item in chosen})
        return done

    def recomputed(self, wanted: list[PlannedHour], cutoffs: Mapping[str, int]) -> None:
        """Note that ``wanted`` now count up to the cutoffs of their sources."""
        self.cutoffs |= {(item.metric, item.hour): cutoffs[item.source] for item in wanted}

    def note_cutoffs(self) -> None:
        """Note what any process has recomputed."""
        self.cutoffs = {
            (row["metric"], row["hour"]): row["cutoff"] for row in self.table("coverage", "") if row["hour"]
        }

    def check(self) -> int:
        """Once all is processed: compare the accounting and all answers with the oracle; returns how many cells that
        were.
        """
        for source in self.rules:
            self.check_accounting(source)
        return self.check_answers()

    def check_answers(self) -> int:
        """Compare every row of every metric, and every hour's state and counts; returns how many cells that were."""
        with serving_layer.connect(self.project) as connection:
            return self.check_snapshot(connection, {source: self.events(source) for source in self.rules}, self.cutoffs)

    def check_snapshot(
        self,
        connection: serving_layer.Connection,
        events_of: Mapping[str, list[Event]],
        cutoffs: Mapping[tuple[str, datetime], int],
    ) -> int:
        """The same for a connection at whose snapshot these events (by source) have been accepted, and these cutoffs
        published.
        """
        cells = 0
        hours = connection.sql("FROM hours").to_arrow_table().to_pylist()
        now = wall_clock()
        for source, rule in self.rules.items():
            events = events_of[source]
            of_metrics = {}
            wall = None if self.project.sources[source].clock == "event_time" else now
            for metric, metric_rule in rule.metrics.items():
                by_hour = self.project.metrics[metric].hourly_views[0]
                rows = connection.sql(f"FROM {by_hour}").to_arrow_table().to_pylist()
                cells += oracle.compare(rows, metric_rule, oracle.answer(rule, metric, events, cutoffs))
                states = oracle.states(rule, metric, events, cutoffs, wall)
                states |= dict.fromkeys(self.incomplete & states.keys(), "incomplete")
                of_metrics[metric] = {
                    hour: "blocked" if (metric, hour) in self.blocked else state for hour, state in states.items()
                }
                assert [row for row in rows if row["state"] != of_metrics[metric][row["hour"]]] == []
                assert {
                    row["hour"]: row["state"] for row in hours if (row["kind"], row["name"]) == ("metric", metric)
                } == of_metrics[metric]
            first = [event for event in events if not event.duplicate]
            mine = {row["hour"]: row for row in hours if (row["kind"], row["name"]) == ("source", source)}
            counts = Counter(event.hour for event in first)
            assert {hour: row["events"] for hour, row in mine.items()} == {
                hour: counts[hour] for hour in oracle.source_hours(events, wall)
            }
            assert {hour: row["state"] for hour, row in mine.items()} == {
                hour: oracle.weakest(states[hour] for states in of_metrics.values()) for hour in mine
            }
            if wall is None:
                late = oracle.late_events(rule, events, live=lambda event: event.partition < FIRST_FILE)
                assert {hour: row["late"] for hour, row in mine.items()} == {hour: late[hour] for hour in mine}
                assert {hour for hour, row in mine.items() if row["closed"]} == oracle.closed_hours(rule, events)
            cells += 3 * len(mine)
        self.check_drift(connection)
        return cells

    def check_drift(self, connection: serving_layer.Connection) -> None:
        """No number ever changed without a known cause, and the amounts add up."""
        assert connection.sql("FROM drift WHERE cause = 'unexplained'").fetchall() == []
        for *where, at_close, final, amount in connection.sql(
            "SELECT published, hour, metric, measure, at_close, final, sum(amount) FROM drift "
            "WHERE at_close IS NOT NULL AND final IS NOT NULL GROUP BY ALL"
        ).fetchall():
            assert math.isclose(at_close + (amount or 0), final, rel_tol=1e-9, abs_tol=1e-6), (
                *where,
                at_close,
                amount,
                final,
            )

    def check_accounting(self, source: str) -> None:
        """Every record was read once, at the sequence whose offsets hold it; and every event of it, as accepted (and
        archived) or rejected (and kept).
        """
        sent, explode = self.sent[source], self.rules[source].explode
        exploded = {
            (record.partition, record.offset): [None] if record.body is None else explode(record.body)
            for record in sent
            if not record.tombstone
        }
        progress = [{**_OLDER, **row} for row in self.table("progress", source)]
        assert sorted(self.sequences(source)) == sorted((record.partition, record.offset) for record in sent)
        if all(row["position"] is None for row in progress):  # no reset: nothing was read twice
            assert sum(row["last"] - row["first"] + 1 for batch in progress for row in batch["offsets"]) == len(sent)
        assert sum(row["records"] for row in progress) == len(sent)
        assert all(
            row["records"] + (row["exploded"] or 0)
            == row["accepted"]
            + row["rejected"]
            + row["duplicates"]
            + row["tombstones"]
            + (row["empty"] or 0)
            + (row["not_taken"] or 0)
            for row in progress
        )
        assert sum(row["tombstones"] for row in progress) == sum(record.tombstone for record in sent)
        assert sum(row["empty"] or 0 for row in progress) == sum(not events for events in exploded.values())
        further = sum(max(0, len(events) - 1) for events in exploded.values())
        assert sum(row["exploded"] or 0 for row in progress) == further
        events = self.events(source)
        duplicates = {(event.partition, event.offset, event.place) for event in events if event.duplicate}
        assert sum(row["accepted"] for row in progress) == len(events) - len(duplicates)
        assert {self._address(row) for row in self.table("events", source) if row["duplicate"]} == duplicates
        for table, belongs in (("events", True), ("rejected", False)):
            kept = [self._address(row) for row in self.table(table, source)]
            want = [
                (*address, place)
                for address, bodies in exploded.items()
                for place, body in enumerate(bodies)
                if (body is not None) == belongs
            ]
            assert sorted(kept) == sorted(want), f"{table}: {len(kept)} kept, {len(want)} sent"
            topics = {row["topic_id"] for row in [*progress, *self.table(table, source)]} - self.files.keys()
            assert len(topics) <= len(self.topics[source]) + len(self.recreated), (topics, self.topics[source])

    def events(self, source: str) -> list[Event]:
        """The accepted events of what was read, as the oracle sees them."""
        read = self.sequences(source)
        return oracle.accepted(
            self.rules[source],
            [record for record in self.sent[source] if (record.partition, record.offset) in read],
            read,
        )

    def sequences(self, source: str) -> dict[tuple[int, int], int]:
        """By partition and offset, the sequence that read it so that it counts, according to progress: the first one,
        also after a reset.
        """
        found: dict[tuple[int, int], int] = {}
        for row in sorted(self.table("progress", source), key=lambda row: row["sequence"]):
            for read in row["offsets"]:
                partition = self._number(row["topic_id"], read["partition"])
                for address in ((partition, offset) for offset in range(read["first"], read["last"] + 1)):
                    if address not in found or found[address] <= self.mended.get(address, -1) < row["sequence"]:
                        found[address] = row["sequence"]
        return found

    def last_sequence(self, source: str) -> int:
        return max((int(row["sequence"]) for row in self.table("progress", source)), default=0)

    def table(self, kind: str, name: str) -> list[dict[str, Any]]:
        """All rows of one Delta table."""
        return list(DeltaTable(f"{self.project.tables}/{kind}/{name}").to_pyarrow_table().to_pylist())

    def _address(self, row: Mapping[str, Any]) -> tuple[int, int, int]:
        return self._number(row["topic_id"], row["partition"]), row["offset"], row.get(PLACE) or 0

    def _number(self, topic_id: str, partition: int) -> int:
        """The number that stands for the partition."""
        if topic_id in self.merged.values():
            return int.from_bytes(topic_id.encode()) * 1000 + partition - 2**200
        if topic_id in self.recreated:
            return partition - RECREATED * (self.recreated.index(topic_id) + 1)
        return self.files.get(topic_id, partition)

    def _new_producer(self) -> Producer:
        # Idempotent: what is sent again while a broker comes back is there once.
        options = {"bootstrap.servers": self.kafka, "linger.ms": 5, "log_level": 0, "enable.idempotence": True}
        return Producer(options)

    def _produce(
        self,
        source: str,
        value: bytes | None,
        body: dict[str, Any] | None,
        record: dict[str, Any] | None = None,
        partition: int | None = None,
    ) -> None:
        def delivered(error: object, message: Message) -> None:
            assert error is None, error
            landed, offset = message.partition(), message.offset()
            assert landed is not None
            assert offset is not None
            if body and record:
                body["record"] |= {"topic": topic, "partition": landed, "offset": offset}
            number = self._number(self.recreated[-1] if self.recreated else self.merged.get(topic, ""), landed)
            self.sent[source].append(Sent(number, offset, body, value is None))

        topics, partitions = self.topics[source], self.partitions[source]
        topic = self.random.choice(topics) if len(topics) > 1 else topics[0]
        parts = {name: record[name] for name in ("key", "headers", "timestamp") if name in record} if record else {}
        self.producer.produce(
            topic,
            value,
            partition=self.random.randrange(partitions) if partition is None else partition,
            on_delivery=delivered,
            **parts,
        )
        self.producer.poll(0)


def leave_rows(table: Path, sequence: int) -> None:
    """What a process leaves behind that dies after this commit: rows of a sequence that progress does not know."""
    delta = DeltaTable(table)
    rows = delta.to_pyarrow_table()
    number = rows.schema.get_field_index("sequence")
    rows = rows.slice(0, 30).set_column(
        number, rows.schema.field(number), pa.array([sequence] * min(30, rows.num_rows), pa.int64())
    )
    properties = CommitProperties(app_transactions=[Transaction("hourline-speed", sequence)])
    write_deltalake(delta, rows, mode="append", commit_properties=properties)
