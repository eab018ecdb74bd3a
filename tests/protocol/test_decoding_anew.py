"""Decoding anew, chunk by chunk, killed anywhere: the table has each record once, as plain Python decodes it."""

import json
import pickle
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, NamedTuple, cast
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from batch_layer.decoding import chunks, decode_anew, tasks
from batch_layer.decoding.to_decode import decoded_up_to
from hourline import load_project
from hourline_core.compute.tasks import Work, tell, told_by
from hourline_core.errors import ConflictError, TableError
from hourline_core.formats.arrow_types import arrow_type
from hourline_core.ledger.layout import FROM_HOUR, NO_EVENT_REASON, Layout
from hourline_core.ledger.progress_rows import OffsetsRead, ProgressRow
from hourline_core.ledger.source_clock import SourceClock
from hourline_core.model import scratch_columns as columns
from hourline_core.model.decoding import decoding_of
from hourline_core.runtime import failpoints
from hourline_core.storage import file_slices
from hourline_core.storage.opening import open_table
from hourline_core.storage.vacuum import list_vacuumable
from hourline_core.validation.validator import Validator
from speed_layer.commit.source_tables import SourceTables, open_source_tables
from speed_layer.intake.part import Assignment, IntakePlan
from speed_layer.intake.tasks import build_part
from tests.support.examples import examples
from tests.support.project_files import write_project
from tests.support.validated_sources import RECORDS

BASE = datetime(2024, 3, 1, tzinfo=UTC)
METRIC = "source: visits\nmeasures: {n: count}\n"
TIMES = "at: timestamp, sent: timestamp"
DECLARED = {
    "numbers": f"fields: {{{TIMES}, x: long}}\nevent_time: at",
    "sent": f"fields: {{{TIMES}, x: long}}\nevent_time: sent",
    "texts": f"fields: {{{TIMES}, x: string}}\nevent_time: at",
    "required": f"fields: {{{TIMES}, x: {{type: long, required: true}}}}\nevent_time: at",
    "not_kept": f"fields: {{{TIMES}, x: double}}\nevent_time: at\nraw: false",
}
DECLARATIONS = st.sampled_from(list(DECLARED))
PLACES = [f"{side} {step} decoded" for step in ("write", "append", "create") for side in ("before", "after")]


@pytest.fixture(autouse=True, scope="module")
def two_tasks() -> Iterator[None]:
    """Small archives are divided between two tasks, too."""
    with patch.object(tasks, "_ROWS_OF_TASK", 3):
        yield


class KilledError(Exception):
    """The process ends here."""


class LostError(Exception):
    """A task ends here, and Spark runs it again."""


class Sent(NamedTuple):
    """A record: the hours of its two times, and its x, which is not always a number."""

    at: int
    sent: int
    x: int | str | None

    def value(self) -> bytes:
        return json.dumps({"at": f"{hour(self.at):%FT%TZ}", "sent": f"{hour(self.sent):%FT%TZ}", "x": self.x}).encode()

    def made_by(self, declared: str) -> datetime | None:
        """The hour of the event that it is, by a declaration. None: it is rejected."""
        wanted = {"texts": str, "required": int}.get(declared, int | None)
        is_event = isinstance(self.x, wanted) or (declared == "texts" and self.x is None)
        return hour(self.sent if declared == "sent" else self.at) if is_event else None


RECORDS_SENT = st.lists(
    st.builds(Sent, st.integers(0, 3), st.integers(0, 3), st.sampled_from([1, 2, "1", "x", None])),
    min_size=1,
    max_size=6,
)


def hour(number: int) -> datetime:
    return BASE + timedelta(hours=number)


class Archive:
    """The archive of one source, whose declaration changes. Its micro-batches are those of the speed layer."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sent: list[tuple[str, int, Sent]] = []
        """The declaration and the sequence by which each record was archived, by offset."""
        (folder / "project").mkdir()

    def declare(self, declared: str) -> None:
        self.declared = declared
        files = {
            "hourline.yaml": "name: site\n",
            "sources/visits.yaml": f"topic: visits\n{DECLARED[declared]}\n",
            "metrics/counts.yaml": METRIC,
        }
        self.project = load_project(write_project(self.folder / "project", files))
        self.source = self.project.sources["visits"]
        self.layout = Layout.of(self.project)

    def micro_batch(self, sequence: int, records: Sequence[Sent]) -> None:
        fields = pa.schema({name: arrow_type(field.tree) for name, field in self.source.fields.items()})
        tables = open_source_tables(self.layout, self.source, fields, [])
        first = len(self.sent)
        rows = [
            {
                columns.VALUE: record.value(),
                columns.KEY: b"key",
                columns.HEADERS: [("a", b"1")],
                columns.RECORD_TIMESTAMP: BASE,
                columns.RECORD_TIMESTAMP_TYPE: "create",
                columns.TOPIC: "visits",
                columns.PARTITION: 0,
                columns.OFFSET: first + number,
                columns.ARRIVED: BASE + timedelta(days=1),
            }
            for number, record in enumerate(records)
        ]
        validated = Validator(self.source).validate(pa.Table.from_pylist(rows, RECORDS))
        validated = validated.append_column(columns.VALUE_CRC, pa.nulls(len(rows), pa.int64()))
        sizes = pa.array([len(record.value()) for record in records], pa.int32())
        validated = validated.append_column(columns.VALUE_SIZE, sizes)
        plan = pickle.dumps(_intake_plan(self.layout, tables))
        part = build_part(plan, Assignment(sequence, {"visits": "id"}, SourceClock(), BASE), validated.to_batches())
        for table, files in ((tables.events, part.events), (tables.rejected, part.rejected)):
            tables.append_files(table, files, sequence)
        read = (OffsetsRead(0, first, first + len(records) - 1),)
        tables.finish(ProgressRow(sequence, "id", "visits", read, part.counts(), (), (), BASE, BASE, BASE))
        self.sent += [(self.declared, sequence, record) for record in records]

    def decode(self, up_to: int, killed: str | None = None) -> bool:
        """Decode anew. Returns whether it was killed at this place."""
        with patch.object(failpoints, "visit", _raiser(killed, KilledError)), patch.object(tasks, "run_tasks", run):
            try:
                decode_anew.decode_anew(spark, self.project, self.source, up_to)
            except KilledError:
                return True
        return False

    def decoded(self) -> list[dict[str, Any]]:
        uri = self.layout.decoded(self.source, decoding_of(self.source).hash)
        return cast(list[dict[str, Any]], open_table(uri, {}).to_pyarrow_table().to_pylist())

    def check(self, up_to: int) -> None:
        """Each record that another declaration has decoded is there once, if it is an event or was one."""
        wanted: Counter[tuple[Any, ...]] = Counter()
        for offset, (then, sequence, record) in enumerate(self.sent):
            was, now = record.made_by(then), record.made_by(self.declared)
            stands = then == self.declared or (then == "not_kept" and was is not None)
            if sequence <= up_to and not stands and (was or now):
                wanted[sequence, offset, was, now, record.x if now else None] += 1
        if not wanted and len({then for then, _, _ in self.sent} - {self.declared}) == 0:
            return
        rows = self.decoded()
        assert wanted == Counter(
            (row["sequence"], row["offset"], row[FROM_HOUR], row["hour"], row["x"]) for row in rows
        )
        for row in rows:
            assert (row[NO_EVENT_REASON] is None) == (row["hour"] is not None), row
            assert row["record"]["key"] == b"key"
            assert not row["duplicate"]
        assert decoded_up_to(self.layout, self.source, decoding_of(self.source)) <= up_to


def _intake_plan(layout: Layout, tables: SourceTables) -> IntakePlan:
    source = tables.source
    places = (layout.events(source), layout.rejected(source), layout.quarantine(source))
    return IntakePlan(source, {}, *places, {}, tables.events_schema, tables.stored_names, tables.decoding.hash)


def _raiser(place: str | None, error: type[Exception]) -> Any:
    def visit(visited: str) -> None:
        if visited == place:
            raise error

    return visit


def spark() -> SparkSession:
    """Stands for a Spark with two cores."""

    def make_range(start: int, end: int, step: int, partitions: int) -> SimpleNamespace:
        assert (start, end, step) == (0, partitions, 1)
        return SimpleNamespace(tasks=partitions)

    return cast(SparkSession, SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=2), range=make_range))


def run(rows: SimpleNamespace, work: Work) -> list[bytes]:
    """Runs the tasks in this process. One that is lost is run again."""
    told: list[bytes] = []
    for number in range(rows.tasks):
        batches = [pa.record_batch({"id": pa.array([number])})]
        try:
            told += told_by(pa.Table.from_batches(tell(work, batches)))
        except LostError:
            with patch.object(failpoints, "visit", lambda place: None):
                told += told_by(pa.Table.from_batches(tell(work, batches)))
    return told


@settings(max_examples=examples(15), deadline=None)
@given(
    st.lists(st.tuples(DECLARATIONS, RECORDS_SENT), min_size=1, max_size=5),
    DECLARATIONS,
    st.lists(st.sampled_from([None, *PLACES]), max_size=3),
    st.integers(1, 8),
)
def test_each_record_is_decoded_anew_once(
    batches: list[tuple[str, list[Sent]]], now: str, killed: list[str | None], rows_in_chunk: int
) -> None:
    with TemporaryDirectory() as folder, patch.object(chunks, "_MOST_ROWS", rows_in_chunk):
        archive = Archive(Path(folder))
        for sequence, (declared, records) in enumerate(batches, 1):
            archive.declare(declared)
            archive.micro_batch(sequence, records)
        archive.declare(now)
        for place in killed:
            archive.decode(len(batches) - 1, place)
        archive.decode(len(batches))
        archive.check(len(batches))


@pytest.mark.parametrize("place", PLACES)
def test_decoding_anew_is_killed_anywhere(place: str, tmp_path: Path) -> None:
    archive = some_archive(tmp_path)
    assert archive.decode(2, place)
    assert not archive.decode(2)
    archive.check(2)


@pytest.mark.parametrize(("place", "left"), [("before write decoded", 0), ("after write decoded", 2)])
def test_the_files_of_a_task_that_ran_twice_count_once_and_are_deleted(place: str, left: int, tmp_path: Path) -> None:
    archive = some_archive(tmp_path)
    with patch.object(tasks, "run_tasks", run), patch.object(failpoints, "visit", _raiser(place, LostError)):
        decode_anew.decode_anew(spark, archive.project, archive.source, 2)
    archive.check(2)
    table = open_table(archive.layout.decoded(archive.source, decoding_of(archive.source).hash), {})
    named = len(table.file_uris())
    assert len(list(Path(table.table_uri.removeprefix("file://")).glob("*.parquet"))) == named + left
    assert len(list_vacuumable(table, 0)) == left


def test_a_process_that_has_lost_its_turn_commits_nothing(tmp_path: Path) -> None:
    archive = some_archive(tmp_path)
    other = Archive.decode

    def run_late(rows: SimpleNamespace, work: Work) -> list[bytes]:
        told = run(rows, work)
        other(archive, 2)  # Another process has taken over meanwhile.
        return told

    with patch.object(tasks, "run_tasks", run_late), pytest.raises(ConflictError):
        decode_anew.decode_anew(spark, archive.project, archive.source, 2)
    archive.check(2)


def test_a_damaged_file_of_the_archive_is_named(tmp_path: Path) -> None:
    archive = some_archive(tmp_path)
    (file, *_) = sorted(Path(archive.layout.events(archive.source)).glob("*.parquet"))
    file.write_bytes(file.read_bytes()[:-40])
    with pytest.raises(TableError, match=file.name):
        archive.decode(2)


def test_a_file_of_many_row_groups_is_read_once_by_all_tasks(tmp_path: Path) -> None:
    """In tables of a bounded size, and without the row groups of other micro-batches."""
    archive = Archive(tmp_path)
    archive.declare("numbers")
    for sequence in (1, 2, 3):
        archive.micro_batch(sequence, [Sent(n % 4, n % 3, n) for n in range(40)])
    archive.declare("sent")
    with patch.object(file_slices, "_ROWS", 7):
        archive.decode(3)
    archive.check(3)


def some_archive(folder: Path) -> Archive:
    archive = Archive(folder)
    for sequence, declared in ((1, "numbers"), (2, "texts")):
        archive.declare(declared)
        archive.micro_batch(sequence, [Sent(n % 4, n % 3, (n, "x", "7", None)[n % 4]) for n in range(12)])
    archive.declare("sent")
    return archive
