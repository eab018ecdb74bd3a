"""Reading again after resets, by declarations that change, against a naive account of every record and event."""

import tempfile
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

from hourline_core.ledger.progress import Progress
from hourline_core.ledger.progress_rows import OffsetsRead, ProgressRow, RecordCounts
from hourline_core.ledger.read_again import validated_again
from hourline_core.ledger.read_offsets import Reading, merge_ranges
from hourline_core.model.decoding import TOMBSTONE
from hourline_core.model.scratch_columns import DUPLICATE, OFFSET, OUTCOME, PARTITION, PLACE, TOPIC_ID
from speed_layer.intake.accounting import count_records
from speed_layer.intake.record_rows import offsets_by_partition
from speed_layer.recovery.counted_records import CountedRecords
from speed_layer.recovery.reprocessing import Reprocessing, drop_reprocessed
from tests.support.examples import examples

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LOG = 6
STORED = pa.schema(
    {
        "sequence": pa.int64(),
        "topic_id": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        PLACE: pa.int32(),
        "decoding": pa.string(),
    }
)
ADDRESS = {TOPIC_ID: pa.string(), PARTITION: pa.int32(), OFFSET: pa.int64(), PLACE: pa.int32()}
ROWS = pa.schema({**ADDRESS, OUTCOME: pa.string(), DUPLICATE: pa.bool_()})

Outcomes = list[str]
"""What a declaration makes of a record: the outcome of each event; or one outcome if it has none."""

outcomes = st.one_of(
    st.lists(st.sampled_from(["accepted", "rejected"]), min_size=1, max_size=3),
    st.just(["empty"]),
    st.just(["rejected"]),
)
declarations = st.lists(st.lists(outcomes, min_size=LOG, max_size=LOG), min_size=1, max_size=4)
tombstones = st.sets(st.integers(0, LOG - 1), max_size=2)
resets = st.lists(st.tuples(st.integers(0, LOG), st.integers(1, LOG)), min_size=3, max_size=3)
"""After each, the next declaration reads from an offset on, some records at a time."""


@dataclass
class Account:
    """What each record counts as, in plain Python."""

    archived: dict[int, set[int]] = field(default_factory=dict)
    rejected: dict[int, set[int]] = field(default_factory=dict)
    without_event: dict[int, str] = field(default_factory=dict)

    def read(self, offset: int, found: Outcomes) -> None:
        """A record is read, for the first time or again."""
        known = offset in self.archived or offset in self.rejected or offset in self.without_event
        if found[0] in ("tombstone", "empty", "not_taken"):
            if not known:
                self.without_event[offset] = found[0]
            return
        archived, refused = self.archived.get(offset, set()), self.rejected.get(offset, set())
        places = {place for place in range(len(found)) if not archived or place in refused}
        if not places:
            return
        self.without_event.pop(offset, None)
        self.rejected.pop(offset, None)
        for place in places:
            to = self.archived if found[place] == "accepted" else self.rejected
            to.setdefault(offset, set()).add(place)

    @property
    def counts(self) -> RecordCounts:
        """The sums over all of progress."""
        records = self.archived.keys() | self.rejected.keys() | self.without_event.keys()
        accepted, rejected = (sum(map(len, of.values())) for of in (self.archived, self.rejected))
        kinds = Counter(self.without_event.values())
        events = accepted + rejected + len(self.without_event)
        return RecordCounts(
            records=len(records),
            accepted=accepted,
            rejected=rejected,
            tombstones=kinds["tombstone"],
            not_taken=kinds["not_taken"],
            exploded=events - len(records),
            empty=kinds["empty"],
        )


class KnownProgress(Progress):
    """Progress that says how far one topic has been read, and the sums of its counts."""

    def __init__(self, reading: Reading, counts: RecordCounts) -> None:
        self._reading = reading
        self._counts = counts

    def readings(self, topic_ids: Collection[str], up_to: int | None = None) -> dict[str, Reading]:
        return dict.fromkeys(topic_ids, self._reading)

    def total(self, count: str) -> int:
        return int(getattr(self._counts, count))


@settings(max_examples=examples(25), deadline=None)
@given(declarations, tombstones, resets, st.booleans())
def test_a_record_counts_once_and_each_of_its_events_once(
    declared: list[list[Outcomes]], no_value: set[int], positions: list[tuple[int, int]], has_branch: bool
) -> None:
    truth, counts, sequence, read = Account(), RecordCounts(), 0, [(0, 0)]
    with tempfile.TemporaryDirectory() as folder:
        events, rejected = (_table(Path(folder) / name) for name in ("events", "rejected"))
        for number, of_records in enumerate(declared):
            start, size = positions[number - 1] if number else (0, LOG)
            # What is beyond the end of what was read is new.
            start, log = min(start, read[-1][1]), LOG - len(declared) + number + 1
            known = KnownProgress(Reading({0: start}, {0: read}, {}), counts)
            again = Reprocessing(known, events, rejected, ["t"], list, [])
            for first in range(start, log, size):
                last, sequence = min(first + size, log), sequence + 1
                found = {o: ["tombstone"] if o in no_value else of_records[o] for o in range(first, last)}
                if has_branch:
                    found = {o: ["not_taken"] if of == ["empty"] else of for o, of in found.items()}
                counts += _micro_batch(again, events, rejected, sequence, found)
                known._counts = counts
                for offset, of_record in found.items():
                    truth.read(offset, of_record)
                assert counts == truth.counts
            read = merge_ranges([*read, (start, log)])
            for table, expected in ((events, truth.archived), (rejected, truth.rejected)):
                kept = table.to_pyarrow_table(columns=["offset", PLACE], filters=[("decoding", "=", "now")])
                pairs = zip(*(column.to_pylist() for column in kept.columns), strict=True)
                assert sorted(pairs) == sorted((offset, place) for offset, of in expected.items() for place in of)
            deleting = rejected.to_pyarrow_table(columns=["offset"], filters=[("decoding", "=", TOMBSTONE)])
            assert sorted(deleting["offset"].to_pylist()) == sorted(
                offset for offset, kind in truth.without_event.items() if kind == "tombstone"
            )


def test_tombstones_are_not_validated_again(tmp_path: Path) -> None:
    """Each of them would be a number in the condition of a deletion, which Delta cannot take by ten thousands."""
    events, rejected = (_table(tmp_path / name) for name in ("events", "rejected"))
    first = {0: ["rejected"], **{offset: ["tombstone"] for offset in range(1, LOG)}}
    start = Reprocessing(KnownProgress(Reading({0: 0}, {0: []}, {}), RecordCounts()), events, rejected, ["t"], list, [])
    _micro_batch(start, events, rejected, 1, first)
    write_deltalake(events, _stored(pa.table({"partition": [0], "offset": [0], PLACE: [0]}), 2, "now"), mode="append")
    events.update_incremental()
    read = (OffsetsRead(0, 0, LOG - 1),)
    row = ProgressRow(2, "t", "t", read, RecordCounts(), (), (), None, NOW, NOW)
    found = [(offsets.tolist(), again.tolist()) for _, offsets, again in validated_again(events, rejected, row)]
    assert found == [([0], [True])]
    drop_reprocessed(events, rejected, row)
    assert sorted(rejected.to_pyarrow_table()["offset"].to_pylist()) == list(range(1, LOG))


def _micro_batch(
    again: Reprocessing,
    events: DeltaTable,
    rejected: DeltaTable,
    sequence: int,
    found: dict[int, Outcomes],
) -> RecordCounts:
    """What a micro-batch does with the tables, and the counts that it commits."""
    rows = pa.Table.from_pylist(
        [
            {TOPIC_ID: "t", PARTITION: 0, OFFSET: offset, PLACE: place, OUTCOME: outcome, DUPLICATE: False}
            for offset, of in found.items()
            for place, outcome in enumerate(of)
        ],
        ROWS,
    )
    fresh = rows.filter(pc.invert(pa.array(counted(again, rows).mark(rows))))
    counts = count_records(fresh, counted(again, fresh).find(fresh))
    decodings = {"accepted": "now", "rejected": "now", "tombstone": TOMBSTONE}
    for (outcome, decoding), table in zip(decodings.items(), (events, rejected, rejected), strict=True):
        chosen = fresh.filter(pc.equal(fresh[OUTCOME], outcome)).select([PARTITION, OFFSET, PLACE])
        stored = _stored(chosen.rename_columns(["partition", "offset", PLACE]), sequence, decoding)
        write_deltalake(table, stored, mode="append")
        table.update_incremental()
    read = (OffsetsRead(0, min(found), max(found)),)
    drop_reprocessed(events, rejected, ProgressRow(sequence, "t", "t", read, counts, (), (), None, NOW, NOW))
    release_passed(again, rows)
    return counts


def _stored(rows: pa.Table, sequence: int, decoding: str) -> pa.Table:
    own = {"sequence": sequence, "topic_id": "t", "decoding": decoding}
    for name, value in own.items():
        rows = rows.append_column(name, pa.array([value] * rows.num_rows, STORED.field(name).type))
    return rows.select(STORED.names).cast(STORED)


def _table(path: Path) -> DeltaTable:
    return DeltaTable.create(str(path), STORED)


def counted(known: Reprocessing, rows: pa.Table) -> CountedRecords:
    """What a micro-batch with ``rows`` is told."""
    return known.counted_within({of: (first, last + 1) for of, (first, last) in offsets_by_partition(rows).items()})


def release_passed(known: Reprocessing, rows: pa.Table) -> None:
    known.release_passed({of: last for of, (_, last) in offsets_by_partition(rows).items()})
