"""The protocol on real Delta tables and DuckDB, without Kafka and Spark: whatever runs, crashes or sleeps in between, each read is exact.

A Hypothesis state machine drives the product's own commits (ledger, publication, snapshot, merge); the oracle counts plain Python lists.
"""

import tempfile
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import serving_layer
from batch_layer.publish import Publication, Staged
from hourline.declarations import EventTime, Field, Measure, Metric, Project, Settings, Source
from hourline.errors import ConflictError
from hourline.layout import PROGRESS_SCHEMA, TIMESTAMP, Layout
from hourline.tiling import Tiling
from speed_layer.ledger import open_ledger
from speed_layer.upkeep import keep_up

BASE = datetime(2024, 3, 1, tzinfo=UTC)
HOURS = [BASE + timedelta(hours=n) for n in range(4)]
SOURCE = Source(name="clicks", topic="clicks", fields={"n": Field(type="long")}, event_time=EventTime(expression="at"))
METRICS = [Metric(name=name, source="clicks", dimensions={}, measures={"n": Measure(kind="sum", argument="n")}) for name in ("totals", "copies")]
TILE_SCHEMA = pa.schema({"hour": TIMESTAMP, "n": pa.int64()})
FIELDS = pa.schema({"n": pa.int64()})
hours = st.sampled_from(range(len(HOURS)))
batches = st.lists(hours, min_size=1, max_size=4)


class CrashError(Exception):
    """The process dies here."""


class Protocol(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.project = Project(
            root=Path(self.folder.name), settings=Settings(), sources={"clicks": SOURCE}, metrics={metric.name: metric for metric in METRICS}
        )
        self.layout = Layout.of(self.project)
        self.tilings: list[Tiling] = []
        self.finished: list[tuple[int, int]] = []  # (sequence, hour) of every event of a finished micro-batch
        self.asleep: list[tuple[Publication, list[Staged]]] = []
        self.whole = {"totals"}  # it was there from the first event on
        self.offset = 0

    def teardown(self) -> None:
        self.folder.cleanup()

    @initialize()
    def first_start(self) -> None:
        self.tilings = [Tiling(SOURCE, METRICS[0], {"n": "sum(n)"}, TILE_SCHEMA)]
        self.restart()

    @rule()
    def restart(self) -> None:
        """As after any death of the speed layer: nothing but the tables is left."""
        self.ledger = open_ledger(self.layout, SOURCE, FIELDS, self.tilings, "topic-id")
        self.sequence = self.ledger.first_sequence
        assert self.ledger.reading.next_offsets.get(0, 0) == self.offset

    @rule()
    def new_metric(self) -> None:
        if len(self.tilings) == 1:
            self.tilings = [*self.tilings, Tiling(SOURCE, METRICS[1], {"n": "sum(n)"}, TILE_SCHEMA)]
            self.restart()

    @rule()
    def metric_taken_away(self) -> None:
        if len(self.tilings) == 2:
            self.tilings = self.tilings[:1]
            self.restart()

    @rule(batch=batches, order=st.permutations(["events", "totals", "copies"]), crash_after=st.none() | st.integers(0, 2))
    def micro_batch(self, batch: list[int], order: list[str], crash_after: int | None) -> None:
        sequence = self.sequence
        for step, name in enumerate(order):
            if name == "events":
                self.ledger.append(self.ledger.events, self.ledger.events_schema, self._events(batch), sequence)
            elif name in self.ledger.provisional:
                self.ledger.append(self.ledger.provisional[name], self.ledger.provisional_schemas[name], tiles(batch), sequence)
            self.reads_are_exact()
            if crash_after == step:
                self.restart()
                assert self.sequence > sequence or set(order[: step + 1]).isdisjoint(["events", *self.ledger.provisional])
                return
        self._commit_progress(batch, sequence)
        self.finished += [(sequence, hour) for hour in batch]
        self.offset += len(batch)
        self.sequence += 1

    @rule()
    def upkeep(self) -> None:
        """Prune, compact and vacuum all that may be: readers of the newest versions must not notice."""
        keep_up(self.project, self.ledger, kept_hours=0)

    @rule(chosen=st.sets(hours, min_size=1), ends=st.sampled_from(["published", "published", "killed before coverage", "asleep"]))
    def recompute(self, chosen: set[int], ends: str) -> None:
        publication = Publication(self.project, self.tilings)
        cut = max((sequence for sequence, _ in self.finished), default=0)
        counted = tiles([hour for _, hour in self.finished if hour in chosen])
        staged = [publication.stage(tiling, counted, [HOURS[hour] for hour in sorted(chosen)], cut) for tiling in self.tilings]
        if ends == "published":
            publication.publish(staged, BASE)
        elif ends == "killed before coverage":
            with patch.object(publication, "_commit_coverage", side_effect=CrashError), suppress(CrashError):
                publication.publish(staged, BASE)
        else:
            self.asleep.append((publication, staged))

    @rule()
    def zombie_wakes(self) -> None:
        """A recompute that slept goes on: it publishes if nobody has published since, and changes nothing otherwise."""
        if self.asleep:
            publication, staged = self.asleep.pop()
            with suppress(ConflictError):
                publication.publish(staged, BASE)

    @invariant()
    def reads_are_exact(self) -> None:
        with serving_layer.connect(self.project) as connection:
            known = {tiling.metric.name for tiling in self.tilings}
            states = {
                (name, hour): state for name, hour, state in connection.sql("SELECT name, hour, state FROM hours WHERE kind = 'metric'").fetchall()
            }
            everything = Counter(HOURS[hour] for _, hour in self.finished)
            for metric in METRICS:
                if metric.name not in {name for name, _ in states} and metric.name not in known:
                    continue
                got = dict(connection.sql(f"SELECT hour, n FROM {metric.name}").fetchall()) if self._has_table(metric.name) else {}
                missing = {hour for (name, hour), state in states.items() if name == metric.name and state == "missing"}
                assert got == {hour: count for hour, count in everything.items() if hour not in missing}, metric.name
                assert not missing or metric.name not in self.whole

    def _has_table(self, metric: str) -> bool:
        return Path(self.layout.provisional(SOURCE, self.project.metrics[metric])).exists()

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
                "n": [1] * size,
            }
        )

    def _commit_progress(self, batch: list[int], sequence: int) -> None:
        counts = Counter(batch)
        row = {
            "topic_id": "topic-id",
            "topic": "clicks",
            "offsets": [{"partition": 0, "first": self.offset, "last": self.offset + len(batch) - 1}],
            "records": len(batch),
            "accepted": len(batch),
            "rejected": 0,
            "duplicates": 0,
            "tombstones": 0,
            "hours": [{"hour": HOURS[hour], "events": count, "late": 0} for hour, count in counts.items()],
            "metrics": self.ledger.metrics_row(),
            "clock": HOURS[max(batch)],
            "started": BASE,
            "finished": BASE,
        }
        rows = pa.Table.from_pylist([row], pa.schema([column for column in PROGRESS_SCHEMA if column.name != "sequence"]))
        self.ledger.append(self.ledger.progress, PROGRESS_SCHEMA, rows, sequence)


def tiles(batch: list[int]) -> pa.Table:
    counts = Counter(batch)
    return pa.Table.from_pylist([{"hour": HOURS[hour], "n": count} for hour, count in counts.items()], TILE_SCHEMA)


TestProtocol = Protocol.TestCase
TestProtocol.settings = settings(max_examples=12, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck))
