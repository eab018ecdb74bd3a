"""Records as lines of JSON: what `topics tail` prints, `topics produce` sends, byte by byte, or it names the line."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hourline.cli.topics.record_lines import line_of, read_line
from hourline_core.errors import UsageError
from hourline_core.runtime.topic_reader import TopicRecord

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
BYTES = st.none() | st.binary() | st.text().map(str.encode) | st.just(b'{"base64": "AA=="}')
NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
RECORDS = st.builds(
    TopicRecord,
    topic=st.just("clicks"),
    partition=st.integers(0, 2**31 - 1),
    offset=st.integers(0, 2**63 - 1),
    timestamp=st.none() | st.integers(1, 253_402_300_799_999),
    timestamp_type=st.just("create"),
    key=BYTES,
    value=BYTES,
    headers=st.lists(st.tuples(NAMES, BYTES), max_size=4).map(tuple),
)


def a_record(**parts: object) -> TopicRecord:
    """A record of which nothing matters but ``parts``."""
    some: dict[str, object] = {"topic": "clicks", "partition": 0, "offset": 0, "timestamp": None}
    return TopicRecord(**{**some, "timestamp_type": None, "key": None, "value": None, **parts})  # type: ignore[arg-type]


@given(RECORDS)
def test_what_tail_prints_produce_sends_byte_by_byte(record: TopicRecord) -> None:
    line = line_of(record)
    assert line.splitlines() == [line], "it is one line, for whoever splits at any kind of line end"
    sent = read_line(7, line.encode())
    assert (sent.line, sent.partition, sent.timestamp) == (7, record.partition, record.timestamp or 0)
    assert (sent.key, sent.payload, sent.headers) == (record.key, record.value, record.headers)


@given(RECORDS)
def test_any_json_reader_gets_text_or_base64(record: TopicRecord) -> None:
    read = json.loads(line_of(record))
    assert list(read) == ["topic", "partition", "offset", "timestamp", "key", "headers", "value"]
    assert (read["topic"], read["partition"], read["offset"]) == (record.topic, record.partition, record.offset)
    if record.timestamp is not None:
        assert datetime.fromisoformat(read["timestamp"]) == EPOCH + timedelta(milliseconds=record.timestamp)
    if isinstance(read["value"], str):
        assert read["value"].encode() == record.value
    elif record.value is not None:
        with pytest.raises(UnicodeDecodeError):
            record.value.decode()


@pytest.mark.parametrize("more", [{"fields": {"n": 1}}, {"rejected": "empty value"}])
def test_what_tail_adds_for_a_source_is_not_sent(more: dict[str, object]) -> None:
    record = a_record(key=b"k", value=b"{}")
    assert read_line(1, line_of(record, more).encode()) == read_line(1, line_of(record).encode())


def test_a_record_looks_as_the_guide_shows_it() -> None:
    record = TopicRecord("clicks", 1, 4, 1_772_445_600_123, "create", b"\xff", "größe".encode(), (("trace", None),))
    assert line_of(record) == (
        '{"topic": "clicks", "partition": 1, "offset": 4, "timestamp": "2026-03-02T10:00:00.123Z", '
        '"key": {"base64": "/w=="}, "headers": [{"key": "trace", "value": null}], "value": "größe"}'
    )


def test_characters_that_control_a_terminal_are_escaped() -> None:
    line = line_of(a_record(value="\x1b[2J\x9b\u202e\x7f".encode()))
    assert line.isprintable()
    assert read_line(1, line.encode()).payload == "\x1b[2J\x9b\u202e\x7f".encode()


@pytest.mark.parametrize("milliseconds", [2**62, -(2**62)])
def test_a_timestamp_that_no_calendar_has_is_a_number(milliseconds: int) -> None:
    assert json.loads(line_of(a_record(timestamp=milliseconds)))["timestamp"] == milliseconds


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", "it is no JSON object (Expecting value"),
        ("{", "it is no JSON object"),
        ("[" * 100_000, "it is no JSON object"),
        ("[1]", "got a list, want a JSON object; --raw sends each line as a value"),
        ('{"key": "a"}', "it has no key 'value'; null is a tombstone"),
        ('{"value": "a", "value": "b"}', "it has a key twice"),
        ('{"value": "a", "vlaue": "b"}', "got the key 'vlaue' — did you mean 'value'?"),
        ('{"value": "a", "field": {}}', "got the key 'field'"),
        ('{"value": 1}', "value: got '1', want a text, null or"),
        ('{"value": {"a": 1}}', "value: got a mapping, want a text, null or"),
        ('{"value": {"base64": "AA==", "a": 1}}', "value: got a mapping, want a text, null or"),
        ('{"value": {"base64": "A"}}', "value: got 'A', want Base64"),
        ('{"value": {"base64": "AA==\\n"}}', "value: got 'AA==', want Base64"),
        ('{"value": "\\ud800"}', "value: it has half of a surrogate pair"),
        ('{"value": null, "key": true}', "key: got 'True', want a text"),
        ('{"value": null, "partition": -1}', "partition: got '-1', want a whole number from 0"),
        ('{"value": null, "partition": 2147483648}', "partition: got '2147483648', want"),
        ('{"value": null, "partition": true}', "partition: got 'True', want"),
        ('{"value": null, "partition": 1.0}', "partition: got '1.0', want"),
        ('{"value": null, "timestamp": 5}', "timestamp: got '5', want a time with its offset from UTC"),
        ('{"value": null, "timestamp": "2026-03-02T10:00:00"}', "want a time with its offset from UTC"),
        ('{"value": null, "timestamp": "1970-01-01T00:00:00Z"}', "want a time after 1970-01-01T00:00:00Z"),
        ('{"value": null, "timestamp": "2026-03-02T10:00:00.0001Z"}', "want whole milliseconds"),
        ('{"value": null, "headers": {"a": "b"}}', "headers: got a mapping, want a list of"),
        ('{"value": null, "headers": [{"key": "a"}]}', "headers: got a mapping, want {"),
        ('{"value": null, "headers": [{"key": "a\\u0000b", "value": null}]}', "no null in the key"),
        ('{"value": null, "headers": [{"key": "\\ud800", "value": null}]}', "half of a surrogate pair"),
        ('{"value": null, "headers": [{"key": "a", "value": 1}]}', "header 'a': got '1', want a text"),
    ],
)
def test_a_line_that_cannot_be_sent_as_it_is_is_refused_by_its_number(line: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        read_line(12, line.encode())
    assert str(refused.value).startswith("line 12: ")
    assert said in str(refused.value)


def test_bytes_that_are_no_utf_8_are_refused_by_their_place() -> None:
    with pytest.raises(UsageError, match=r"^line 3: it is not UTF-8 at byte 11$"):
        read_line(3, b'{"value": "\xff"}')
