"""Records are validated alike without Spark, and in Spark with each way of declaring the same event time."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from hourline_core.compute.validation import validate
from hourline_core.model import Project, Settings, Source
from hourline_core.model.scratch_columns import OFFSET, REASON, VALUE_CRC, VALUE_SIZE
from hourline_core.runtime.spark import spark_session
from hourline_core.validation.validator import Validator
from tests.support.examples import examples
from tests.support.validated_sources import SOURCES, record_tables


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    declared = Settings.model_validate({"spark": {"master": "local[2]"}})
    session = spark_session(Project(tmp_path_factory.mktemp("validation"), declared, {}, {}), "test")
    yield session
    session.stop()


@pytest.mark.parametrize("is_evaluated", [False, pytest.param(True, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", SOURCES)
@settings(max_examples=examples(2), deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_spark_validates_as_native_code_does(
    spark: SparkSession, name: str, is_evaluated: bool, data: st.DataObject
) -> None:
    """Also if Spark evaluates the event time, which is the field itself."""
    source = SOURCES[name]
    records = pa.concat_tables(data.draw(st.lists(record_tables(source), min_size=4, max_size=4)))
    place = records.schema.get_field_index(OFFSET)
    records = records.set_column(place, OFFSET, pa.array(range(records.num_rows), pa.int64())).combine_chunks()
    native = Validator(source).validate(records)
    field = source.event_time.expression
    expression = f"if(true, {field}, null)"
    if is_evaluated:
        as_expression = source.event_time.model_copy(update={"expression": expression})
        source = source.model_copy(update={"event_time": as_expression})
    by_spark = in_spark(spark, records, source)
    assert by_spark.schema.names == native.schema.names
    assert by_spark.schema.types == native.schema.types
    for got, want in zip(as_rows(by_spark), as_rows(native), strict=True):
        got[REASON] = got[REASON] and got[REASON].replace(expression, field)
        assert got == want


def in_spark(spark: SparkSession, records: pa.Table, source: Source) -> pa.Table:
    validated = validate(spark.createDataFrame(records), source)
    return validated.drop(VALUE_CRC, VALUE_SIZE).toArrow()


def as_rows(table: pa.Table) -> list[dict[str, Any]]:
    return sorted(table.to_pylist(), key=lambda row: row[OFFSET])
