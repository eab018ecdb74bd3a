"""What is given in a test of a metric: records in the order in which they are read, and recomputes between them."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, get_args

from hourline_core.model.base import QuotedText, describe, refuse
from hourline_core.model.hours import parse_moment

Recompute = Literal["recompute", "recompute all"]
"""An item that stands for a recompute: of the hours that are closed by then, or of all hours."""
RECOMPUTE_ALL: Recompute = "recompute all"
RECOMPUTES: tuple[Recompute, ...] = get_args(Recompute)

_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_FORMS = "allowed are an event, `{name: value}`, the text of a record, `recompute` and `recompute all`"
_RECORD_KEYS = ("key", "partition", "timestamp", "headers")
_MOST_PARTITIONS = 100


@dataclass(frozen=True)
class GivenRecord:
    """A record that is given."""

    value: str
    """Its text: JSON, or anything else."""
    names: tuple[str, ...] = ()
    """The names in it, if it is given as a mapping."""
    is_wrapped: bool = False
    """Whether it is given as `{record: …, value: …}`."""
    key: str | None = None
    partition: int = 0
    timestamp: datetime | None = None
    """Kafka's timestamp of it (UTC)."""
    headers: Mapping[str, str] = field(default_factory=dict)


Given = GivenRecord | Recompute


def read_given(items: object) -> list[Given]:
    """The ``items`` of the key `given`, as YAML has them. Raises a refusal."""
    if not isinstance(items, list) or not items:
        raise refuse(f"got {describe(items if items else None)}, allowed is a list of records, with at least one")
    given = [_read_item(item, str(place)) for place, item in enumerate(items)]
    if not any(isinstance(item, GivenRecord) for item in given):
        raise refuse("got recomputes alone, allowed is a list of records, with at least one")
    return given


def json_text(value: Any) -> str:
    """A value of YAML as JSON. A plain text that is a number, `true`, `false` or `null` is none in quotes."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{json.dumps(str(name))}: {json_text(item)}' for name, item in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(json_text, value))}]"
    if value is None:
        return "null"
    is_literal = value in ("true", "false") or _NUMBER.fullmatch(value)
    return str(value) if is_literal and not isinstance(value, QuotedText) else json.dumps(value, ensure_ascii=False)


def _read_item(item: object, place: str) -> Given:
    if isinstance(item, str):
        return next((one for one in RECOMPUTES if item == one), GivenRecord(str(item)))
    if not isinstance(item, dict) or not item:
        raise refuse(f"got {describe(item if item else None)}, {_FORMS}", place)
    if "record" in item and not item.keys() - {"record", "value"}:
        return _read_record(item["record"], item.get("value"), place)
    return _with_value(item)


def _with_value(value: object, **parts: Any) -> GivenRecord:  # the parts of a GivenRecord
    if isinstance(value, str):
        return GivenRecord(str(value), **parts)
    names = tuple(map(str, value)) if isinstance(value, dict) else ()
    return GivenRecord(json_text(value), names, **parts)


def _read_record(record: object, value: object, place: str) -> GivenRecord:
    """A record with what it has beside its value."""
    if not isinstance(record, dict):
        raise refuse(f"got {describe(record)}, allowed is a mapping with {_listed()}", place, "record")
    for name in record:
        if name not in _RECORD_KEYS:
            raise refuse(f"got the key {describe(name)}, allowed are {_listed()}", place, "record", name)
    if value is None:
        raise refuse("got a record without a value, allowed is `value: …` beside `record`", place, "record")
    parts: dict[str, Any] = {"is_wrapped": True}
    if (partition := record.get("partition")) is not None:
        if not re.fullmatch("[0-9]{1,3}", str(partition)) or int(partition) >= _MOST_PARTITIONS:
            raise refuse(
                f"got {describe(partition)}, allowed is a number from 0 to {_MOST_PARTITIONS - 1}",
                place,
                "record",
                "partition",
            )
        parts["partition"] = int(partition)
    if (timestamp := record.get("timestamp")) is not None:
        moment = parse_moment(timestamp) if isinstance(timestamp, str) else None
        if moment is None:
            raise refuse(
                f"got {describe(timestamp)}, allowed is a time such as 2026-03-02T08:10:00Z",
                place,
                "record",
                "timestamp",
            )
        parts["timestamp"] = moment
    if (key := record.get("key")) is not None:
        if not isinstance(key, str):
            raise refuse(f"got {describe(key)}, allowed is text", place, "record", "key")
        parts["key"] = str(key)
    if (headers := record.get("headers")) is not None:
        if not isinstance(headers, dict) or not all(isinstance(text, str) for text in headers.values()):
            raise refuse(f"got {describe(headers)}, allowed is a mapping, `name: text`", place, "record", "headers")
        parts["headers"] = {str(name): str(text) for name, text in headers.items()}
    return _with_value(value, **parts)


def _listed() -> str:
    return f"{', '.join(_RECORD_KEYS[:-1])} and {_RECORD_KEYS[-1]}"
