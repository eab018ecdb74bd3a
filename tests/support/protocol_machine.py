"""A Hypothesis state machine over the product's own commits (source_tables, publication, snapshot, merge); the oracle
counts plain Python lists."""

import random
import tempfile
from collections import Counter
from collections.abc import Set
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import serving_layer
from batch_layer.accept import accept
from batch_layer.aggregate import MetricTiles
from batch_layer.publication import MetricPublication, Publication
from batch_layer.publish import promotes
from batch_layer.stage import stage_metric
from hourline_core.compute.aggregation import AggregationPlan
from hourline_core.errors import ConflictError
from hourline_core.ledger.layout import EVENT_SCHEMA, QUALITY_SCHEMA, TIMESTAMP, Layout
from hourline_core.ledger.progress_rows import HourEvents, OffsetsRead, ProgressRow, RecordCounts
from hourline_core.ledger.snapshot import take_snapshot
from hourline_core.model import EventTime, Field, Measure, Metric, Project, Settings, Source
from hourline_core.model.scratch_columns import DECODING, PLACE, VALUE
from hourline_core.sql.database import open_database
from speed_layer.commit.maintenance import maintain_source
from speed_layer.commit.source_tables import open_source_tables

BASE = datetime(2024, 3, 1, tzinfo=UTC)
HOURS = [BASE + timedelta(hours=n) for n in range(4)]
SOURCE = Source(name="clicks", topic="clicks", fields={"n": Field(type="long")}, event_time=EventTime(expression="at"))
FACTORS = [1, 2, 3]
TILE_SCHEMA = pa.schema({"hour": TIMESTAMP, "n": pa.int64()})
FIELDS = pa.schema({"n": pa.int64()})
hours = st.sampled_from(range(len(HOURS)))
batches = st.lists(hours, min_size=1, max_size=4)


def metric(name: str, factor: int) -> Metric:
    """A metric that counts each event ``factor`` times; another factor is another declaration."""
    return Metric(
        name=name, source="clicks", dimensions={}, measures={"n": Measure(kind="sum", argument=f"n * {factor}")}
    )


def aggregation(of: Metric) -> AggregationPlan:
    return AggregationPlan(SOURCE, of, TILE_SCHEMA)


def factor(of: Metric) -> int:
    return int((of.measures["n"].argument or "")[4:])


class CrashError(Exception):
    """The process dies here."""


class Protocol(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.declare([metric("totals", 1)])
        self.layout = Layout.of(self.project)
        self.finished: list[tuple[int, int]] = []  # (sequence, hour) of every event of a finished micro-batch
        self.asleep: list[tuple[Publication, list[MetricPublication]]] = []
        self.whole = {"totals"}  # it was there from the first event on
        self.offset = 0

    def teardown(self) -> None:
        self.folder.cleanup()

    def declare(self, metrics: list[Metric]) -> None:
        root = Path(self.folder.name)
        self.project = Project(
            root=root,
            settings=Settings(),
            sources={"clicks": SOURCE},
            metrics={metric.name: metric for metric in metrics},
        )

    @initialize()
    def first_start(self) -> None:
        self.restart()

    @rule()
    def restart(self) -> None:
        """As after any death of the speed layer: nothing but the tables is left."""
        aggregations = []
        older = [t.metric for t in take_snapshot(self.project).served if t.metric not in self.project.metrics.values()]
        for declared in self.project.metrics.values():
            aggregations += [aggregation(item) for item in older if item.name == declared.name]
            aggregations.append(aggregation(declared))
        self.source_tables = open_source_tables(self.layout, SOURCE, FIELDS, aggregations)
        self.sequence = self.source_tables.first_sequence
        assert self.source_tables.progress.reading("topic-id").next_offsets.get(0, 0) == self.offset

    @rule()
    def new_metric(self) -> None:
        if "copies" not in self.project.metrics:
            self.declare([*self.project.metrics.values(), metric("copies", 1)])
            self.restart()

    @rule()
    def metric_taken_away(self) -> None:
        if "copies" in self.project.metrics:
            self.declare([self.project.metrics["totals"]])
            self.restart()

    @rule(by=st.sampled_from(FACTORS), restarted=st.booleans())
    def metric_changes(self, by: int, restarted: bool) -> None:
        """The declaration that was served goes on being served until the new one is covered."""
        if by != factor(self.project.metrics["totals"]):
            self.declare(
                [metric("totals", by), *(other for other in self.project.metrics.values() if other.name != "totals")]
            )
            self.reads_are_exact()
            if restarted:
                self.restart()

    @rule(batch=batches, shuffled=st.randoms(use_true_random=False), crash_after=st.none() | st.integers(0, 3))
    def micro_batch(self, batch: list[int], shuffled: random.Random, crash_after: int | None) -> None:
        sequence, source_tables = self.sequence, self.source_tables
        steps: list[AggregationPlan | None] = [None, *source_tables.aggregations]  # None: the archive
        shuffled.shuffle(steps)
        for number, step in enumerate(steps):
            if step is None:
                source_tables.append(source_tables.events, source_tables.events_schema, self._events(batch), sequence)
            else:
                source_tables.append(
                    source_tables.provisional[step.name],
                    source_tables.provisional_schemas[step.name],
                    tiles(batch, factor(step.metric)),
                    sequence,
                )
            self.reads_are_exact()
            if crash_after == number:
                self.restart()
                # A table that is not written any more (its metric was changed before anything was finished) has no say:
                # should it be written again, its declaration is complete_from again, above whatever it has.
                if any(done is None or done.name in self.source_tables.provisional for done in steps[: number + 1]):
                    assert self.sequence > sequence
                return
        self._commit_progress(batch, sequence)
        self.finished += [(sequence, hour) for hour in batch]
        self.offset += len(batch)
        self.sequence += 1

    @rule()
    def maintenance(self) -> None:
        """Prune, compact and vacuum all that may be: readers of the newest versions must not notice."""
        maintain_source(self.project, self.source_tables, kept_hours=0)

    @rule(
        chosen=st.sets(hours, min_size=1),
        ends=st.sampled_from(["published", "published", "killed before coverage", "asleep"]),
        blocked=st.sets(hours, max_size=2),
    )
    def recompute(self, chosen: set[int], ends: str, blocked: Set[int] = frozenset()) -> None:
        """Those of ``chosen`` that are in ``blocked`` do not pass their audit: readers keep what they had."""
        publication, staged = self._staged(chosen, blocked)
        if ends == "published":
            publication.publish(staged, QUALITY_SCHEMA.empty_table(), BASE)
        elif ends == "killed before coverage":
            with patch.object(publication, "_commit_coverage", side_effect=CrashError), suppress(CrashError):
                publication.publish(staged, QUALITY_SCHEMA.empty_table(), BASE)
        else:
            self.asleep.append((publication, staged))

    @rule()
    def a_person_accepts(self) -> None:
        """A blocked hour is published as it was audited, whatever has come or changed since."""
        for name, hour in sorted(take_snapshot(self.project).blocked)[:1]:
            with (
                patch("batch_layer.publish.measure_drift", return_value=[]),
                patch("batch_layer.accept.follow"),
            ):
                accept(self.project, self.project.metrics[name], hour, "somebody", "it is right", lambda: BASE)
            assert (name, hour) not in take_snapshot(self.project).blocked

    @rule()
    def everything_recomputed(self) -> None:
        """Then whatever is declared is promoted."""
        self.restart()
        publication, staged = self._staged(set(range(len(HOURS))))
        publication.publish(staged, QUALITY_SCHEMA.empty_table(), BASE)
        assert [tables.metric for tables in take_snapshot(self.project).served] == list(self.project.metrics.values())
        assert {state for _, state in self._states()} <= {"final"}

    def _staged(self, chosen: set[int], blocked: Set[int] = frozenset()) -> tuple[Publication, list[MetricPublication]]:
        aggregations = [aggregation(declared) for declared in self.project.metrics.values()]
        publication = Publication(self.project)
        passed = [HOURS[hour] for hour in sorted(chosen - blocked)]
        with open_database(self.project) as (database, snapshot):
            served = {tables.name for tables in snapshot.served}
            promoted = {one.name: promotes(database, one, passed, one.name in served) for one in aggregations}
        cutoff = snapshot.progress["clicks"].sequence
        hours = [HOURS[hour] for hour in sorted(chosen)]
        counted = [hour for sequence, hour in self.finished if hour in chosen and sequence <= cutoff]
        return publication, [
            MetricPublication(
                stage_metric(self.project, MetricTiles(one, hours, cutoff, tiles(counted, factor(one.metric)))),
                blocked={HOURS[hour]: "" for hour in blocked & chosen},
                promotes=promoted[one.name],
            )
            for one in aggregations
        ]

    @rule()
    def zombie_wakes(self) -> None:
        """A recompute that slept goes on: it publishes if nobody has published since, and changes nothing otherwise."""
        if self.asleep:
            publication, staged = self.asleep.pop()
            with suppress(ConflictError):
                publication.publish(staged, QUALITY_SCHEMA.empty_table(), BASE)

    @invariant()
    def reads_are_exact(self) -> None:
        everything = Counter(HOURS[hour] for _, hour in self.finished)
        if not everything:
            return
        with serving_layer.connect(self.project) as connection:
            for name in {tables.metric.name for tables in connection.snapshot.served}:
                hours = connection.sql(
                    f"SELECT hour FROM hours WHERE kind = 'metric' AND name = '{name}' AND state = 'missing'"
                ).fetchall()
                missing = {hour for (hour,) in hours}
                assert not missing or name not in self.whole
                got = dict(connection.sql(f"FROM {name} SELECT hour, n").fetchall())
                # All hours by one declaration, whichever is served.
                assert got in [
                    {hour: by * count for hour, count in everything.items() if hour not in missing} for by in FACTORS
                ]
            self._check_hours(connection, everything)

    def _check_hours(self, connection: serving_layer.Connection, everything: Counter[datetime]) -> None:
        """The hours are all from the first one with events to the clock, which stands at the last one."""
        listed = dict(connection.sql("SELECT hour, events FROM hours WHERE kind = 'source'").fetchall())
        assert listed == {hour: everything[hour] for hour in HOURS if min(everything) <= hour <= max(everything)}
        for tables in connection.snapshot.served:
            covered = connection.snapshot.coverage.of(tables.metric.name, tables.declaration).cutoffs()
            query = f"SELECT hour, state FROM hours WHERE name = '{tables.metric.name}' AND events = 0"
            for hour, state in connection.sql(query).fetchall():
                assert state in ("final" if hour in covered else "provisional", "blocked")

    def _states(self) -> set[tuple[str, str]]:
        with serving_layer.connect(self.project) as connection:
            return set(connection.sql("SELECT name, state FROM hours WHERE kind = 'metric'").fetchall())

    def _events(self, batch: list[int]) -> pa.Table:
        moments = pa.array([HOURS[hour] for hour in batch], TIMESTAMP)
        size = len(batch)
        columns = {
            "topic_id": ["topic-id"] * size,
            "topic": ["clicks"] * size,
            "partition": [0] * size,
            "offset": list(range(self.offset, self.offset + size)),
        }
        return pa.table(
            {
                **columns,
                "event_time": moments,
                "hour": moments,
                "duplicate": [False] * size,
                **{name: pa.nulls(size, EVENT_SCHEMA.field(name).type) for name in ("record", PLACE, VALUE, DECODING)},
                "n": [1] * size,
            }
        )

    def _commit_progress(self, batch: list[int], sequence: int) -> None:
        self.source_tables.finish(
            ProgressRow(
                sequence,
                "topic-id",
                "clicks",
                offsets=(OffsetsRead(0, self.offset, self.offset + len(batch) - 1),),
                counts=RecordCounts(records=len(batch), accepted=len(batch)),
                hours=tuple(HourEvents(HOURS[hour], count, late=0) for hour, count in Counter(batch).items()),
                metrics=self.source_tables.written_metrics(),
                clock=HOURS[max([*batch, *(hour for _, hour in self.finished)])],
                started=BASE,
                finished=BASE,
            )
        )


def tiles(batch: list[int], by: int) -> pa.Table:
    counts = Counter(batch)
    return pa.Table.from_pylist([{"hour": HOURS[hour], "n": by * count} for hour, count in counts.items()], TILE_SCHEMA)
