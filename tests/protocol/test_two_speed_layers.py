"""A speed layer that slept while another one started changes nothing, whichever of its commits comes next. On real
Delta, without Spark.
"""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from hourline_core.compute.aggregation import AggregationPlan
from hourline_core.errors import ConflictError
from hourline_core.ledger.layout import REJECTED_SCHEMA, TIMESTAMP, Layout
from hourline_core.ledger.progress_columns import PROGRESS_SCHEMA
from hourline_core.model import EventTime, Field, Measure, Metric, Source
from speed_layer.commit.source_tables import SourceTables, open_source_tables

SOURCE = Source(name="clicks", topic="clicks", fields={"n": Field(type="long")}, event_time=EventTime(expression="at"))
METRIC = Metric(name="totals", source="clicks", dimensions={}, measures={"n": Measure(kind="count")})


def start(folder: Path) -> SourceTables:
    aggregation = AggregationPlan(SOURCE, METRIC, pa.schema({"hour": TIMESTAMP, "n": pa.int64()}))
    return open_source_tables(Layout(str(folder)), SOURCE, pa.schema({"n": pa.int64()}), [aggregation])


def writes(source_tables: SourceTables) -> Iterator[tuple[DeltaTable, pa.Schema]]:
    yield source_tables.events, source_tables.events_schema
    yield source_tables.rejected, REJECTED_SCHEMA
    for name, table in source_tables.provisional.items():
        yield table, source_tables.provisional_schemas[name]
    yield source_tables.progress.table, PROGRESS_SCHEMA


@pytest.mark.parametrize("table", range(4), ids=["events", "rejected", "provisional", "progress"])
def test_who_slept_through_the_start_of_another_can_write_to_no_table(tmp_path: Path, table: int) -> None:
    asleep = start(tmp_path)
    start(tmp_path)  # and it has written nothing yet
    handle, schema = list(writes(asleep))[table]
    with pytest.raises(ConflictError, match="another process has written"):
        write(asleep, handle, schema)


def test_the_second_of_two_goes_on_as_if_the_first_had_not_been(tmp_path: Path) -> None:
    first = start(tmp_path)
    write(first, *next(writes(first)))  # an unfinished micro-batch
    second = start(tmp_path)
    assert second.first_sequence == first.first_sequence + 1
    assert second.events.to_pyarrow_table().num_rows == 0
    for handle, schema in writes(second):
        write(second, handle, schema)
    # That micro-batch says that it wrote no metrics, so the start has a row, too, which says which ones it writes.
    assert start(tmp_path).first_sequence == second.first_sequence + 2


def write(source_tables: SourceTables, handle: DeltaTable, schema: pa.Schema) -> None:
    """One row of nulls and empty lists: what it holds does not matter."""
    columns = pa.schema([column for column in schema if column.name != "sequence"])
    row = pa.Table.from_pylist([{column.name: [] for column in columns if pa.types.is_list(column.type)}], columns)
    source_tables.append(handle, schema, row, source_tables.first_sequence)
