"""An archive of one source whose declaration changes, and decoding anew over it: without Kafka, and with a stand-in for
Spark that runs the product's own tasks in this process.
"""

import json
import pickle
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, cast
from unittest.mock import patch

import pyarrow as pa
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from batch_layer.decoding import decode_anew, tasks
from batch_layer.decoding.to_decode import decoded_up_to
from hourline import load_project
from hourline_core.compute.tasks import Work, tell, told_by
from hourline_core.formats.arrow_types import arrow_type
from hourline_core.ledger.decoded_tables import fence_decoded
from hourline_core.ledger.decodings import read_decodings
from hourline_core.ledger.layout import FROM_HOUR, NO_EVENT_REASON, Layout
from hourline_core.ledger.progress import BYTES_WRITER
from hourline_core.ledger.progress_rows import HourEvents, OffsetsRead, Position, ProgressRow, RecordCounts
from hourline_core.ledger.source_clock import SourceClock
from hourline_core.model import scratch_columns as columns
from hourline_core.model.decoding import decoding_of
from hourline_core.runtime import failpoints
from hourline_core.storage.opening import open_table
from hourline_core.validation.validator import Validator
from speed_layer.commit.source_tables import SourceTables, open_source_tables
from speed_layer.intake.part import Assignment, IntakePlan, Part
from speed_layer.intake.tasks import build_part
from speed_layer.recovery.reprocessing import Reprocessing, drop_reprocessed
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
        self.start()
        first = len(self.sent)
        part = self.read(sequence, first, records)
        self.finish(sequence, part, first, first + len(records) - 1)
        self.sent += [(self.declared, sequence, record) for record in records]

    def start(self) -> None:
        """Open the tables as a start of the speed layer does."""
        fields = pa.schema({name: arrow_type(field.tree) for name, field in self.source.fields.items()})
        self.tables = open_source_tables(self.layout, self.source, fields, [])
        opened = (self.tables.progress, self.tables.events, self.tables.rejected)
        lost = [one.hash for one in read_decodings(self.tables.events) if self.source.raw and not one.raw]
        self.known = Reprocessing(*opened, ["id"], partial(fence_decoded, self.layout, self.source), lost)

    def read(self, sequence: int, first: int, records: Sequence[Sent]) -> Part:
        """What the task of a micro-batch writes of ``records``, whose first offset is ``first``."""
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
        counted = self.known.counted_within({("id", 0): (first, first + len(records))})
        plan = pickle.dumps(_intake_plan(self.layout, self.tables))
        assignment = Assignment(sequence, {"visits": "id"}, SourceClock(), BASE, counted)
        return build_part(plan, assignment, validated.to_batches())

    def finish(self, sequence: int, part: Part, first: int, last: int) -> ProgressRow:
        """Commit a micro-batch. Returns its row of progress."""
        writers = [BYTES_WRITER] if part.brought_bytes else []
        self.tables.append_files(self.tables.events, part.events, sequence)
        self.tables.append_files(self.tables.rejected, part.rejected, sequence, *writers)
        of_topic, read = part.topics["id"], (OffsetsRead(0, first, last),)
        hours = tuple(HourEvents(hour, events, late=0) for hour, events in of_topic.hours.items())
        row = ProgressRow(sequence, "id", "visits", read, of_topic.counts, hours, (), BASE, BASE, BASE)
        self.tables.finish(row)
        return row

    def read_again(self) -> Part:
        """Let all records be read again, in one micro-batch."""
        self.reset()
        self.start()
        sequence, records = self.tables.first_sequence, [record for _, _, record in self.sent]
        part = self.read(sequence, 0, records)
        row = self.finish(sequence, part, 0, len(records) - 1)
        drop_reprocessed(self.tables.events, self.tables.rejected, row)
        return part

    def reset(self) -> None:
        """Let all records be read again from the next start on."""
        self.start()
        row = ProgressRow(
            self.tables.first_sequence,
            "id",
            "visits",
            (),
            RecordCounts(),
            (),
            (),
            BASE,
            BASE,
            BASE,
            (Position(0, len(self.sent), 0),),
        )
        self.tables.progress.reset([row], {}, of_metric=False)

    def decode(self, up_to: int, killed: str | None = None) -> bool:
        """Decode anew. Returns whether it was killed at this place."""
        with patch.object(failpoints, "visit", raiser(killed, KilledError)), patch.object(tasks, "run_tasks", run):
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


def raiser(place: str | None, error: type[Exception]) -> Any:
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


def some_archive(folder: Path) -> Archive:
    archive = Archive(folder)
    for sequence, declared in ((1, "numbers"), (2, "texts")):
        archive.declare(declared)
        archive.micro_batch(sequence, [Sent(n % 4, n % 3, (n, "x", "7", None)[n % 4]) for n in range(12)])
    archive.declare("sent")
    return archive
