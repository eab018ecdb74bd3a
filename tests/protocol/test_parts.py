"""What the tasks of a micro-batch tell the driver: however their records are cut into chunks and tasks, all of them
together tell what a naive pass over the records finds, and no record itself.
"""

import pickle
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

from hourline import Project, load_project
from hourline_core.compute.aggregation import AggregationPlan
from hourline_core.compute.projection import ProjectedMetric
from hourline_core.compute.tasks import tell, told_by
from hourline_core.faults import explain_fault
from hourline_core.ledger.last_records import checksum_of
from hourline_core.ledger.layout import EVENT_SCHEMA, TIMESTAMP
from hourline_core.ledger.source_clock import SourceClock
from hourline_core.machine import Surroundings
from hourline_core.model import scratch_columns as columns
from speed_layer.intake import tasks
from speed_layer.intake.part import Assignment, IntakePlan, Part, from_bytes, sum_of, to_bytes
from speed_layer.recovery.counted_records import CountedRecords
from tests.support.examples import examples
from tests.support.project_files import write_project

BASE = datetime(2024, 3, 1, tzinfo=UTC)
FILES = {
    "hourline.yaml": "name: site\n",
    "sources/visits.yaml": "topic: visits\nfields: {x: long, at: timestamp}\nid: x\nevent_time: at\n",
    "metrics/counts.yaml": "source: visits\nmeasures: {n: count, total: sum(x)}\n",
}
ROWS = pa.schema(
    {
        columns.TOPIC: pa.string(),
        columns.PARTITION: pa.int32(),
        columns.OFFSET: pa.int64(),
        columns.PLACE: pa.int32(),
        columns.EVENT_TIME: TIMESTAMP,
        columns.HOUR: TIMESTAMP,
        columns.OUTCOME: pa.string(),
        columns.REASON: pa.string(),
        columns.ID: pa.int64(),
        columns.ARRIVED: TIMESTAMP,
        columns.KEY: pa.binary(),
        columns.HEADERS: pa.map_(pa.string(), pa.binary()),
        columns.RECORD_TIMESTAMP: TIMESTAMP,
        columns.RECORD_TIMESTAMP_TYPE: pa.string(),
        columns.VALUE: pa.binary(),
        columns.VALUE_CRC: pa.int64(),
        columns.VALUE_SIZE: pa.int32(),
        "x": pa.int64(),
        "at": TIMESTAMP,
    }
)


class Made(NamedTuple):
    """What became of one event: its hour (None: it is rejected), and x, which is also its id."""

    hour: int | None
    x: int


Record = list[Made] | str
"""The events of a record, or the outcome of one without."""

MADE = st.builds(Made, hour=st.one_of(st.none(), st.integers(0, 2)), x=st.integers(0, 5))
RECORD = st.one_of(
    st.lists(MADE, min_size=1, max_size=4), st.sampled_from(["tombstone", "empty", "not_taken", "taken_by_none"])
)
PARTITIONS = st.dictionaries(st.integers(0, 2), st.lists(RECORD, min_size=1, max_size=8), max_size=3)


def rows_of(partition: int, records: Sequence[Record]) -> list[dict[str, Any]]:
    """The evaluated rows of the records of one partition. The offsets are even: others have no record."""
    rows = []
    for number, record in enumerate(records):
        events = [None] if isinstance(record, str) else record
        for place, event in enumerate(events):
            accepted = event is not None and event.hour is not None
            time = BASE + timedelta(hours=event.hour, minutes=event.x) if event and event.hour is not None else None
            rows.append(
                {
                    columns.TOPIC: "visits",
                    columns.PARTITION: partition,
                    columns.OFFSET: 2 * number,
                    columns.PLACE: place,
                    columns.OUTCOME: record if isinstance(record, str) else "accepted" if accepted else "rejected",
                    columns.REASON: "x" if event and not accepted else None,
                    columns.EVENT_TIME: time,
                    columns.HOUR: time and time.replace(minute=0),
                    columns.ID: event.x if event and accepted else None,
                    columns.ARRIVED: BASE,
                    columns.VALUE: None if record == "tombstone" else b"v",
                    columns.VALUE_SIZE: None if record == "tombstone" else 1 + number,
                    columns.VALUE_CRC: number,
                    "x": event.x if event and accepted else None,
                    "at": time,
                }
            )
    return rows


def address(row: dict[str, Any]) -> tuple[str, int, int, int]:
    return "id", row[columns.PARTITION], row[columns.OFFSET], row[columns.PLACE]


def plan_of(project: Project, folder: Path) -> bytes:
    source = project.sources["visits"]
    states = {"hour": TIMESTAMP, "n": pa.int64(), "total": pa.int64()}
    aggregation = AggregationPlan(source, project.metrics["counts"], pa.schema(states))
    metric = ProjectedMetric(aggregation, (), {}, {"n": (), "total": ("x",)})
    for kind in ("events", "rejected", "quarantine"):
        (folder / kind).mkdir()
    events, rejected, quarantine = (str(folder / kind) for kind in ("events", "rejected", "quarantine"))
    schema = pa.schema([*EVENT_SCHEMA, pa.field("x", pa.int64()), pa.field("at", TIMESTAMP)])
    return pickle.dumps(
        IntakePlan(source, {"counts": metric}, events, rejected, quarantine, {}, schema, {}, "decoding")
    )


@settings(max_examples=examples(60), deadline=None)
@given(PARTITIONS, st.integers(1, 3), st.integers(1, 7), st.sets(st.tuples(st.integers(0, 2), st.integers(0, 7))))
def test_chunks_and_tasks_tell_what_a_naive_pass_finds(
    log: dict[int, list[Record]], rows_in_batch: int, rows_in_chunk: int, repeated: set[tuple[int, int]]
) -> None:
    rows = [row for of, records in log.items() for row in rows_of(of, records)]
    accepted = {address(row) for row in rows if row[columns.OUTCOME] == "accepted"}
    duplicates = frozenset(("id", of, 2 * number, 0) for of, number in repeated) & accepted
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "project").mkdir()
        project = load_project(write_project(folder / "project", FILES))
        plan, assignment = (
            plan_of(project, folder),
            Assignment(7, {"visits": "id"}, SourceClock(), BASE, duplicates=duplicates),
        )
        parts = []
        with patch.object(tasks, "_ROWS_OF_CHUNK", rows_in_chunk):
            for of, records in log.items():
                batches = pa.Table.from_pylist(rows_of(of, records), ROWS).to_batches(max_chunksize=rows_in_batch)
                parts.append(from_bytes(to_bytes(tasks.build_part(plan, assignment, batches))))
        check(sum_of(parts), log, duplicates, folder)


@settings(max_examples=examples(20), deadline=None)
@given(PARTITIONS, st.integers(1, 8))
def test_an_imported_file_that_several_tasks_read_has_one_span_of_offsets(
    log: dict[int, list[Record]], records_of_task: int
) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "project").mkdir()
        plan = plan_of(load_project(write_project(folder / "project", FILES)), folder)
        assignment = Assignment(7, {"visits": "id"}, SourceClock(), BASE, history=True)
        parts = []
        for of, records in log.items():
            rows = rows_of(of, records)
            for first in range(0, 2 * len(records), 2 * records_of_task):
                some = [row for row in rows if first <= row[columns.OFFSET] < first + 2 * records_of_task]
                parts.append(tasks.build_part(plan, assignment, pa.Table.from_pylist(some, ROWS).to_batches()))
        part = sum_of(reversed(parts))
        assert part.offsets == {("id", of): (0, 2 * len(records) - 2) for of, records in log.items()}
        assert part.records == sum(map(len, log.values()))
        assert (part.last_records, part.clocks) == ({}, {})


def check(
    part: Part, log: dict[int, list[Record]], duplicates: frozenset[tuple[str, int, int, int]], folder: Path
) -> None:
    rows = [row for of, records in log.items() for row in rows_of(of, records)]
    accepted = [row for row in rows if row[columns.OUTCOME] == "accepted"]
    counting = [row for row in accepted if address(row) not in duplicates]
    outcomes = Counter(row[columns.OUTCOME] for row in rows)
    assert (part.records, part.rows) == (sum(map(len, log.values())), len(rows))
    of_records = [enumerate(records, 1) for records in log.values()]
    assert part.size == sum(size for records in of_records for size, record in records if record != "tombstone")
    counts = part.counts()
    assert counts.accepted == len(counting)
    assert counts.duplicates == sum(address(row) in duplicates for row in rows)
    assert (counts.rejected, counts.tombstones, counts.empty) == tuple(
        outcomes[name] for name in ("rejected", "tombstone", "empty")
    )
    assert counts.records + counts.exploded == len(rows)
    assert part.not_taken == outcomes["not_taken"] + outcomes["taken_by_none"]
    hours = part.topics["id"].hours if rows else Counter()
    assert hours == Counter(row[columns.HOUR] for row in counting)
    assert part.offsets == {("id", of): (0, 2 * len(records) - 2) for of, records in log.items()}
    assert {of: (last.offset, last.checksum) for of, last in part.last_records.items()} == {
        ("id", of): (2 * len(records) - 2, checksum_of(None, len(records) - 1, {})) for of, records in log.items()
    }
    told = pa.concat_tables(part.ids).to_pylist() if part.ids else []
    hash_of = {(row[columns.TOPIC_ID], *address(row)[1:]): row[columns.ID_HASH] for row in told}
    assert {address(row): hash_of[address(row)] for row in accepted} == hash_of
    ids = {address(row): (row["x"], row[columns.HOUR]) for row in accepted}
    assert len(set(hash_of.values())) == len(set(ids.values())) == len({(hash_of[at], ids[at]) for at in ids})
    totals: Counter[datetime] = Counter()
    for tiles in part.tiles.get("counts", []):
        for tile in tiles.to_pylist():
            totals[tile["hour"]] += tile["total"]
    assert +totals == +Counter({hour: sum(row["x"] for row in counting if row[columns.HOUR] == hour) for hour in hours})
    files = [(file.path, file.rows) for file in part.events]
    archived = [row for path, _ in files for row in pq.read_table(folder / "events" / path).to_pylist()]
    assert sum(size for _, size in files) == len(archived)
    assert sorted(
        (row["partition"], row["offset"], row[columns.PLACE], row["duplicate"]) for row in archived
    ) == sorted((*address(row)[1:], address(row) in duplicates) for row in accepted)
    assert {row["sequence"] for row in archived} <= {7}
    clocks = {of: clock.clock for (_, of), clock in part.clocks.items()}
    taken = {of for of, records in log.items() if any(record not in columns.NOT_TAKEN_OUTCOMES for record in records)}
    assert clocks.keys() == taken


def test_what_is_told_does_not_grow_with_the_records(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    files = {**FILES, "sources/visits.yaml": FILES["sources/visits.yaml"].replace("id: x\n", "")}
    plan = plan_of(load_project(write_project(tmp_path / "project", files)), tmp_path)
    sizes = []
    for number in (1_000, 10_000, 100_000):
        rows = rows_of(0, [[Made(0, 1)]] * 1_000)
        table = pa.concat_tables([pa.Table.from_pylist(rows, ROWS)] * (number // 1_000))
        offsets = pa.array(range(number), pa.int64())
        table = table.set_column(table.column_names.index(columns.OFFSET), columns.OFFSET, offsets)
        part = tasks.build_part(plan, Assignment(1, {"visits": "id"}, SourceClock(), BASE), table.to_batches(5_000))
        assert part.records == number
        sizes.append(len(to_bytes(part)))
    assert all(abs(one - other) < 100 for one, other in pairwise(sizes)), sizes


def test_an_event_with_an_id_is_told_by_its_hash_and_little_more(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    plan = plan_of(load_project(write_project(tmp_path / "project", FILES)), tmp_path)
    sizes = []
    for number in (10_000, 50_000):
        table = pa.Table.from_pylist(rows_of(0, [[Made(x % 3, x)] for x in range(number)]), ROWS)
        part = tasks.build_part(plan, Assignment(1, {"visits": "id"}, SourceClock(), BASE), table.to_batches(5_000))
        told = to_bytes(part)
        assert from_bytes(told).ids == part.ids
        sizes.append(len(told))
    assert 8 < (sizes[1] - sizes[0]) / 40_000 < 14


def test_what_tasks_tell_in_several_rows_is_told_whole_and_in_order() -> None:
    told = [bytes(range(256)), b"", b"short"]
    with patch("hourline_core.compute.tasks._BYTES", 10):
        rows = [list(tell(lambda _, one=one: one, [])) for one in told]  # type: ignore[misc]
    assert len(rows[0]) > 20
    assert told_by(pa.Table.from_batches([row for task in rows for row in task])) == told


def test_what_ends_a_task_ends_the_micro_batch_with_the_same_error() -> None:
    cause = OSError(28, "No space left on device")

    def work(batches: Iterable[pa.RecordBatch]) -> bytes:
        raise cause

    try:
        told_by(pa.Table.from_batches(tell(work, [])))
    except OSError as error:
        assert (error.errno, str(error)) == (28, str(cause))
    else:
        raise AssertionError("no error")


def test_a_fault_in_a_task_is_told_with_the_line_of_the_task() -> None:
    work = partial(tasks._work, b"no plan", Assignment(1, {}, SourceClock(), BASE))
    try:
        told_by(pa.Table.from_batches(tell(work, [])))
    except pickle.UnpicklingError as error:
        assert "(speed_layer/intake/tasks.py:" in str(explain_fault(error, Surroundings()))
    else:
        raise AssertionError("no error")


def test_records_that_counted_before_do_not_move_the_clock_of_their_partition(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    plan = plan_of(load_project(write_project(tmp_path / "project", FILES)), tmp_path)
    offsets = np.arange(0, 10, 2)
    table = pa.Table.from_pylist(rows_of(0, [[Made(0, x)] for x in range(5)]), ROWS)
    for known, clock in (
        (CountedRecords(), True),
        (CountedRecords({("id", 0): [(0, 10)]}, {("id", 0): offsets}), False),
    ):
        assignment = Assignment(1, {"visits": "id"}, SourceClock(), BASE, counted=known)
        part = tasks.build_part(plan, assignment, table.to_batches())
        assert (part.already_counted, bool(part.events), bool(part.clocks["id", 0].clock)) == (
            0 if clock else 5,
            clock,
            clock,
        )
