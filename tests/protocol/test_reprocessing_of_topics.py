"""Records that are read again are told apart by topic id and partition, also those of a topic that is met later."""

from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake

from hourline_core.ledger.decoded_tables import fence_decoded
from hourline_core.ledger.layout import DECODED_SCHEMA, FROM_HOUR, NO_EVENT_REASON, REJECTED_SCHEMA, Layout
from hourline_core.ledger.progress_rows import OffsetsRead, Position, ProgressRow, RecordCounts
from hourline_core.model import EventTime, Field, Source
from hourline_core.model.decoding import BYTES_ALONE
from hourline_core.model.scratch_columns import OFFSET, OUTCOME, PARTITION, PLACE, TOPIC_ID
from hourline_core.storage.creation import open_or_create
from hourline_core.storage.version_retention import PUBLISHED
from speed_layer.commit.source_tables import SourceTables, open_source_tables
from speed_layer.intake.record_rows import offsets_by_partition
from speed_layer.recovery.counted_records import CountedRecords
from speed_layer.recovery.reprocessing import Reprocessing, drop_reprocessed

NOW = datetime(2024, 3, 1, tzinfo=UTC)
SOURCE = Source(name="s", topic=("a", "b"), fields={"n": Field(type="int")}, event_time=EventTime(expression="at"))

# By topic and offset (in partition 0), what the first micro-batch made of the records.
BEFORE = {
    ("a", 0): "archived",
    ("a", 1): "rejected",
    ("a", 2): "not_taken",
    ("a", 3): "archived",
    ("b", 0): "rejected",
    ("b", 1): "archived",
    ("b", 2): "tombstone",
}


def written(folder: Path, reset_to: dict[str, int]) -> SourceTables:
    """The tables after that micro-batch, and a reset to these offsets."""
    tables = open_source_tables(Layout(str(folder)), SOURCE, pa.schema({"n": pa.int32()}), [])
    for kind, table, schema in (
        ("archived", tables.events, tables.events_schema),
        ("rejected", tables.rejected, REJECTED_SCHEMA),
    ):
        rows = [address(topic, offset) for (topic, offset), what in BEFORE.items() if what == kind]
        own = pa.schema([column for column in schema if column.name != "sequence"])
        tables.append(table, schema, pa.Table.from_pylist(rows, own), 1)
    tables.finish(*(row(1, topic, read=(0, 3 if topic == "a" else 2)) for topic in "ab"))
    tables.progress.reset([row(2, topic, position=offset) for topic, offset in reset_to.items()], {}, of_metric=False)
    return tables


def address(topic: str, offset: int) -> dict[str, object]:
    return {"topic_id": f"id-{topic}", "topic": topic, "partition": 0, "offset": offset}


def row(sequence: int, topic: str, read: tuple[int, int] | None = None, position: int | None = None) -> ProgressRow:
    return ProgressRow(
        sequence,
        f"id-{topic}",
        topic,
        (OffsetsRead(0, *read),) if read else (),
        RecordCounts(),
        (),
        (),
        None,
        NOW,
        NOW,
        None if position is None else (Position(0, 9, position),),
    )


def again(outcomes: dict[tuple[str, int], str]) -> pa.Table:
    """Rows that are read again."""
    return pa.table(
        {
            TOPIC_ID: [f"id-{topic}" for topic, _ in outcomes],
            PARTITION: pa.array([0] * len(outcomes), pa.int32()),
            OFFSET: pa.array([offset for _, offset in outcomes], pa.int64()),
            PLACE: pa.array([0] * len(outcomes), pa.int32()),
            OUTCOME: list(outcomes.values()),
        }
    )


def counted(known: Reprocessing, rows: pa.Table) -> CountedRecords:
    """What a micro-batch with ``rows`` is told."""
    return known.counted_within({of: (first, last + 1) for of, (first, last) in offsets_by_partition(rows).items()})


def release_passed(known: Reprocessing, rows: pa.Table) -> None:
    known.release_passed({of: last for of, (_, last) in offsets_by_partition(rows).items()})


def test_each_record_counts_once_whatever_its_topic_and_branch(tmp_path: Path) -> None:
    tables = written(tmp_path, {"a": 1, "b": 0})
    known = Reprocessing(tables.progress, tables.events, tables.rejected, ["id-a", "id-b"], list, [])
    rows = again({key: "accepted" for key in BEFORE if key != ("a", 0)} | {("a", 4): "accepted", ("b", 3): "accepted"})
    addresses = zip(rows[TOPIC_ID].to_pylist(), rows[OFFSET].to_pylist(), strict=True)
    marked = dict(zip(addresses, counted(known, rows).mark(rows).tolist(), strict=True))
    assert {key for key, passed in marked.items() if passed} == {("id-a", 3), ("id-b", 1)}, "what is archived"
    fresh = rows.filter(pa.array(~counted(known, rows).mark(rows)))
    before = counted(known, fresh).find(fresh)
    assert before.rejected == 2
    assert before.empty == 2, "what is in no table: not taken, and a tombstone that has a value now"
    left_out = again({("a", 1): "not_taken", ("a", 2): "taken_by_none", ("b", 2): "tombstone", ("b", 3): "tombstone"})
    assert counted(known, left_out).mark(left_out).tolist() == [True, True, True, False]
    release_passed(known, rows)
    assert not counted(known, rows).mark(rows).any()


def test_a_rejected_record_that_decoding_anew_has_accepted_counts_already(tmp_path: Path) -> None:
    tables = written(tmp_path, {"a": 1, "b": 0})
    accepted = {"sequence": 1, "hour": NOW}
    rows = [
        {**address("b", 0), **accepted},
        {**address("a", 1), "sequence": 1, NO_EVENT_REASON: "at is null"},
        {**address("a", 3), **accepted, FROM_HOUR: NOW},
    ]
    uri = Layout(str(tmp_path)).decoded(SOURCE, "today")
    decoded = open_or_create(uri, {}, "decoded", DECODED_SCHEMA, PUBLISHED, "decoded anew")
    write_deltalake(decoded, pa.Table.from_pylist(rows, DECODED_SCHEMA), mode="append")
    topic_ids = ["id-a", "id-b"]
    opened = partial(fence_decoded, Layout(str(tmp_path)), SOURCE)
    known = Reprocessing(tables.progress, tables.events, tables.rejected, topic_ids, opened, [])
    rejected = again({key: "accepted" for key, what in BEFORE.items() if what == "rejected"})
    assert counted(known, rejected).mark(rejected).tolist() == [False, True]
    fresh = rejected.slice(0, 1)
    assert counted(known, fresh).find(fresh).rejected == 1, "the other one stays rejected"


def test_a_topic_that_is_met_later_is_read_from_its_beginning_and_counts_once(tmp_path: Path) -> None:
    tables = written(tmp_path, {"a": 4})
    known = Reprocessing(tables.progress, tables.events, tables.rejected, ["id-a"], list, [])
    rows = again({key: "accepted" for key in BEFORE if key[0] == "b"} | {("b", 3): "accepted"})
    known.meet(["id-a", "id-b"])
    # Without a reset, nothing is validated again.
    assert counted(known, rows).mark(rows).tolist() == [True, True, False, False]
    assert counted(known, rows).find(rows.filter(pa.array(~counted(known, rows).mark(rows)))).rejected == 0
    known.meet(["id-b"])  # once only
    release_passed(known, rows)
    known.meet(["id-b"])
    assert not counted(known, rows).mark(rows).any()


def test_what_is_validated_again_is_dropped_in_its_own_topic_alone(tmp_path: Path) -> None:
    tables = written(tmp_path, {"a": 0, "b": 0})
    own = pa.schema([column for column in tables.events_schema if column.name != "sequence"])
    tables.append(tables.events, tables.events_schema, pa.Table.from_pylist([address("a", 1)], own), 3)
    for topic in "ab":
        finished = row(3, topic, read=(0, 3))
        tables.finish(finished)
        drop_reprocessed(tables.events, tables.rejected, finished)
    left = tables.rejected.to_pyarrow_table().to_pylist()
    assert [(kept["topic"], kept["offset"]) for kept in left] == [("b", 0)]


def test_bytes_that_are_read_again_are_no_verdict(tmp_path: Path) -> None:
    tables = written(tmp_path, {"a": 0})
    own = pa.schema([column for column in REJECTED_SCHEMA if column.name != "sequence"])
    alone = pa.Table.from_pylist([{**address("a", 1), "value": b"{}", "decoding": BYTES_ALONE}], own)
    archived = pa.Table.from_pylist(
        [address("a", 1)], pa.schema([column for column in tables.events_schema if column.name != "sequence"])
    )
    left = []
    for sequence, table, schema, rows in (
        (3, tables.rejected, REJECTED_SCHEMA, alone),
        (4, tables.events, tables.events_schema, archived),
    ):
        tables.append(table, schema, rows, sequence)
        finished = row(sequence, "a", read=(0, 3))
        tables.finish(finished)
        drop_reprocessed(tables.events, tables.rejected, finished)
        kept = tables.rejected.to_pyarrow_table().to_pylist()
        left.append([(one["sequence"], one["decoding"]) for one in kept if one["topic"] == "a"])
        left[-1].sort(key=lambda of: of[0])
    assert left == [[(1, None), (3, BYTES_ALONE)], [(3, BYTES_ALONE)]]
