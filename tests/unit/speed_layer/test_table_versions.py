"""The versions of the rows of a table that tasks hold."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from hourline_core.compute.worker_database import connect
from hourline_core.ledger.layout import TIMESTAMP
from hourline_core.model.scratch_columns import DUPLICATE, EVENT_TIME, RECORD, SEQUENCE
from hourline_core.model.table import KEY_FIELD
from speed_layer.derived.read_events import ADDRESS
from speed_layer.derived.rows import WHOLE
from speed_layer.tables.plan import ArchiveColumns, TablePlan
from speed_layer.tables.versions import Versions


@pytest.mark.parametrize("field", [KEY_FIELD, KEY_FIELD.upper(), "status"])
def test_the_key_of_the_record_is_not_a_field_of_its_name(field: str) -> None:
    types: dict[str, Any] = {
        SEQUENCE: pa.int64(),
        EVENT_TIME: TIMESTAMP,
        DUPLICATE: pa.bool_(),
        **dict(zip(ADDRESS, (pa.string(), pa.int32(), pa.int64(), pa.int32()), strict=True)),
        RECORD: pa.struct({"key": pa.binary()}),
        field: pa.string(),
        "amount": pa.int64(),
    }
    plan = TablePlan(
        source="orders",
        table=ArchiveColumns("", {}, {}, types),
        rejected="",
        ahead=timedelta(0),
        earliest=None,
        key_type="string",
        key=(KEY_FIELD,),
        columns=("amount",),
        event_time="orders_event_time",
        deleted=f"\"{field}\" = 'gone'",
    )
    now = datetime(2026, 3, 1, tzinfo=UTC)
    rows = [(1, now, False, "t", 0, n, 0, {"key": key}, of, n) for n, (key, of) in enumerate(EVENTS)]
    columns = zip(zip(*rows, strict=True), types.values(), strict=True)
    archived = pa.table([pa.array(column, of) for column, of in columns], names=[*types])
    connection = connect()
    versions = Versions(connection, plan, (0, 1), WHOLE, further={"v": f'"{field}"'})
    versions.hold_events([archived])
    held = connection.execute("SELECT k0, v, deleted FROM events ORDER BY a2").fetchall()
    assert held == [("one", "open", False), ("two", "gone", True)]


EVENTS = [(b"one", "open"), (b"two", "gone")]
