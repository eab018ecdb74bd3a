"""Records of Kafka as lines of JSON, and back: what ``topics tail`` prints, ``topics produce`` sends.

Bytes that are UTF-8 are text. Others are ``{"base64": "…"}``. Null is null: a value of null is a tombstone.
"""

import base64
import binascii
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from hourline_core.errors import UsageError, did_you_mean
from hourline_core.formats.files.reading import ANY_PARTITION
from hourline_core.formats.files.record import Record
from hourline_core.model.base import describe
from hourline_core.runtime.topic_reader import TopicRecord

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_MOST_PARTITIONS = 2**31
_KEYS = ("topic", "partition", "offset", "timestamp", "key", "headers", "value")
_OF_A_SOURCE = ("fields", "rejected")
"""Keys that `topics tail --source` adds."""
_CONTROLS = re.compile(r"[\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""Characters that control a terminal, and that JSON does not escape by itself."""


class _Refused(Exception):  # noqa: N818 (it becomes a UsageError with the number of the line)
    """What is wrong with a line."""


def line_of(record: TopicRecord, more: Mapping[str, Any] | None = None) -> str:
    """``record`` as an object in one line, with ``more`` behind its own keys."""
    content = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": _time_text(record.timestamp),
        "key": json_of_bytes(record.key),
        "headers": [{"key": name, "value": json_of_bytes(value)} for name, value in record.headers],
        "value": json_of_bytes(record.value),
        **(more or {}),
    }
    text = json.dumps(content, ensure_ascii=False, allow_nan=False)
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def json_of_bytes(value: bytes | None) -> str | dict[str, str] | None:
    """``value`` as JSON has it."""
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        assert value is not None
        return {"base64": base64.b64encode(value).decode()}


def read_line(number: int, line: bytes) -> Record:
    """The record in the line ``number``, an object as ``line_of`` writes it. ``value`` must be there. ``topic`` and
    ``offset`` say where the record was: it goes elsewhere. What a source makes of it is not looked at.

    Raises UsageError with the number.
    """
    try:
        content = _object_in(line)
        if "value" not in content:
            raise _Refused("it has no key 'value'; null is a tombstone")
        return Record(
            number,
            _bytes(content["value"], "value"),
            _bytes(content.get("key"), "key"),
            _partition(content.get("partition")),
            None,
            _milliseconds(content.get("timestamp")),
            _headers(content.get("headers")),
        )
    except _Refused as refused:
        raise UsageError(f"line {number}: {refused}") from None


def _object_in(line: bytes) -> dict[str, Any]:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        content = dict(pairs)
        if len(content) < len(pairs):
            raise _Refused("it has a key twice, allowed is each key once")
        return content

    try:
        content = json.loads(line.decode(), object_pairs_hook=unique)
    except UnicodeDecodeError as error:
        raise _Refused(f"it is not UTF-8 at byte {error.start}") from None
    except (ValueError, RecursionError) as error:
        raise _Refused(f"it is no JSON object ({error}); --raw sends each line as a value") from None
    if not isinstance(content, dict):
        raise _Refused(f"got {describe(content)}, want a JSON object; --raw sends each line as a value")
    for key in content:
        if key not in _KEYS and key not in _OF_A_SOURCE:
            raise _Refused(f"got the key {describe(key)}{did_you_mean(key, _KEYS)}")
    return content


def _bytes(value: object, name: str) -> bytes | None:
    match value:
        case None:
            return None
        case str():
            try:
                return value.encode()
            except UnicodeEncodeError:
                raise _Refused(f"{name}: it has half of a surrogate pair, which is no character") from None
        case {"base64": str(text), **others} if not others:
            try:
                return base64.b64decode(text, validate=True)
            except (binascii.Error, ValueError):
                raise _Refused(f"{name}: got {describe(text)}, want Base64") from None
    raise _Refused(f'{name}: got {describe(value)}, want a text, null or {{"base64": "…"}}; JSON is a text, too')


def _partition(value: object) -> int:
    if value is None:
        return ANY_PARTITION
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < _MOST_PARTITIONS:
        raise _Refused(f"partition: got {describe(value)}, want a whole number from 0")
    return value


def _milliseconds(value: object) -> int:
    """0: it has none."""
    if value is None:
        return 0
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise _Refused(
            f"timestamp: got {describe(value)}, want a time with its offset from UTC such as 2026-01-31T00:00:00.000Z"
        )
    # Kafka's client takes 0 for no timestamp.
    if (since := moment - _EPOCH) < _MILLISECOND:
        raise _Refused(f"timestamp: got {describe(value)}, want a time after 1970-01-01T00:00:00Z")
    if since % _MILLISECOND:
        raise _Refused(f"timestamp: got {describe(value)}, want whole milliseconds")
    return since // _MILLISECOND


def _headers(value: object) -> tuple[tuple[str, bytes | None], ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise _Refused(f'headers: got {describe(value)}, want a list of {{"key": "…", "value": "…"}}')
    return tuple(map(_header, value))


def _header(value: object) -> tuple[str, bytes | None]:
    match value:
        # Kafka's client would cut the name off at a null.
        case {"key": str(name), "value": content, **others} if not others and "\0" not in name:
            _bytes(name, "headers")
            return name, _bytes(content, f"header {describe(name)}")
    raise _Refused(f'headers: got {describe(value)}, want {{"key": "…", "value": "…"}}, and no null in the key')


def _time_text(milliseconds: int | None) -> str | int | None:
    if milliseconds is None:
        return None
    try:
        moment = _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:  # Kafka allows any number.
        return milliseconds
    return f"{moment.replace(tzinfo=None).isoformat(timespec='milliseconds')}Z"
