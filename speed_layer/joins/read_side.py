"""Reads the archived events of one input of a join, in a task."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.fs import FileSystem

from hourline_core.ledger.decode_records import ARCHIVED, RecordDecoder
from hourline_core.ledger.layout import archived_names
from hourline_core.model.scratch_columns import DECODING, DUPLICATE, HOUR, PLACE, SEQUENCE
from hourline_core.storage.data_files import file_system
from hourline_core.storage.file_slices import FileSlice, read_slices
from speed_layer.joins.plan import SidePlan
from speed_layer.joins.step import Files, SideStep


class Side(Protocol):
    """The events of one input that a micro-batch may need, under Hourline's names, in tables of a bounded size."""

    def new(self) -> Iterator[pa.Table]:
        """Those of the new sequences."""

    def near(self) -> Iterator[pa.Table]:
        """Earlier ones, with all that may have a partner among the new ones of the other input, or that may be joined
        without one now.
        """

    def far(self) -> Iterator[pa.Table]:
        """Earlier ones, with all that may be partners of ``near`` ones of the other input, if that is an outer side."""

    def identities(self) -> Iterator[pa.Table]:
        """New and earlier ones, with all that may have the id of one of these."""


@dataclass(frozen=True)
class ArchivedSide:
    """A ``Side`` in data files. Reading raises OSError and ArrowInvalid."""

    plan: SidePlan
    step: SideStep

    def new(self) -> Iterator[pa.Table]:
        return self._read(self.step.new, self.plan.columns, self.step.after, self.step.up_to)

    def near(self) -> Iterator[pa.Table]:
        return self._read(self.step.near, self.plan.columns, 0, self.step.after)

    def far(self) -> Iterator[pa.Table]:
        return self._read(self.step.far, self.plan.columns, 0, self.step.after)

    def identities(self) -> Iterator[pa.Table]:
        return self._read(self.step.identities, self.plan.identity_columns, 0, self.step.up_to)

    def _read(self, chosen: Files, columns: Mapping[str, str], after: int, up_to: int) -> Iterator[pa.Table]:
        old = [one for one in chosen.slices if one.path in chosen.old]
        others = [one for one in chosen.slices if one.path not in chosen.old]
        for first, last in chosen.spans:
            for rows in chain(
                self._read_as_is(others, columns, first, last), self._read_old(old, columns, first, last)
            ):
                within = pc.and_(pc.greater(rows[SEQUENCE], after), pc.less_equal(rows[SEQUENCE], up_to))
                # A file may have hours of several spans, and a group of its rows, too.
                within = pc.and_(within, pc.and_(pc.greater_equal(rows[HOUR], first), pc.less_equal(rows[HOUR], last)))
                if pc.any(within).as_py():
                    yield _with_places(rows.filter(within))

    def _read_as_is(
        self, slices: Sequence[FileSlice], columns: Mapping[str, str], first: datetime, last: datetime
    ) -> Iterator[pa.Table]:
        schema = pa.schema([pa.field(stored, self.plan.types[name]) for name, stored in columns.items()])
        for rows in read_slices(self._files, slices, schema, columns[HOUR], first, last):
            yield rows.rename_columns(list(columns))

    def _read_old(
        self, slices: Sequence[FileSlice], columns: Mapping[str, str], first: datetime, last: datetime
    ) -> Iterator[pa.Table]:
        """The same of files with events of other declarations, decoded anew from the bytes of their records."""
        anew = self.plan.anew
        if anew is None or not slices:
            return
        decoder = RecordDecoder(anew.source, anew.before)
        hashes = pa.array([one.hash for one in anew.before], pa.string())
        names = archived_names(anew.source, ()) | {DUPLICATE: "duplicate"}
        fields = [pa.field(of, self.plan.types[name]) for name, of in columns.items() if of not in ARCHIVED.names]
        for rows in read_slices(self._files, slices, pa.schema([*ARCHIVED, *fields]), columns[HOUR], first, last):
            is_old = pc.is_in(rows[DECODING], hashes)
            yield rows.filter(pc.invert(is_old)).select(list(columns.values())).rename_columns(list(columns))
            old = rows.filter(is_old)
            decoded = decoder.of_events(old.select(ARCHIVED.names), 0, anew.up_to)
            gone = decoded["hour"].is_null()
            if anew.keeps_rejected:
                yield old.filter(gone).select(list(columns.values())).rename_columns(list(columns))
            decoded = decoded.filter(pc.invert(gone))
            yield pa.table({name: decoded[names[name]].cast(self.plan.types[name]) for name in columns})

    @property
    def _files(self) -> FileSystem:
        return file_system(self.plan.archive, self.plan.storage_options)


def _with_places(rows: pa.Table) -> pa.Table:
    """The rows, with 0 for a place that is null: an earlier Hourline 0.2 has archived them."""
    if PLACE not in rows.column_names or not rows[PLACE].null_count:
        return rows
    return rows.set_column(rows.column_names.index(PLACE), PLACE, pc.fill_null(rows[PLACE], 0))
