"""Plans what tasks read of a source that is a table."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import pyarrow as pa
from deltalake import DeltaTable

from hourline_core.compute.derived_inputs import find_unfit_deletion, translate_input
from hourline_core.errors import DeclarationError
from hourline_core.ledger.layout import Layout, archived_names
from hourline_core.model import Project, Source
from hourline_core.model.scratch_columns import DUPLICATE, EVENT_TIME, HOUR, RECORD, SEQUENCE
from hourline_core.model.table import Table
from hourline_core.sql.literals import identifier
from speed_layer.derived.decoding import DecodedAnew, plan_decoding
from speed_layer.derived.inputs import Input
from speed_layer.derived.read_events import ADDRESS


@dataclass(frozen=True)
class ArchiveColumns:
    """What tasks read of an archive."""

    archive: str
    """The address of its events table."""
    storage_options: Mapping[str, str] = field(repr=False)
    columns: Mapping[str, str]
    """By Hourline's names, the name of each column in the archive."""
    types: Mapping[str, pa.DataType]
    """By column, as it is archived."""
    anew: DecodedAnew | None = None
    """How events are decoded that another declaration has archived. None: there are none."""


@dataclass(frozen=True)
class TablePlan:
    """A source that is a table."""

    source: str
    """The name of the source that is the table."""
    table: ArchiveColumns
    rejected: str
    """The address of the table of the input's rejected records, which has its tombstones."""
    ahead: timedelta
    """The maximum time by which a tombstone counts after its arrival."""
    earliest: datetime | None
    """The earliest time of an event of the table. None: there is no bound."""
    key_type: str | None
    """That of the record's key, if it is the key of the table. None: the key is made of fields, and a tombstone has
    none.
    """
    key: Sequence[str]
    """The fields of the key."""
    columns: Sequence[str]
    event_time: str
    """The field with the event time of the row."""
    deleted: str | None
    """The condition under which an event deletes a row, in DuckDB's SQL. None: none does."""


def plan_table(project: Project, source: Source, rows: Table, table: Input) -> TablePlan:
    """The plan of ``table``, of which ``rows`` are the events of ``source``.

    Raises DeclarationError if DuckDB does not compute the condition under which a row is deleted, and SourceError if
    the archive has events that another declaration has made.
    """
    if mistake := find_unfit_deletion(source):
        raise DeclarationError(
            f"source '{source.name}' cannot be made of '{table.source.name}': {source.derivation}.deleted: {mistake}"
        )
    layout, of = Layout.of(project), table.source
    native = translate_input(of, rows.deleted) if rows.deleted else None
    deleted = native and native.sql
    needed = {name for name in (EVENT_TIME, *of.event_fields) if identifier(name) in (deleted or "")}
    own = [HOUR, SEQUENCE, EVENT_TIME, DUPLICATE, *ADDRESS, *([RECORD] if rows.is_by_record_key else [])]
    columns = [*own, *sorted({*rows.deciding_fields, *needed} - {*own})]
    return TablePlan(
        source=of.name,
        table=columns_of(layout, of, table.events, columns, plan_decoding(project, source, table)),
        rejected=layout.rejected(of),
        ahead=of.ahead,
        earliest=of.first_time,
        key_type=of.key_type if rows.is_by_record_key else None,
        key=rows.key_fields,
        columns=rows.columns,
        event_time=f"{of.name}_event_time",
        deleted=deleted,
    )


def columns_of(
    layout: Layout, source: Source, events: DeltaTable, names: Iterable[str], anew: DecodedAnew | None = None
) -> ArchiveColumns:
    """What tasks read of the ``events`` of ``source``: the columns with these ``names``."""
    there = pa.schema(events.schema().to_arrow())
    archived = archived_names(source, there.names) | {DUPLICATE: "duplicate", RECORD: "record"}
    columns = {name: archived[name] for name in names}
    types = {name: there.field(stored).type for name, stored in columns.items()}
    return ArchiveColumns(events.table_uri, layout.storage_options, columns, types, anew)
