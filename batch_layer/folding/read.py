"""Reads the archived events of a share, with the columns that the fold needs."""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from batch_layer.folding.plan import ReadPlan
from batch_layer.folding.shares import Share
from batch_layer.folding.tables import join_chunks, query
from hourline_core.compute.lookup_columns import add_lookup_columns
from hourline_core.compute.worker_database import connect
from hourline_core.model.scratch_columns import HOUR, ID, OFFSET, PLACE, SEQUENCE
from hourline_core.sql.literals import identifier
from hourline_core.storage.data_files import file_system
from hourline_core.storage.file_slices import read_slices


class Reader:
    """Reads shares by ``plan``."""

    def __init__(self, plan: ReadPlan) -> None:
        self._plan = plan
        self._connection = connect()
        types = dict(zip(plan.columns, plan.schema.types, strict=True))
        plain = {identifier(name): name for name in plan.columns}
        widened = {f"({identifier(name)}::BIGINT)": name for name in types if pa.types.is_integer(types[name])}
        self._named = {name: plain[sql] for name, sql in plan.expressions.items() if sql in plain}
        self._widened = {name: widened[sql] for name, sql in plan.expressions.items() if sql in widened}
        computed = ", ".join(
            f"{sql} AS {identifier(name)}"
            for name, sql in plan.expressions.items()
            if name not in self._named and name not in self._widened
        )
        self._computed = f"SELECT {computed} FROM rows" if computed else ""

    def read(self, share: Share) -> Iterator[pa.Table]:
        """The events of a share with all columns, in tables of a bounded size.

        Raises OSError or ArrowInvalid if a file cannot be read.
        """
        plan = self._plan
        files = file_system(plan.archive, plan.storage_options)
        tables = read_slices(files, share.slices, plan.schema, "hour", [(share.first, share.last)])
        for archived in join_chunks(tables):
            rows = self._choose(archived.rename_columns(list(plan.columns)), share)
            rows = add_lookup_columns(self._connection, rows, plan.lookups, plan.pinned)
            for name, of in self._named.items():
                rows = rows.append_column(name, rows[of])
            for name, of in self._widened.items():
                rows = rows.append_column(name, rows[of].cast(pa.int64()))
            if self._computed:
                computed = query(self._connection, self._computed, rows)
                for name in computed.column_names:
                    rows = rows.append_column(name, computed[name])
            if share.parts > 1:
                # Events without an id may be in any part.
                of = f"CASE WHEN {ID} IS NULL THEN {OFFSET} % {share.parts} ELSE hash({ID}) % {share.parts} END"
                kept = query(self._connection, f"SELECT {of} = {share.part} AS kept FROM rows", rows)["kept"]
                rows = rows.filter(kept)
            yield rows

    def query_files(self, share: Share) -> Iterator[str] | None:
        """The queries by which DuckDB reads the events of ``share`` to fold them. None: ``read`` gives all columns."""
        files = self._plan.files
        return files.of(share, self._plan.hours, self._plan.cutoff) if files else None

    def _choose(self, rows: pa.Table, share: Share) -> pa.Table:
        """Of the archived ``rows``, those of the hours of the share, up to the cutoff."""
        if pc.greater(pc.max(rows[SEQUENCE]), self._plan.cutoff).as_py():
            rows = rows.filter(pc.less_equal(rows[SEQUENCE], self._plan.cutoff))
        hours = pa.array([one for one in self._plan.hours if share.first <= one <= share.last])
        if not pc.all(pc.is_in(pc.unique(rows[HOUR]), hours)).as_py():
            rows = rows.filter(pc.is_in(rows[HOUR], hours))
        if PLACE in rows.column_names and rows[PLACE].null_count:  # Null is 0: an older version has archived it.
            at = rows.column_names.index(PLACE)
            rows = rows.set_column(at, PLACE, pc.fill_null(rows[PLACE], 0))
        return rows
