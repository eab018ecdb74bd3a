"""Reads the archived events of one input of a join, in a task."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from hourline_core.model.scratch_columns import HOUR, PLACE, SEQUENCE
from hourline_core.storage.data_files import file_system
from hourline_core.storage.file_slices import read_slices
from speed_layer.joins.plan import SidePlan
from speed_layer.joins.step import Files, SideStep


class Side(Protocol):
    """The events of one input that a micro-batch may need, under Hourline's names, in tables of a bounded size."""

    def new(self) -> Iterator[pa.Table]:
        """Those of the new sequences."""

    def near(self) -> Iterator[pa.Table]:
        """Earlier ones, with all that may have a partner among the new ones of the other input."""

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

    def identities(self) -> Iterator[pa.Table]:
        return self._read(self.step.identities, self.plan.identity_columns, 0, self.step.up_to)

    def _read(self, chosen: Files, columns: Mapping[str, str], after: int, up_to: int) -> Iterator[pa.Table]:
        files = file_system(self.plan.archive, self.plan.storage_options)
        schema = pa.schema([pa.field(stored, self.plan.types[name]) for name, stored in columns.items()])
        for first, last in chosen.spans:
            for archived in read_slices(files, chosen.slices, schema, columns[HOUR], first, last):
                rows = archived.rename_columns(list(columns))
                within = pc.and_(pc.greater(rows[SEQUENCE], after), pc.less_equal(rows[SEQUENCE], up_to))
                # A file may have hours of several spans, and a group of its rows, too.
                within = pc.and_(within, pc.and_(pc.greater_equal(rows[HOUR], first), pc.less_equal(rows[HOUR], last)))
                if pc.any(within).as_py():
                    yield _with_places(rows.filter(within))


def _with_places(rows: pa.Table) -> pa.Table:
    """The rows, with 0 for a place that is null: an earlier Hourline 0.2 has archived them."""
    if PLACE not in rows.column_names or not rows[PLACE].null_count:
        return rows
    return rows.set_column(rows.column_names.index(PLACE), PLACE, pc.fill_null(rows[PLACE], 0))
