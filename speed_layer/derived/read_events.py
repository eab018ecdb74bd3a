"""Reads archived events of an input, or of the derived source itself, in a task."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.fs import FileSystem

from hourline_core.ledger.decode_records import ARCHIVED, RecordDecoder
from hourline_core.ledger.layout import TIMESTAMP, archived_names
from hourline_core.model.scratch_columns import (
    DECODING,
    DUPLICATE,
    HOUR,
    OFFSET,
    PARTITION,
    PLACE,
    RECORD,
    SEQUENCE,
    TOPIC_ID,
)
from hourline_core.storage.data_files import file_system
from hourline_core.storage.file_ranges import FileRange
from hourline_core.storage.file_slices import FileSlice, overlaps, read_slices
from speed_layer.derived.decoding import DecodedAnew
from speed_layer.derived.spans import Span

ADDRESS = (TOPIC_ID, PARTITION, OFFSET, PLACE)
"""The columns that tell an archived event from all others."""


class ArchivePlan(Protocol):
    """What tasks know of an archive."""

    @property
    def archive(self) -> str:
        """The address of its events table."""

    @property
    def storage_options(self) -> Mapping[str, str]: ...

    @property
    def types(self) -> Mapping[str, pa.DataType]:
        """By column that is read, as it is archived."""

    @property
    def anew(self) -> DecodedAnew | None:
        """How events are decoded that another declaration has archived. None: there are none."""


@dataclass(frozen=True)
class Files:
    """What is read of an archive: of some files, the events of some hours."""

    slices: Sequence[FileSlice] = ()
    spans: Sequence[Span] = ()
    """In order, with an hour or more between two of them."""
    old: frozenset[str] = frozenset()
    """The paths of those that may have events to decode anew."""

    @property
    def rows(self) -> int:
        """The number of events in the files, of any hour."""
        return sum(one.end - one.first for one in self.slices)


NO_FILES = Files()


def choose_files(files: Sequence[FileRange], spans: Sequence[Span], old: frozenset[str]) -> Files:
    """Those of ``files``, by their hours, that may have events of ``spans``. ``old`` are those to decode anew."""
    touched = [of for of in files if overlaps(spans, of.first, of.last)]
    return Files([FileSlice(of.path, 0, of.rows) for of in touched], spans, old & {of.path for of in touched})


def read_events(
    plan: ArchivePlan, chosen: Files, columns: Mapping[str, str], after: int, up_to: int
) -> Iterator[pa.Table]:
    """The ``columns`` of events in chosen files, by Hourline's names, with the name of each in the archive, of the
    sequences above ``after``, up to ``up_to``. Raises OSError and ArrowInvalid.
    """
    old = [one for one in chosen.slices if one.path in chosen.old]
    others = [one for one in chosen.slices if one.path not in chosen.old]
    spans = chosen.spans
    firsts, lasts = (pa.array([span[end] for span in spans], TIMESTAMP).cast(pa.int64()).to_numpy() for end in (0, 1))
    for rows in chain(_read_as_is(plan, others, columns, spans), _read_old(plan, old, columns, spans)):
        # A group of rows may have hours of several spans, and hours between them.
        hours = rows[HOUR].cast(TIMESTAMP).cast(pa.int64()).to_numpy()
        place = np.searchsorted(lasts, hours)
        in_span = (place < len(spans)) & (firsts[np.minimum(place, len(spans) - 1)] <= hours)
        within = pc.and_(pc.greater(rows[SEQUENCE], after), pc.less_equal(rows[SEQUENCE], up_to))
        within = pc.and_(within, pa.array(in_span))
        if pc.any(within).as_py():
            yield _with_places(rows.filter(within))


def _read_as_is(
    plan: ArchivePlan, slices: Sequence[FileSlice], columns: Mapping[str, str], spans: Sequence[Span]
) -> Iterator[pa.Table]:
    schema = pa.schema([pa.field(stored, plan.types[name]) for name, stored in columns.items()])
    for rows in read_slices(_files_of(plan), slices, schema, columns[HOUR], spans):
        yield rows.rename_columns(list(columns))


def _read_old(
    plan: ArchivePlan, slices: Sequence[FileSlice], columns: Mapping[str, str], spans: Sequence[Span]
) -> Iterator[pa.Table]:
    """The same of files with events of other declarations, decoded anew from the bytes of their records."""
    anew = plan.anew
    if anew is None or not slices:
        return
    decoder = RecordDecoder(anew.source, anew.before)
    hashes = pa.array([one.hash for one in anew.before], pa.string())
    names = archived_names(anew.source, ()) | {DUPLICATE: "duplicate", RECORD: "record"}
    fields = [pa.field(of, plan.types[name]) for name, of in columns.items() if of not in ARCHIVED.names]
    for rows in read_slices(_files_of(plan), slices, pa.schema([*ARCHIVED, *fields]), columns[HOUR], spans):
        is_old = pc.is_in(rows[DECODING], hashes)
        yield rows.filter(pc.invert(is_old)).select(list(columns.values())).rename_columns(list(columns))
        old = rows.filter(is_old)
        decoded = decoder.of_events(old.select(ARCHIVED.names), 0, anew.up_to)
        gone = decoded["hour"].is_null()
        if anew.kept_up_to:
            kept = pc.and_(gone, pc.less_equal(old[columns[SEQUENCE]], anew.kept_up_to))
            yield old.filter(kept).select(list(columns.values())).rename_columns(list(columns))
        decoded = decoded.filter(pc.invert(gone))
        yield pa.table({name: decoded[names[name]].cast(plan.types[name]) for name in columns})


def _files_of(plan: ArchivePlan) -> FileSystem:
    return file_system(plan.archive, plan.storage_options)


def _with_places(rows: pa.Table) -> pa.Table:
    """The rows, with 0 for a place that is null: an earlier Hourline 0.2 has archived them."""
    if PLACE not in rows.column_names or not rows[PLACE].null_count:
        return rows
    return rows.set_column(rows.column_names.index(PLACE), PLACE, pc.fill_null(rows[PLACE], 0))
