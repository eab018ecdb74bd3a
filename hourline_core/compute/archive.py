"""Converts events and rejected records between Spark's frames and the archive, where some columns have other names."""

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (as everywhere in Spark code)
from pyspark.sql.pandas.types import from_arrow_type

from hourline_core.ledger.layout import EVENT_COLUMNS, EVENT_SCHEMA, REJECTED_COLUMNS, stored_names
from hourline_core.model import Source
from hourline_core.model.scratch_columns import PLACE, RECORD, SCRATCH_PREFIX

_RECORD_TYPE: pa.StructType = EVENT_SCHEMA.field(RECORD).type
_OWN = [name for name in EVENT_COLUMNS if name not in (RECORD, PLACE)]


def from_archive(events: DataFrame, source: Source) -> DataFrame:
    """Archived events with Hourline's own columns under their internal names, and the fields as declared.

    The parts of ``record`` are null, and the place is 0, if no micro-batch has written these columns yet: an older
    version made the archive.
    """
    place = F.coalesce(PLACE, F.lit(0)) if PLACE in events.columns else F.lit(0)
    if RECORD not in events.columns:
        events = events.withColumn(RECORD, F.lit(None).cast(from_arrow_type(_RECORD_TYPE, prefer_timestamp_ntz=False)))
    names = {name: f"{SCRATCH_PREFIX}{name}" for name in _OWN}
    fields = {stored: name for name, stored in stored_names(source).items()}
    parts = {f"{SCRATCH_PREFIX}{part.name}": F.col(f"{RECORD}.{part.name}") for part in _RECORD_TYPE}
    return events.withColumns({PLACE: place, **parts}).drop(RECORD).withColumnsRenamed(names).withColumnsRenamed(fields)


def events_to_archive(events: pa.Table, source: Source) -> pa.Table:
    """Accepted events (fields, and the columns of the archive under their internal names) as they are stored."""
    names = {f"{SCRATCH_PREFIX}{name}": name for name in _OWN} | stored_names(source)
    parts = [events[f"{SCRATCH_PREFIX}{part.name}"].cast(part.type) for part in _RECORD_TYPE]
    record = pc.make_struct(*parts, field_names=[part.name for part in _RECORD_TYPE])
    return events.rename_columns([names.get(name, name) for name in events.column_names]).append_column(RECORD, record)


def rejected_to_archive(records: pa.Table) -> pa.Table:
    """Rejected records (the columns of their table under their internal names) as they are stored."""
    names = {f"{SCRATCH_PREFIX}{name}": name for name in REJECTED_COLUMNS if name != PLACE} | {PLACE: PLACE}
    own = [name for name in records.column_names if name in names]
    return records.select(own).rename_columns([names[name] for name in own])
