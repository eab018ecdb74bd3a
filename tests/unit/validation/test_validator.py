"""Each record is accepted or rejected as plain Python, one record at a time, would decide it."""

import json
import pickle
import re
from datetime import UTC, datetime, timedelta
from decimal import ROUND_FLOOR, Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hourline_core.formats.files.typed_row import TypedRow
from hourline_core.formats.json.decoder import JsonDecoder
from hourline_core.model import Source
from hourline_core.model.scratch_columns import (
    ARRIVED,
    EVENT_TIME,
    HEADERS,
    HOUR,
    KEY,
    OUTCOME,
    PLACE,
    REASON,
    RECORD_TIMESTAMP,
    VALUE,
)
from hourline_core.validation.validator import Validator, is_validated_natively
from tests.support.examples import examples
from tests.support.validated_sources import EPOCH, NOW, RECORDS, SOURCES, as_table, record_tables

_ISO = re.compile(r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d{1,6})?)\d*(Z|[+-]\d\d:\d\d)?", re.ASCII)
_WANT = {
    "iso": "ISO text with seconds and an offset, such as 2013-01-05T14:30:00Z (without an offset: declare encoding: "
    "local and a zone)",
    "local": "ISO text without an offset, such as 2013-01-05T14:30:00",
    "epoch_seconds": "seconds since 1970",
    "epoch_milliseconds": "milliseconds since 1970",
}


@settings(max_examples=examples(60), deadline=None)
@pytest.mark.parametrize("name", SOURCES)
@given(data=st.data())
def test_a_record_is_decided_as_plain_python_decides(name: str, data: st.DataObject) -> None:
    source = SOURCES[name]
    records = data.draw(record_tables(source))
    validated = Validator(source).validate(records).to_pylist()
    for record, got in zip(records.to_pylist(), validated, strict=True):
        assert {column: got[column] for column in record if column != VALUE} == {
            column: value for column, value in record.items() if column != VALUE
        }
        outcome, reason, moment, fields = decide(source, record)
        assert (got[OUTCOME], got[REASON]) == (outcome, reason)
        assert (got[EVENT_TIME], got[PLACE]) == (moment, 0)
        assert got[HOUR] == (moment and moment.replace(minute=0, second=0, microsecond=0))
        assert {field: got[field] for field in source.fields} == fields
        is_kept = outcome == "rejected" or (outcome == "accepted" and source.raw)
        assert got[VALUE] == (record[VALUE] if is_kept else None)


Decision = tuple[str, str | None, datetime | None, dict[str, Any]]


def decide(source: Source, record: dict[str, Any]) -> Decision:
    """The outcome, reason, event time and fields of a record. The decoder's own tests are about what it decodes."""
    nothing = dict.fromkeys(source.fields)
    value = record[VALUE]
    if value is None:
        return "tombstone", None, None, nothing
    if dict(record[HEADERS] or []).get("content-type") == b"text/csv" and value:
        value = TypedRow(source.fields)(value)
    decoded = JsonDecoder(source.fields).decode(pa.array([value], pa.binary()))
    fields = {name: column[0].as_py() for name, column in decoded.columns.items()}
    moment, reason = None, "empty value" if value == b"" else decoded.reasons[0].as_py() or fault_of_key(source, record)
    if reason is None and source.fields["at"].required and fields["at"] is None:
        reason = "required field 'at' is missing or null"
    if reason is None:
        is_of_record = source.event_time.expression == "record.timestamp"
        time = record[RECORD_TIMESTAMP] if is_of_record else fields["at"]
        micros, reason = read_time(source, time, record[ARRIVED])
        moment = None if reason else EPOCH + timedelta(microseconds=micros)
    return ("rejected", reason, None, nothing) if reason else ("accepted", None, moment, fields)


def fault_of_key(source: Source, record: dict[str, Any]) -> str | None:
    key, size = record[KEY], {"int": 4, "long": 8}.get(source.key_type)
    if key is None:
        return None
    if size and len(key) != size:
        return f"key: got {len(key)} bytes, want the {size} of a big-endian {source.key_type}"
    if source.key_type == "string" and key.decode(errors="replace").encode() != key:
        return "key: got invalid UTF-8, want string"
    return None


def read_time(source: Source, value: Any, arrived: datetime) -> tuple[int, str | None]:
    """Microseconds since 1970, and why the event is rejected for its time."""
    time = source.event_time
    if value is None:
        return 0, f"event time: {time.expression} is null"
    micros = micros_of(source, value)
    if micros is None:
        got = f"{value:f}" if isinstance(value, Decimal) else str(value)
        return 0, f"event time: got {got[:80]}, want {_WANT[time.encoding]}"
    ahead = source.ahead.total_seconds() / 3600
    first = source.first_time or datetime(2, 1, 1, tzinfo=UTC)
    fault = None
    if micros > in_micros(arrived + source.ahead):
        fault = f"more than {ahead:g} h ahead of its arrival"
    elif micros < in_micros(first):
        fault = f"before {first:%Y-%m-%dT%H:%MZ}" if first.year > 999 else f"before {first.year:04}-01-01T00:00Z"
    elif source.latest and micros >= in_micros(source.latest):
        fault = f"not before {source.latest:%Y-%m-%dT%H:%MZ}"
    return micros, fault and f"event time {to_the_second(micros)} is {fault}"


def micros_of(source: Source, value: Any) -> int | None:
    time = source.event_time
    if isinstance(value, datetime):
        return in_micros(value)
    if time.encoding.startswith("epoch"):
        return micros_of_number(value, 6 if time.encoding == "epoch_seconds" else 3)
    match = _ISO.fullmatch(value)
    if match is None or (match[2] is None) != (time.encoding == "local"):
        return None
    local = datetime.fromisoformat(match[1])
    if time.zone:
        offset = local.replace(tzinfo=ZoneInfo(time.zone)).utcoffset()
    else:
        offset = datetime.fromisoformat(f"2000-01-01T00:00:00{match[2]}").utcoffset()
    return in_micros(local.replace(tzinfo=UTC)) - (offset or timedelta(0)) // timedelta(microseconds=1)


def micros_of_number(value: Any, digits: int) -> int | None:
    if isinstance(value, str) and not re.fullmatch(r"-?[0-9]{1,20}(\.[0-9]+)?", value):
        return None
    exact = Decimal(repr(value) if isinstance(value, float) else value)
    if abs(exact) >= Decimal(250_000_000_000) * 10 ** (6 - digits):
        return None
    return int(exact.scaleb(digits).to_integral_value(ROUND_FLOOR))


def in_micros(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(microseconds=1)


def to_the_second(micros: int) -> str:
    days, second = divmod(micros // 1_000_000, 86_400)
    year = 1970
    # The Gregorian calendar repeats each 400 years, so that any year has one like it that a datetime has.
    cycles = 0
    while not -719_000 < days < 2_900_000:
        step = 1 if days < 0 else -1
        days, cycles = days + step * 146_097, cycles - step
    day = datetime(year, 1, 1, tzinfo=UTC) + timedelta(days=days, seconds=second)
    of_year = day.year + 400 * cycles
    written = f"{of_year:04}" if of_year >= 0 else f"-{-of_year:04}"
    return f"{written}-{day:%m-%dT%H:%M:%S}Z"


def test_no_records_have_the_columns_of_validated_ones() -> None:
    source = SOURCES["milliseconds"]
    none, one = (
        Validator(source).validate(as_table(records))
        for records in ([], [{VALUE: b'{"at": 1774787400123}', ARRIVED: NOW}])
    )
    assert none.num_rows == 0
    assert none.schema == one.schema


def test_records_of_several_chunks_stay_in_order() -> None:
    source = SOURCES["milliseconds"]
    values = [b'{"at": 1774787400123}', None, b"", b'{"at": 1}']
    chunks = [as_table([{VALUE: value, ARRIVED: NOW}]) for value in values]
    validated = Validator(source).validate(pa.concat_tables(chunks))
    assert validated[OUTCOME].to_pylist() == ["accepted", "tombstone", "rejected", "rejected"]


def test_an_event_of_which_it_is_not_known_when_it_arrived_is_not_ahead() -> None:
    records = as_table([{VALUE: b'{"at": 1774787400123}', ARRIVED: None}])
    assert Validator(SOURCES["milliseconds"]).validate(records)[OUTCOME].to_pylist() == ["accepted"]


def test_an_event_that_is_no_row_of_a_file_has_its_json_types() -> None:
    source = SOURCES["milliseconds"]
    record = {VALUE: b'{"at": "1774787400123"}', ARRIVED: NOW, HEADERS: [("content-type", b"text/csv")]}
    records = as_table([{**record, "_hourline_timestamp_type": "create"}, record])
    assert Validator(source).validate(records)[OUTCOME].to_pylist() == ["rejected", "accepted"]


def test_a_number_below_a_microsecond_is_cut_off_towards_the_earlier_one() -> None:
    source = SOURCES["seconds_as_text"].model_copy(update={"earliest": datetime(1, 1, 1, tzinfo=UTC)})
    numbers = ["1.2345679999999999", "-0.0000001", "-1.5"]
    records = as_table([{VALUE: json.dumps({"at": number}).encode(), ARRIVED: NOW} for number in numbers])
    times = Validator(source).validate(records)[EVENT_TIME].to_pylist()
    assert [in_micros(time) for time in times] == [1_234_567, -1, -1_500_000]


@pytest.mark.parametrize(
    ("change", "is_native"),
    [
        ({}, True),
        ({"event_time": " `AT` "}, True),
        ({"event_time": "At"}, True),
        ({"event_time": "(at)"}, False),
        ({"event_time": "coalesce(at, at)"}, False),
        ({"event_time": " Record.timestamp"}, True),
        ({"event_time": "record.timestamp", "explode": {"tag": "tags"}}, False),
        ({"event_time": "true"}, False),
        ({"branch": "amount > 1"}, False),
        ({"explode": {"tag": "tags"}}, False),
    ],
)
def test_a_source_that_needs_spark_sql_is_not_validated_natively(change: dict[str, Any], is_native: bool) -> None:
    fields = {"at": "timestamp", "amount": "int", "tags": "array<string>"}
    declared = {"name": "s", "topic": "t", "fields": fields, "event_time": "at", **change}
    assert is_validated_natively(Source.model_validate(declared)) == is_native


def test_a_copy_in_another_process_decides_alike() -> None:
    copy = pickle.loads(pickle.dumps(Validator(SOURCES["iso"])))  # noqa: S301 (of this test)
    records = as_table([{VALUE: b'{"at": "2026-03-29T12:00:00Z"}', ARRIVED: NOW}])
    assert copy.validate(records) == Validator(SOURCES["iso"]).validate(records)
    assert records.schema == RECORDS
