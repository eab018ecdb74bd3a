"""A lookup over a source has the rows that a naive pass over its records gives, in whatever order they came."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from hourline_core.errors import DeclarationError
from hourline_core.formats.arrow_types import arrow_type
from hourline_core.ledger.layout import REJECTED_SCHEMA, Layout, stored_names
from hourline_core.ledger.progress_rows import OffsetsRead, ProgressRow, RecordCounts
from hourline_core.lookups.refresh import read_rows, read_state, refresh
from hourline_core.lookups.versions import read_version
from hourline_core.model import Lookup, Project, Settings, Source
from hourline_core.model.decoding import TOMBSTONE
from speed_layer.commit.source_tables import SourceTables, open_source_tables
from tests.support.examples import examples

BASE = datetime(2026, 3, 2, 12, tzinfo=UTC)


class Record(NamedTuple):
    """One record of the topic."""

    key: int | None
    minute: int
    """Its time."""
    price: int | None
    """None: it is a tombstone."""
    duplicate: bool = False


RECORDS = st.lists(
    st.builds(
        Record,
        st.none() | st.integers(-2, 3),
        st.integers(0, 8),
        st.none() | st.integers(0, 3),
        st.sampled_from([False, False, False, True]),
    ),
    max_size=20,
)


def declare(root: Path, **declared: Any) -> Project:
    source = Source.model_validate(
        {
            "name": "prices",
            "topic": "prices",
            "key_type": "int",
            "fields": {"price": "long", "at": "timestamp"},
            "event_time": "at",
            **declared.pop("source", {}),
        }
    )
    others = [source.model_copy(update={"name": "others", **given}) for given in [declared.pop("other", None)] if given]
    columns = {"product": {"type": "int", "column": "record.key"}, "price": "long"}
    given = {"table": "source:prices", "key": "product", "columns": columns, **declared}
    lookups = {
        "price": Lookup.model_validate({"name": "price", **given}),
        "price_then": Lookup.model_validate({"name": "price_then", "valid_from": "event_time", **given}),
    }
    return Project(root, Settings(), {one.name: one for one in (source, *others)}, {}, lookups=lookups)


class Archive:
    """The archive of a source, written by the product's own commits."""

    def __init__(self, project: Project) -> None:
        source = project.sources["prices"]
        stored = stored_names(source)
        fields = {stored.get(name, name): arrow_type(field.tree) for name, field in source.fields.items()}
        self.tables: SourceTables = open_source_tables(Layout.of(project), source, pa.schema(fields), [])
        self.sequence, self.offset = self.tables.first_sequence, 0

    def append(self, records: Sequence[Record], *, finish: bool = True) -> None:
        """Archive ``records`` as one micro-batch."""
        tables, size = self.tables, len(records)
        rows = [self._row(self.offset + place, record) for place, record in enumerate(records)]
        events = [row for row in rows if row["price"] is not None]
        for schema, table, chosen in (
            (tables.events_schema, tables.events, events),
            (REJECTED_SCHEMA, tables.rejected, [row for row in rows if row["price"] is None]),
        ):
            columns = pa.schema([column for column in schema if column.name != "sequence"])
            tables.append(table, schema, pa.Table.from_pylist(chosen, columns), self.sequence)
        if finish:
            tables.finish(
                ProgressRow(
                    self.sequence,
                    "topic-id",
                    "prices",
                    offsets=(OffsetsRead(0, self.offset, self.offset + size - 1),) if size else (),
                    counts=RecordCounts(records=size, accepted=len(events), tombstones=size - len(events)),
                    hours=(),
                    metrics=(),
                    clock=None,
                    started=BASE,
                    finished=BASE,
                )
            )
        self.sequence += 1
        self.offset += size

    def _row(self, offset: int, record: Record) -> dict[str, Any]:
        moment = BASE + timedelta(minutes=record.minute)
        key = None if record.key is None else record.key.to_bytes(4, "big", signed=True)
        rest = {"key": key, "timestamp": moment, "arrived": BASE + timedelta(days=1)}
        return {
            "topic_id": "topic-id",
            "topic": "prices",
            "partition": 0,
            "offset": offset,
            "event_time": moment,
            "hour": moment.replace(minute=0),
            "duplicate": record.duplicate,
            "record": rest,
            "price": record.price,
            "at": moment,
            "number": 7,
            "_hourline_field_offset": -offset,
            "_hourline_decoding": self.tables.decoding.hash,
            "decoding": TOMBSTONE,
            **rest,
        }


@contextmanager
def archived(records: Sequence[Record], splits: Sequence[int]) -> Iterator[Project]:
    with tempfile.TemporaryDirectory() as folder:
        project = declare(Path(folder))
        archive = Archive(project)
        bounds = [0, *sorted(split % (len(records) + 1) for split in splits), len(records)]
        for first, end in pairwise(bounds):
            archive.append(records[first:end])
        yield project


def log_of(records: Sequence[Record]) -> dict[int, list[tuple[int, int, int | None]]]:
    """By key, the time, the number and the price of what counts, oldest first."""
    log: dict[int, list[tuple[int, int, int | None]]] = {}
    for number, record in enumerate(records):
        if record.key is not None and not (record.duplicate and record.price is not None):
            log.setdefault(record.key, []).append((record.minute, number, record.price))
    return {key: sorted(changes, key=lambda change: change[:2]) for key, changes in log.items()}


@settings(max_examples=examples(40))  # Each writes a dozen commits.
@given(records=RECORDS, splits=st.lists(st.integers(0, 20), max_size=2))
def test_the_newest_record_of_a_key_is_its_row_now_and_at_each_time(records: list[Record], splits: list[int]) -> None:
    with archived(records, splits) as project:
        found = read_rows(project, project.lookups["price"])
        rows = read_rows(project, project.lookups["price_then"]).rows.to_pylist()
    log = log_of(records)
    newest = {key: changes[-1][2] for key, changes in log.items()}
    assert found.rows.to_pylist() == [
        {"product": key, "price": price} for key, price in sorted(newest.items()) if price is not None
    ]
    counted = [one for one in records if one.key is None and one.price is not None and not one.duplicate]
    assert found.null_keys == len(counted)
    for key in range(-2, 4):
        for minute in range(10):
            moment = BASE + timedelta(minutes=minute)
            known = [price for at, _, price in log.get(key, []) if at <= minute]
            valid = [
                row["price"]
                for row in rows
                if row["product"] == key
                and row["event_time"] <= moment
                and (row["valid_to"] is None or moment < row["valid_to"])
            ]
            assert valid == [price for price in known[-1:] if price is not None], (key, minute)


def test_a_micro_batch_that_is_not_finished_has_no_row(tmp_path: Path) -> None:
    project = declare(tmp_path)
    assert read_rows(project, project.lookups["price"]).rows.num_rows == 0
    archive = Archive(project)
    archive.append([Record(1, 0, 7)])
    archive.append([Record(1, 1, 8)], finish=False)
    assert read_rows(project, project.lookups["price"]).rows.to_pylist() == [{"product": 1, "price": 7}]


def test_a_key_of_the_value_is_deleted_by_no_tombstone(tmp_path: Path) -> None:
    project = declare(tmp_path, key="price", columns={"price": "long", "at": "timestamp"})
    Archive(project).append([Record(1, 0, 7), Record(1, 1, None)])
    assert read_rows(project, project.lookups["price"]).rows.to_pylist() == [{"price": 7, "at": BASE}]


def test_a_refresh_reads_the_source_only_after_a_micro_batch(tmp_path: Path) -> None:
    project = declare(tmp_path)
    lookup, archive = project.lookups["price"], Archive(project)
    archive.append([Record(1, 0, 7)])
    first = refresh(project, lookup, lambda: BASE)
    assert first.version
    assert first.version.rows == 1
    later = BASE + timedelta(minutes=5)
    again = refresh(project, lookup, lambda: later)
    assert (again.version, again.content, again.refreshed) == (first.version, first.content, later)
    assert again == read_state(project, lookup)
    archive.append([Record(1, 1, None)])
    third = refresh(project, lookup, lambda: later)
    assert third.version
    assert (third.version.rows, third.version.number > first.version.number) == (0, True)
    assert read_version(Layout.of(project), lookup, first.version.number).to_pylist() == [{"product": 1, "price": 7}]


def test_a_field_may_have_any_name_and_the_key_several_columns(tmp_path: Path) -> None:
    fields = {"price": "long", "at": "timestamp", "number": "long", "offset": "long"}
    columns = {"price": "long", "number": "long", "offset": "long"} | {
        name: {"type": "int", "column": "record.key"} for name in ("product", "again")
    }
    project = declare(tmp_path, source={"fields": fields}, columns=columns)
    Archive(project).append([Record(1, 0, 7), Record(1, 0, 8), Record(2, 0, 9), Record(2, 1, None)])
    assert refresh(project, project.lookups["price"], lambda: BASE).problem is None
    row = {"price": 8, "number": 7, "offset": -1, "product": 1, "again": 1}
    assert read_rows(project, project.lookups["price"]).rows.to_pylist() == [row]


def test_a_tombstone_counts_as_far_ahead_of_its_arrival_as_an_event(tmp_path: Path) -> None:
    day = 24 * 60  # When the records arrive. Events may be a day ahead.
    project = declare(tmp_path)
    lookup, archive = project.lookups["price"], Archive(project)
    archive.append([Record(1, day + 5, 7), Record(1, day + 6, None), Record(2, 10 * day, None), Record(2, 3 * day, 8)])
    assert read_rows(project, lookup).rows.to_pylist() == [{"product": 2, "price": 8}]


def test_another_source_or_column_is_read_at_once(tmp_path: Path) -> None:
    project = declare(tmp_path, source={"fields": {"price": "long", "at": "timestamp", "number": "long"}})
    Archive(project).append([Record(1, 0, 1000)])
    refresh(project, project.lookups["price"], lambda: BASE)
    columns = {"product": {"type": "int", "column": "record.key"}, "price": {"type": "long", "column": "number"}}
    fields = {"price": "long", "at": "timestamp", "number": "long"}
    other = declare(tmp_path, source={"fields": fields}, columns=columns)
    version = refresh(other, other.lookups["price"], lambda: BASE).version
    assert version
    assert read_version(Layout.of(other), other.lookups["price"], version.number)["price"].to_pylist() == [7]


def test_a_field_that_is_lost_is_not_null(tmp_path: Path) -> None:
    fields = {"price": "long", "at": "timestamp"}
    Archive(declare(tmp_path, source={"fields": fields, "raw": False})).append([Record(1, 0, 7)])
    columns = {"product": {"type": "int", "column": "record.key"}, "cost": "long"}
    project = declare(tmp_path, source={"fields": {**fields, "cost": "long"}}, columns=columns)
    Archive(project)  # A start with the new declaration.
    state = refresh(project, project.lookups["price"], lambda: BASE)
    assert "field 'cost' of source 'prices' is not known of records from before" in (state.problem or "")
    assert state.version is None


def test_a_damaged_archive_leaves_the_version_before(tmp_path: Path) -> None:
    project = declare(tmp_path)
    lookup, archive = project.lookups["price"], Archive(project)
    archive.append([Record(1, 0, 7)])
    first = refresh(project, lookup, lambda: BASE)
    archive.append([Record(1, 1, 8)])
    for file in Path(project.tables, "events", "prices").glob("*.parquet"):
        file.write_bytes(b"PAR1")
    state = refresh(project, lookup, lambda: BASE)
    assert state.version == first.version
    assert "source:prices cannot be read" in (state.problem or "")


def test_a_column_of_another_type_does_not_have_the_name_of_a_bound(tmp_path: Path) -> None:
    columns = {"product": {"type": "int", "column": "record.key"}, "valid_to": "string"}
    with pytest.raises(ValidationError, match="got 'valid_to', a time that valid_from adds"):
        declare(tmp_path, columns=columns)
    declared = declare(tmp_path).lookups["price_then"]
    assert Lookup.model_validate(declared.model_dump(mode="json")) == declared, "as it is stored with its tables"


def test_more_rows_than_are_allowed_are_refused(tmp_path: Path) -> None:
    project = declare(tmp_path, most_rows=1)
    Archive(project).append([Record(1, 0, 7), Record(2, 0, 7)])
    assert "source:prices has more than 1 rows" in (
        refresh(project, project.lookups["price"], lambda: BASE).problem or ""
    )


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        ({"table": "source:price"}, "got 'price', which is no source of this project — did you mean 'prices'?"),
        (
            {"columns": {"product": "int"}},
            "got 'product', which is no declared field of source 'prices' (there is: at, event_time, price, record.key)",
        ),
        (
            {"columns": {"product": {"type": "long", "column": "record.key"}}},
            "got the type long, allowed is that of 'record.key', int",
        ),
        ({"source": {"key_type": "binary"}}, "got 'record.key', which is binary in source 'prices', allowed is"),
        (
            {"source": {"branch": "price > 0"}, "other": {"branch": "otherwise"}},
            "key: got 'record.key', and records without a value, which delete rows, do not reach source 'prices'",
        ),
    ],
)
def test_a_column_that_the_source_does_not_have_is_refused(
    declared: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with pytest.raises(DeclarationError) as refused:
        declare(tmp_path, **declared)
    assert words in str(refused.value)
