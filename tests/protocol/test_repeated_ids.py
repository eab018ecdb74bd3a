"""Ids that come again: in a record, in another task, or in a later micro-batch. Of each id of an hour, the first event
counts. The tasks that have found a duplicate run twice, and only the files of the second run are in the tables.
"""

import pickle
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Any, cast
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame

from hourline import load_project
from hourline_core.compute.aggregation import AggregationPlan
from hourline_core.compute.projection import ProjectedMetric
from hourline_core.ledger.layout import TIMESTAMP, Layout
from hourline_core.model import scratch_columns as columns
from speed_layer.commit.committer import Committer
from speed_layer.commit.offset_order import OffsetOrder, OffsetsReached
from speed_layer.commit.source_tables import SourceTables, open_source_tables
from speed_layer.intake.deduplication import Deduplicator
from speed_layer.intake.micro_batch_size import MicroBatchSize, TaskBounds
from speed_layer.intake.part import Assignment, IntakePlan, Part
from speed_layer.intake.read_micro_batch import MicroBatchReader
from speed_layer.intake.tasks import Tasks, build_part
from speed_layer.kafka.record_origin import Origin
from speed_layer.recovery.reprocessing import Reprocessing
from tests.protocol.test_parts import BASE, FILES, ROWS, Made, Record, rows_of
from tests.support.examples import examples
from tests.support.project_files import write_project

PARTITIONS = 2
RECORDS = st.lists(
    st.lists(st.builds(Made, hour=st.integers(0, 1), x=st.integers(0, 4)), min_size=1, max_size=3),
    min_size=1,
    max_size=3,
)
MICRO_BATCHES = st.lists(st.lists(RECORDS, min_size=PARTITIONS, max_size=PARTITIONS), min_size=1, max_size=3)


class TaskOfEachPartition:
    """Runs one task for each partition, in this process."""

    def __init__(self, plan: IntakePlan) -> None:
        self.plan = plan
        self.pickled = pickle.dumps(plan)

    def run(self, evaluated: Sequence[pa.Table], assignment: Assignment, bounds: TaskBounds) -> list[Part]:
        return [build_part(self.pickled, assignment, of.to_batches(max_chunksize=2)) for of in evaluated]


def start(folder: Path) -> tuple[SourceTables, MicroBatchReader, Committer]:
    project = load_project(write_project(folder, FILES))
    source, layout = project.sources["visits"], Layout.of(project)
    states = pa.schema({"hour": TIMESTAMP, "n": pa.int64(), "total": pa.int64()})
    aggregation = AggregationPlan(source, project.metrics["counts"], states)
    fields = pa.schema({"x": pa.int64(), "at": TIMESTAMP})
    tables = open_source_tables(layout, source, fields, [aggregation])
    plan = IntakePlan(
        source,
        {aggregation.name: ProjectedMetric(aggregation, (), {}, {"n": (), "total": ("x",)})},
        layout.events(source),
        layout.rejected(source),
        layout.quarantine(source),
        {},
        tables.events_schema,
        tables.stored_names,
        tables.decoding.hash,
    )
    reader = MicroBatchReader(
        tables,
        Deduplicator(timedelta(days=1), 1 << 20, Path(gettempdir())),
        Reprocessing(tables.progress, tables.events, tables.rejected, ["id"], list, []),
        cast(Tasks, TaskOfEachPartition(plan)),
        OffsetsReached({}),
        MicroBatchSize(100, 1 << 20),
        lambda: BASE,
    )
    return tables, reader, Committer(tables, plan.metrics, OffsetOrder({}), lambda: BASE)


@settings(max_examples=examples(10), deadline=None)
@given(MICRO_BATCHES)
def test_the_first_event_of_an_id_counts_whatever_task_it_is_in(log: list[list[list[Record]]]) -> None:
    seen: set[tuple[datetime, int]] = set()
    counted: Counter[datetime] = Counter()
    archived = []
    with TemporaryDirectory() as name:
        tables, reader, committer = start(Path(name))
        for number, of_partitions in enumerate(log):
            read, ends = [], {}
            duplicates = 0
            for partition, records in enumerate(of_partitions):
                rows = rows_of(partition, records)
                for row in rows:
                    row[columns.OFFSET] += 100 * number
                    event = row[columns.HOUR], row["x"]
                    archived.append((number + 1, partition, row[columns.OFFSET], row[columns.PLACE], event in seen))
                    duplicates += event in seen
                    counted[event[0]] += event not in seen
                    seen.add(event)
                read.append(pa.Table.from_pylist(rows, ROWS))
                ends["visits", partition] = 100 * (number + 1)
            found = reader.read(cast(DataFrame, read), Origin({"visits": "id"}), ends, number + 1)
            assert found
            assert committer.commit(found).duplicates == duplicates
        names = ["sequence", "partition", "offset", columns.PLACE, "duplicate"]
        kept = tables.events.to_pyarrow_table(columns=names)
        assert sorted(zip(*(kept[column].to_pylist() for column in names), strict=True)) == archived
        files = {file.name for file in Path(unquote(urlsplit(tables.events.table_uri).path)).glob("*.parquet")}
        assert files == {Path(uri).name for uri in tables.events.file_uris()}, "no task has left a file"
        totals: Counter[datetime] = Counter()
        (provisional,) = tables.provisional.values()
        for tile in provisional.to_pyarrow_table().to_pylist():
            totals[tile["hour"]] += tile["n"]
        assert +totals == +counted


class CompactedTask(TaskOfEachPartition):
    """Kafka compacts the first record away once the tasks have read it."""

    def __init__(self, plan: IntakePlan) -> None:
        super().__init__(plan)
        self.runs = 0

    def run(self, evaluated: Sequence[pa.Table], assignment: Assignment, bounds: TaskBounds) -> list[Part]:
        self.runs += 1
        return super().run([of.slice(0 if self.runs == 1 else 1) for of in evaluated], assignment, bounds)


def test_an_id_whose_first_event_is_compacted_away_while_it_is_read_counts_once(tmp_path: Path) -> None:
    tables, reader, committer = start(tmp_path)
    reader.tasks = tasks = cast(Any, CompactedTask(reader.tasks.plan))
    rows = pa.Table.from_pylist(rows_of(0, [[Made(0, 1)], [Made(0, 1)], [Made(0, 1)]]), ROWS)
    read = reader.read(cast(DataFrame, [rows]), Origin({"visits": "id"}), {("visits", 0): 5}, 1)
    assert read
    finished = committer.commit(read)
    assert (finished.accepted, finished.duplicates, tasks.runs) == (1, 1, 3)
    (provisional,) = tables.provisional.values()
    assert [tile["n"] for tile in provisional.to_pyarrow_table().to_pylist()] == [1]
