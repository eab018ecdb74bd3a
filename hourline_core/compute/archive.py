"""Converts events and rejected records between Spark's frames and the archive, where some columns have other names."""

from collections.abc import Collection

import pyarrow as pa
from pyspark.sql import DataFrame

from hourline_core.ledger.layout import EVENT_COLUMNS, REJECTED_COLUMNS, stored_names
from hourline_core.model import Source
from hourline_core.model.scratch_columns import SCRATCH_PREFIX


def from_archive(events: DataFrame, source: Source) -> DataFrame:
    """Archived events with Hourline's own columns under their internal names, and the fields as declared."""
    own = {name: f"{SCRATCH_PREFIX}{name}" for name in EVENT_COLUMNS}
    fields = {stored: name for name, stored in stored_names(source).items()}
    return events.withColumnsRenamed(own).withColumnsRenamed(fields)


def events_to_archive(events: pa.Table, source: Source) -> pa.Table:
    """Accepted events (fields, and the columns of the archive under their internal names) as they are stored."""
    fields = events.rename_columns([stored_names(source).get(name, name) for name in events.column_names])
    return _own_columns_stored(fields, EVENT_COLUMNS)


def rejected_to_archive(records: pa.Table) -> pa.Table:
    """Rejected records (the columns of their table under their internal names) as they are stored."""
    own = [name for name in records.column_names if name.startswith(SCRATCH_PREFIX)]
    return _own_columns_stored(records.select(own), REJECTED_COLUMNS)


def _own_columns_stored(rows: pa.Table, columns: Collection[str]) -> pa.Table:
    stored = {f"{SCRATCH_PREFIX}{name}": name for name in columns}
    return rows.rename_columns([stored.get(name, name) for name in rows.column_names])
