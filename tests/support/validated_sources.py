"""Sources that can be validated without Spark SQL, and records for them: good ones, and each kind of bad one."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from hourline_core.formats.arrow_types import MOMENT
from hourline_core.model import Source
from hourline_core.model.scratch_columns import (
    ARRIVED,
    HEADERS,
    KEY,
    OFFSET,
    PARTITION,
    RECORD_TIMESTAMP,
    RECORD_TIMESTAMP_TYPE,
    TOPIC,
    VALUE,
)

NOW = datetime(2026, 3, 29, 12, 30, 0, 123456, tzinfo=UTC)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
RECORDS = pa.schema(
    [
        (KEY, pa.binary()),
        (VALUE, pa.binary()),
        (HEADERS, pa.map_(pa.string(), pa.binary())),
        (RECORD_TIMESTAMP, MOMENT),
        (RECORD_TIMESTAMP_TYPE, pa.string()),
        (TOPIC, pa.string()),
        (PARTITION, pa.int32()),
        (OFFSET, pa.int64()),
        (ARRIVED, MOMENT),
    ]
)
"""The columns of records as they are read."""

_BOUNDS = {"earliest": "2001-01-01T00:00:00Z", "latest": "2026-03-29T20:00:00Z"}


def _source(at: Any, time: Any, **more: Any) -> Source:
    fields = {"at": at, "amount": "decimal(10,2)", "tags": "array<struct<name: string, m: map<string, int>>>"}
    return Source.model_validate({"name": "s", "topic": "t", "fields": fields, "event_time": time, **more})


def _epoch(encoding: str) -> dict[str, str]:
    return {"expression": "at", "encoding": encoding}


SOURCES = {
    "milliseconds": _source("long", _epoch("epoch_milliseconds"), key_type="long"),
    "milliseconds_of_reals": _source("double", _epoch("epoch_milliseconds"), key_type="int"),
    "milliseconds_as_text": _source("string", _epoch("epoch_milliseconds"), earliest="0001-01-01T00:00:00Z"),
    "milliseconds_of_decimals": _source("decimal(38,9)", _epoch("epoch_milliseconds"), ahead="0s"),
    "seconds": _source("int", {**_epoch("epoch_seconds"), "expression": "`AT`"}, ahead="90m", **_BOUNDS),
    "seconds_of_reals": _source({"type": "double", "required": True}, _epoch("epoch_seconds"), raw=False),
    "seconds_of_floats": _source("float", _epoch("epoch_seconds")),
    "seconds_as_text": _source("string", _epoch("epoch_seconds"), **_BOUNDS),
    "seconds_of_decimals": _source("decimal(20,8)", _epoch("epoch_seconds"), earliest="0001-01-01T00:00:00Z"),
    "seconds_in_any_value": _source("json", _epoch("epoch_seconds")),
    "iso": _source("string", " At ", key_type="string", **_BOUNDS),
    "iso_without_bounds": _source("string", "at", ahead="36500d"),
    "timestamps": _source("timestamp", "at", key_type="long", **_BOUNDS),
    "record_timestamp": _source("timestamp", "record.timestamp", latest=NOW.isoformat()),
    "timestamps_of_seconds": _source({"type": "timestamp", "encoding": "epoch_seconds"}, "at"),
    "local_in_berlin": _source("string", {"expression": "at", "encoding": "local", "zone": "Europe/Berlin"}),
    "local_in_kolkata": _source(
        {"type": "string", "required": True},
        {"expression": "at", "encoding": "local", "zone": "Asia/Kolkata"},
        latest="2026-03-29T20:00:00Z",
    ),
    "local_field": _source({"type": "timestamp", "encoding": "local", "zone": "Europe/Berlin"}, "at"),
}

_EDGES = [
    NOW,
    NOW + timedelta(minutes=90),
    NOW + timedelta(days=1),
    datetime(2001, 1, 1, tzinfo=UTC),
    datetime(1971, 1, 1, tzinfo=UTC),
    datetime(2026, 3, 29, 20, tzinfo=UTC),
    datetime(2, 1, 1, tzinfo=UTC),
]
_moments = st.one_of(
    st.builds(lambda edge, micros: edge + timedelta(microseconds=micros), st.sampled_from(_EDGES), st.integers(-2, 2)),
    st.datetimes(datetime(2001, 1, 2), datetime(2026, 3, 28), timezones=st.just(UTC)),  # noqa: DTZ001
    st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31), timezones=st.just(UTC)),  # noqa: DTZ001
    # The clocks of Berlin change at 01:00 UTC, and the texts of local times are made of these.
    st.builds(
        lambda day, minutes: day + timedelta(minutes=minutes),
        st.sampled_from([datetime(2025, 3, 30, tzinfo=UTC), datetime(2025, 10, 26, tzinfo=UTC)]),
        st.integers(0, 300),
    ),
)


def _numbers(moment: datetime, digits: int) -> list[str]:
    """Numbers of units of 10 ** ``digits`` microseconds: whole ones first, then exact ones, then more exact ones."""
    micros = (moment - EPOCH) // timedelta(microseconds=1)
    sign, size = "-" * (micros < 0), abs(micros)
    exact = f"{sign}{size // 10**digits}.{size % 10**digits:0{digits}}"
    return [str(micros // 10**digits), exact, f"{exact}1", f"{exact}999"]


def _texts(moment: datetime) -> list[str]:
    """Texts of a time: local ones first, then those with an offset, then one that is none."""
    local = moment.replace(tzinfo=None).isoformat()
    offsets = ("", "Z", "+00:00", "-17:59", "+05:30")
    return [f"{local}{offset}" for offset in offsets] + [f"{local.replace('T', ' ')[:19]}.987654321Z", local[:16]]


def _fitting(source: Source, moment: datetime) -> list[str]:
    """JSON values of ``moment`` that the field of the event time takes."""
    field, time = source.fields["at"], source.event_time
    encoding = field.encoding if field.type == "timestamp" else time.encoding
    if encoding == "local":
        return [json.dumps(_texts(moment)[0])]
    if encoding == "iso":
        return [json.dumps(text) for text in _texts(moment)[1:-1]]
    numbers = _numbers(moment, 6 if encoding == "epoch_seconds" else 3)
    most = {"int": 1, "long": 1, "decimal(20,8)": 3, "decimal(38,9)": 4}.get(field.type, 4)
    return [f'"{number}"' if field.type == "string" else number for number in numbers[:most]]


def _written(moment: datetime) -> list[str]:
    return [*_numbers(moment, 6), *_numbers(moment, 3), *_texts(moment)]


_values = st.one_of(
    _moments.flatmap(lambda moment: st.sampled_from(_written(moment))),
    _moments.flatmap(lambda moment: st.sampled_from([f'"{one}"' for one in _written(moment)])),
    st.integers(-(2**63), 2**63 - 1).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.sampled_from(
        ["null", "true", "{}", "[]", '""', '"soon"', '" 5"', "1e400", "5e9", "-0.0", f'"{"é" * 100}"', f'"{"9" * 30}"']
        + [str(edge + more) for edge in (250_000_000_000, 250_000_000_000_000) for more in (-1, 0, 1)]
        + [str(-edge - more) for edge in (250_000_000_000, 250_000_000_000_000) for more in (-1, 0, 1)]
    ),
)
_others = st.sampled_from(
    [
        "",
        ', "amount": 1.5',
        ', "amount": "x"',
        ', "tags": [{"name": "a", "m": {"b": 1}}, null]',
        ', "tags": [{"name": 1}]',
    ]
)
_rows = st.builds(
    lambda cell: json.dumps({"at": cell, "amount": "2.50"}).encode(),
    _moments.flatmap(lambda moment: st.sampled_from([*_written(moment), "x", None])),
)
_malformed = st.one_of(
    st.sampled_from([b"", b"{}", b"[]", b"null", b"{", b'{"at": 1} x', b'{"at": "\xff"}']), st.binary(max_size=12)
)
_keys = st.one_of(
    st.none(), st.sampled_from([b"", b"key", b"\xff", b"\xed\xa0\x80", b"\0" * 4, b"\xff" * 8]), st.binary(max_size=9)
)
_good_keys = {"binary": _keys, "string": st.just("käse".encode()), "int": st.binary(min_size=4, max_size=4)}
_good_keys["long"] = st.one_of(st.none(), st.binary(min_size=8, max_size=8))


def _object(at: st.SearchStrategy[str], others: st.SearchStrategy[str]) -> st.SearchStrategy[bytes]:
    return st.builds(lambda value, other: f'{{"at": {value}{other}}}'.encode(), at, others)


@st.composite
def _record(draw: st.DrawFn, source: Source) -> dict[str, Any]:
    kind = draw(st.sampled_from(["fitting"] * 6 + ["object", "row", "malformed", "tombstone"]))
    fitting = _moments.flatmap(lambda moment: st.sampled_from(_fitting(source, moment)))
    objects = [_object(fitting, st.just("")), _object(_values, _others)]
    value = draw(
        {"fitting": objects[0], "object": objects[1], "row": _rows, "malformed": _malformed, "tombstone": st.none()}[
            kind
        ]
    )
    is_of_file = kind == "row" or draw(st.booleans())
    headers = {"content-type": b"text/csv"} if kind == "row" else draw(st.sampled_from([None, {}, {"a": b"1"}]))
    return {
        KEY: draw(_good_keys[source.key_type] if kind == "fitting" else _keys),
        VALUE: value,
        HEADERS: None if headers is None else list(headers.items()),
        RECORD_TIMESTAMP: None if is_of_file else NOW - timedelta(seconds=draw(st.integers(0, 1))),
        RECORD_TIMESTAMP_TYPE: None if is_of_file else "create",
        ARRIVED: NOW,
    }


def as_table(records: list[dict[str, Any]]) -> pa.Table:
    """``records`` with their addresses, as a table of RECORDS."""
    rows = [{TOPIC: "t", PARTITION: place % 2, OFFSET: place, **record} for place, record in enumerate(records)]
    return pa.Table.from_pylist(rows, RECORDS)


def record_tables(source: Source) -> st.SearchStrategy[pa.Table]:
    """Tables of records, most of them good ones of ``source``."""
    return st.lists(_record(source), max_size=60).map(as_table)
