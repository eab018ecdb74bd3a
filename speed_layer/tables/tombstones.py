"""Reads the tombstones of a table, which are among the rejected records of its source."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from hourline_core.ledger.layout import REJECTED_SCHEMA, Layout
from hourline_core.model import Project, Source
from hourline_core.model.decoding import TOMBSTONE
from hourline_core.model.windows import HOURLY
from hourline_core.storage.data_files import file_system
from hourline_core.storage.file_ranges import file_ranges
from hourline_core.storage.file_slices import FileSlice, read_slices
from hourline_core.storage.opening import open_table
from speed_layer.tables.plan import TablePlan

TOMBSTONES = pa.schema(
    [
        REJECTED_SCHEMA.field(name)
        for name in ("sequence", "topic_id", "partition", "offset", "key", "decoding", "timestamp", "arrived")
    ]
)
"""The columns of rejected records that are read."""
_LAST_TIME = datetime.max.replace(tzinfo=UTC)


def open_tombstones(project: Project, table: Source, plan: TablePlan) -> DeltaTable | None:
    """The table with the tombstones. None: the key is made of fields, so there are none. Raises TableError."""
    layout = Layout.of(project)
    return open_table(layout.rejected(table), layout.storage_options) if plan.key_type is not None else None


def find_hours(plan: TablePlan, rejected: DeltaTable | None, after: int, up_to: int) -> set[datetime]:
    """The hours (UTC) at whose times tombstones count, of the sequences above ``after``, up to ``up_to``. Those before
    the earliest event that is allowed delete nothing. Raises OSError and ArrowInvalid.
    """
    if rejected is None or not rejected.file_uris():
        return set()
    files = [of for of in file_ranges(rejected, "sequence") if of.last > after and of.first <= up_to]
    slices = [FileSlice(of.path, 0, of.rows) for of in files]
    found: set[datetime] = set()
    for rows in read_slices(
        file_system(plan.rejected, plan.table.storage_options), slices, TOMBSTONES, "sequence", [(after + 1, up_to)]
    ):
        of_step = pc.and_(pc.greater(rows["sequence"], after), pc.less_equal(rows["sequence"], up_to))
        times = times_of(plan, keep_tombstones(plan, rows.filter(of_step)))
        found |= {HOURLY.assign(time) for time in times.drop_null().to_pylist()}
    return found


def keep_tombstones(plan: TablePlan, rows: pa.Table) -> pa.Table:
    """Those of rejected ``rows`` that are tombstones, and do not count before the earliest event that is allowed."""
    rows = rows.filter(pc.equal(rows["decoding"], TOMBSTONE))
    return rows.filter(pc.greater_equal(times_of(plan, rows), plan.earliest)) if plan.earliest else rows


def times_of(plan: TablePlan, rows: pa.Table) -> pa.ChunkedArray:
    """When each of ``rows``, with ``timestamp`` and ``arrived``, counts: a tombstone of next year would delete the row
    for ever.
    """
    latest = pc.add(rows["arrived"], plan.ahead)
    return pc.if_else(pc.less(rows["timestamp"], latest), rows["timestamp"], latest)


def choose_tombstones(rejected: DeltaTable | None, first: datetime) -> list[FileSlice]:
    """The files that may have tombstones which count from ``first`` (UTC) on."""
    if rejected is None or not rejected.file_uris():
        return []
    files = pa.table(rejected.get_add_actions(flatten=True))
    # An imported record has no timestamp, and is no tombstone.
    latest = files["max.timestamp"].to_pylist() if "max.timestamp" in files.column_names else [None] * len(files)
    there = zip(files["path"].to_pylist(), files["num_records"].to_pylist(), latest, strict=True)
    return [FileSlice(path, 0, rows) for path, rows, time in there if time is not None and time >= first]


def read_tombstones(plan: TablePlan, files: Sequence[FileSlice], first: datetime) -> Iterator[pa.Table]:
    """Rejected records, with all tombstones in ``files`` that count from ``first`` (UTC) on. Raises OSError and
    ArrowInvalid.
    """
    if files:
        system = file_system(plan.rejected, plan.table.storage_options)
        yield from read_slices(system, files, TOMBSTONES, "timestamp", [(first, _LAST_TIME)])
