"""A project in a temporary folder on the real broker and Spark: send records, run the layers, and compare every answer
with the oracle.
"""

import math
import random
import shutil
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from typer.testing import CliRunner

import serving_layer
from batch_layer.plan import PlannedHour, plan
from batch_layer.publish import Recomputed
from batch_layer.recompute import recompute
from hourline.cli import app
from hourline_core.model.hours import wall_clock
from hourline_core.model.scratch_columns import PLACE
from speed_layer.commit.committer import Finished
from speed_layer.spark_session import speed_session
from tests.support import observed, oracle
from tests.support.oracle import FIRST_FILE, Event, count_recreated
from tests.support.result_rows import Answer, answer_of, apply_changes, differences
from tests.support.sent_project import SentProject

_OLDER = {"exploded": None, "empty": None, "not_taken": None}
"""Columns that an older version did not write."""
ANSWERS = 10
"""So many earlier answers are kept, since a soak checks hundreds."""


@dataclass
class StackProject(SentProject):
    """One project, what was sent to it, and what was recomputed."""

    cutoffs: dict[tuple[str, datetime], int] = field(default_factory=dict)
    """By metric and hour, the sequence up to which it was recomputed."""
    blocked: set[tuple[str, datetime]] = field(default_factory=set)
    """The metrics and hours whose last recompute did not pass its audit: their cutoffs stay what they were."""
    incomplete: set[datetime] = field(default_factory=set)
    """The hours that lost records may belong to."""
    mended: dict[tuple[int, int], int] = field(default_factory=dict)
    """By partition and offset, the sequence after which a record is accepted that was rejected before."""
    answers: list[tuple[str, Answer]] = field(default_factory=list)
    """Some of the answers that were checked, with their tokens, and the last one."""

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
        copied.answers = list(self.answers)
        return copied

    def command(self, *arguments: str, status: int | None = 0) -> str:
        """The standard output of a command that is run in this process, and must end with ``status`` (None: with any)."""
        command, *options = arguments
        done = CliRunner().invoke(
            app, [command, "--project", str(self.root), *options], env={"KAFKA": self.kafka}, catch_exceptions=False
        )
        assert status is None or done.exit_code == status, done.output
        return done.stdout

    def drain(self, losses: list[str] | None = None) -> list[Finished]:
        """Run the speed layer until all that was sent has been processed. With ``losses``, it accepts them, and this list
        gets a sentence on each.
        """
        with speed_session(self.project) as spark:
            told = observed.drain(spark, self.project, self.kafka, accept_loss=losses is not None)
        if losses is not None:
            losses += told.losses
        return told.batches

    def recompute(self, wanted: list[PlannedHour] | None = None) -> list[Recomputed]:
        """Recompute ``wanted``, or what the plan says."""
        chosen = plan(self.project) if wanted is None else wanted
        done = recompute(self.project, chosen)
        blocked = {pair for one in done for pair in one.blocked}
        passed = [item for item in chosen if (item.metric, item.hour) not in blocked]
        self.blocked = self.blocked - {(item.metric, item.hour) for item in passed} | blocked
        self.recomputed(passed, {source: self.last_sequence(source) for source in {item.source for item in chosen}})
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
        self.check_changes(connection)
        return cells

    def check_changes(self, connection: serving_layer.Connection) -> None:
        """What has changed since two of the earlier answers, applied to them, gives this one."""
        answer = answer_of(connection)
        chosen = random.Random(connection.token)  # noqa: S311 (the same ones each time)
        for since, earlier in [self.answers[-1], chosen.choice(self.answers)] if self.answers else []:
            with serving_layer.connect(connection.project, as_of=since) as before:
                connection.compare_with(before, answer)
            changes = connection.sql("FROM changes").to_arrow_table().to_pylist()
            known = {metric: earlier.get(metric, {}) for metric in answer}
            assert differences(apply_changes(changes, known), answer) == [], f"since {since} up to {connection.token}"
        if len(self.answers) == ANSWERS:
            self.answers.pop(chosen.randrange(ANSWERS))
        self.answers.append((connection.token, answer))

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
            # A rejected row without a reason keeps the bytes of a record without an event.
            rows = [row for row in self.table(table, source) if belongs or row["reason"] is not None]
            kept = [self._address(row) for row in rows]
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
        return max((int(row["sequence"]) for row in self.table("progress", source, ["sequence"])), default=0)

    def table(self, kind: str, name: str, columns: list[str] | None = None) -> list[dict[str, Any]]:
        """All rows of one Delta table, with all columns or these."""
        return list(DeltaTable(f"{self.project.tables}/{kind}/{name}").to_pyarrow_table(columns=columns).to_pylist())

    def _address(self, row: Mapping[str, Any]) -> tuple[int, int, int]:
        return self._number(row["topic_id"], row["partition"]), row["offset"], row.get(PLACE) or 0


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
