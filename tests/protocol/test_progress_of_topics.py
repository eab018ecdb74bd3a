"""Progress with several topics in a micro-batch: whoever reads it, before and after it is compacted, hears what naive
Python counts.
"""

import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import duckdb
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from hourline_core.ledger.progress import Progress
from hourline_core.ledger.progress_columns import PROGRESS_SCHEMA
from hourline_core.ledger.progress_rows import (
    HourEvents,
    OffsetsRead,
    Position,
    ProgressRow,
    RecordCounts,
    WrittenMetric,
)
from hourline_core.model import EventTime, Field, Source
from hourline_core.sql.all_progress import COUNTS_SQL, keep_all_progress
from hourline_core.sql.progress import COUNTS, last_arrivals_sql, late_sql, source_hours_sql, started_sql
from hourline_core.storage.creation import open_or_create
from hourline_core.storage.version_retention import STREAMED
from speed_layer.commit.progress_compaction import compact_progress
from tests.support.examples import examples

BASE = datetime(2024, 3, 1, tzinfo=UTC)
SOURCE = Source(
    name="clicks", topic=("a", "b", "c"), fields={"at": Field(type="timestamp")}, event_time=EventTime(expression="at")
)
METRIC = WrittenMetric("totals", "hash", 1)

# By topic, the hours of some accepted events; whether they are late; the number of rejected records.
parts = st.dictionaries(
    st.sampled_from("abc"),
    st.tuples(st.lists(st.integers(0, 4), max_size=4), st.sampled_from([False, False, False, True]), st.integers(0, 2)),
    min_size=1,
)
steps = st.lists(
    st.tuples(parts, st.integers(0, 40), st.sampled_from(["", "", "", "", "reset", "metric"])), min_size=1, max_size=14
)


def rows_of(given_steps: list[Any]) -> Iterator[list[ProgressRow]]:
    """The rows of each micro-batch, or reset."""
    clock: datetime | None = None
    offsets, moment, metrics = Counter[str](), BASE, (METRIC,)
    for sequence, (topics, minutes, what) in enumerate(given_steps, start=1):
        moment += timedelta(minutes=minutes)
        moments = [BASE + timedelta(hours=hour) for events, _, _ in topics.values() for hour in events]
        clock = max([*moments, *([clock] if clock else [])], default=None)
        if what == "metric":
            metrics = (replace(METRIC, complete_from=sequence),)
        shared = ProgressRow(
            sequence, None, None, (), RecordCounts(), (), metrics, clock, moment, moment + timedelta(seconds=1)
        )
        if what == "reset":
            yield [
                replace(shared, topic_id=f"id-{topic}", topic=topic, position=(Position(0, offsets[topic], 0),))
                for topic in sorted(topics)
            ]
            continue
        batch = []
        for topic, (events, late, rejected) in sorted(topics.items()):
            count = len(events) + rejected
            first = offsets[topic]
            offsets[topic] += count
            batch.append(
                replace(
                    shared,
                    topic_id=f"id-{topic}",
                    topic=topic,
                    offsets=(OffsetsRead(0, first, first + count - 1),) if count else (),
                    counts=RecordCounts(records=count, accepted=len(events), rejected=rejected),
                    hours=tuple(
                        HourEvents(BASE + timedelta(hours=hour), number, number if late else 0)
                        for hour, number in Counter(events).items()
                    ),
                )
            )
        yield batch


@settings(max_examples=examples(10), deadline=None)
@given(steps, st.sets(st.integers(0, 14), max_size=3))
def test_all_readers_agree_with_naive_python_before_and_after_compaction(
    given_steps: list[Any], cutoffs: set[int]
) -> None:
    batches = list(rows_of(given_steps))
    with tempfile.TemporaryDirectory() as folder:
        progress = Progress(
            open_or_create(f"{folder}/progress/clicks", {}, "progress", PROGRESS_SCHEMA, STREAMED, "of some topics")
        )
        for batch in batches:
            progress.finish(batch, {})
        rows = [row for batch in batches for row in batch]
        assert progress.rows(0, len(batches)) == rows
        assert progress.last_rows() == batches[-1]
        readings = progress.readings(["id-a", "id-b", "id-c"])
        for cutoff in {*cutoffs, len(batches)}:
            check_sql(progress, rows, cutoff)

        compact_progress(progress, BASE + timedelta(days=9), cutoffs)
        compacted = progress.rows(0, len(batches))
        assert len({(row.sequence, row.topic_id) for row in compacted}) == len(compacted)
        assert progress.readings(["id-a", "id-b", "id-c"]) == readings
        assert progress.sequences_finished(BASE + timedelta(days=9), 0) == sorted({row.sequence for row in compacted})
        assert sorted({row.sequence for row in compacted}) == ends_of_groups(batches, cutoffs)
        for row in compacted:
            shared = {
                (of.metrics, of.clock, of.started, of.finished) for of in compacted if of.sequence == row.sequence
            }
            assert len(shared) == 1
            assert shared.pop()[:2] == (batches[row.sequence - 1][0].metrics, batches[row.sequence - 1][0].clock)
        for cutoff in {*cutoffs, len(batches)}:
            assert facts(compacted, cutoff) == facts(rows, cutoff)
            check_sql(progress, compacted, cutoff)
        assert late_of(compacted) == late_of(rows)


def facts(rows: list[ProgressRow], up_to: int) -> Any:
    """By topic, the sums of counts, and the events of each hour, up to a cutoff."""
    counts: Counter[Any] = Counter()
    for row in rows:
        if row.sequence <= up_to:
            counts.update({(row.topic, name): number for name, number in vars(row.counts).items()})
            counts.update({(row.topic, of.hour): of.events for of in row.hours})
    return counts


def ends_of_groups(batches: list[list[ProgressRow]], cutoffs: set[int]) -> list[int]:
    """The last sequence of each stretch of micro-batches of one hour that nobody needs apart."""
    ends = []
    for one, later in pairwise([*batches, []]):
        rows = [*one, *later]
        if (
            not later
            or len({row.finished.replace(minute=0, second=0) for row in rows}) > 1
            or len({row.metrics for row in rows}) > 1
            or any(row.position for row in rows)
            or any(of.late for row in rows for of in row.hours)
            or one[0].sequence in cutoffs
        ):
            ends.append(one[0].sequence)
    return ends


def late_of(rows: list[ProgressRow]) -> list[Any]:
    """Each hour's late events of each micro-batch, with the clock that the source had before."""
    found: Counter[Any] = Counter()
    clocks = {row.sequence: row.clock for row in rows}
    for row in rows:
        before = [clock for sequence, clock in sorted(clocks.items()) if sequence < row.sequence and clock]
        for of in row.hours:
            if of.late:
                found[of.hour, row.sequence, row.started, before[-1] if before else None] += of.late
    return sorted((*key[:2], number, *key[2:]) for key, number in found.items())


def check_sql(progress: Progress, rows: list[ProgressRow], up_to: int) -> None:
    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'UTC'")
        database.execute("CREATE SCHEMA hourline")
        database.register("arrow_rows", progress.table.to_pyarrow_table())
        database.execute("CREATE TABLE hourline.progress_clicks AS FROM arrow_rows")
        database.execute(
            f"CREATE VIEW hourline.progress AS SELECT 'clicks' AS source, * FROM arrow_rows WHERE sequence <= {up_to}"
        )
        keep_all_progress(database)

        def table(query: str) -> pa.Table:
            return database.sql(query).to_arrow_table()

        told = [row for row in rows if row.sequence <= up_to]
        late = table(late_sql(SOURCE, up_to)).to_pylist()
        in_order = ["hour", "sequence", "events", "arrived", "clock"]
        assert sorted(tuple(row[name] for name in in_order) for row in late) == late_of(told)
        counts = next(iter(table(COUNTS_SQL).to_pylist()), dict.fromkeys(COUNTS, 0))  # at first, there is no row
        for name in COUNTS:
            assert counts[name] == sum(getattr(row.counts, name) for row in told)
        hours = {row["hour"]: row["events"] for row in table(source_hours_sql(SOURCE, up_to, BASE)).to_pylist()}
        events = Counter[datetime]()
        for row in told:
            events.update({of.hour: of.events for of in row.hours})
        assert {hour: count for hour, count in hours.items() if count} == events
        arrivals = table(last_arrivals_sql(SOURCE, up_to, up_to + 1)).to_pylist()
        newest = {of.hour: row.sequence for row in told for of in row.hours}
        assert {row["hour"]: row["last"] for row in arrivals} == (newest if up_to else {})
        started = table(started_sql(SOURCE)).to_pylist()
        assert sorted((row["until"], row["started"]) for row in started) == sorted(
            {(row.sequence, row.started) for row in rows}
        )
