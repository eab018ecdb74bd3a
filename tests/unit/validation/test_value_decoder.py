"""Rows of imported files are read as JSON or CSV, whatever the format of the source's topic is."""

import json

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from hourline_core.model.fields import Field
from hourline_core.validation.value_decoder import ValueDecoder, Values
from tests.support.avro import format_of, record_schema, write_avro

SCHEMA = record_schema(n="int", city="string")
FIELDS = {"n": Field(type="int"), "city": Field(type="string")}


@st.composite
def records(draw: st.DrawFn) -> tuple[bytes, bool, bool, int]:
    """A value, whether it is a row of CSV, whether it is imported, and its number."""
    number = draw(st.integers(-200, 200))
    of_csv = json.dumps({"n": str(number), "city": "Köln"}).encode()
    of_file = json.dumps({"n": number, "city": "Köln"}).encode()
    of_topic = write_avro(SCHEMA, {"n": number, "city": "Köln"})
    return draw(
        st.sampled_from(
            [(of_csv, True, True, number), (of_file, False, True, number), (of_topic, False, False, number)]
        )
    )


@given(st.lists(records(), max_size=8))
def test_each_record_is_read_as_what_it_is(given: list[tuple[bytes, bool, bool, int]]) -> None:
    values, is_csv, is_imported, numbers = zip(*given, strict=True) if given else ((), (), (), ())
    decoded = ValueDecoder(format_of(SCHEMA), FIELDS).decode(
        Values(pa.array(values, pa.binary()), pa.array(is_csv, pa.bool_()), pa.array(is_imported, pa.bool_()))
    )
    assert decoded.reasons.to_pylist() == [None] * len(given)
    assert pa.table(decoded.columns).to_pylist() == [{"n": number, "city": "Köln"} for number in numbers]


def test_a_row_of_a_file_is_no_record_of_the_topic() -> None:
    row, record = b'{"n": 1, "city": "Bonn"}', write_avro(SCHEMA, {"n": 1, "city": "Bonn"})
    decoded = ValueDecoder(format_of(SCHEMA), FIELDS).decode(
        Values(pa.array([row, record]), None, pa.array([False, True]))
    )
    assert [reason is None for reason in decoded.reasons.to_pylist()] == [False, False]
