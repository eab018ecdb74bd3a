"""The decoding of a source: what its declaration says about how a record becomes events, and how two of them differ.

The archive keeps the records themselves. Their typed fields are a cache of decoding, which can be made anew. So each
archived event names the decoding that made it.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hourline_core.model.source import Source

DECODER_VERSION = 1
"""Raised when a correction makes the decoder take other records, or other values of them. Then all records are decoded
anew.
"""

BYTES_ALONE = "bytes"
"""The decoding of a row of rejected records that has only the bytes of a record: its events are archived without them.
"""

TOMBSTONE = "tombstone"
"""The decoding of a tombstone among the rejected records: it has no bytes, and was not rejected."""

_OF_SOURCE = ("format", "key_type", "explode", "event_time", "earliest", "latest", "ahead")
"""The settings of a source, beside its fields, that decide which events a record becomes."""


@dataclass(frozen=True)
class Decoding:
    """How records become events, by one declaration of their source."""

    hash: str
    """12 hexadecimal digits. Empty: that of records which an earlier Hourline 0.2 has archived, without their bytes."""
    declared: Mapping[str, Any]
    """The settings that it is made of, as JSON values; ``fields`` by name."""
    raw: bool = True
    """Whether the records' bytes are kept."""


def decoding_of(source: Source) -> Decoding:
    """The decoding that ``source`` declares."""
    # Without defaults, so that a setting which a later version adds changes no hash.
    own = source.model_dump(mode="json", include={"fields", *_OF_SOURCE}, exclude_defaults=True)
    content = {"decoder": DECODER_VERSION, **own, **({} if source.raw else {"raw": False})}
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return Decoding(hashlib.sha256(canonical.encode()).hexdigest()[:12], own, source.raw)


def describe_changes(before: Decoding, now: Decoding) -> list[str]:
    """In words, what is declared in another way by ``now`` than by ``before``. Empty: only the decoder differs."""
    return [words for _, words in _changes(before, now)]


def changed_fields(before: Decoding, now: Decoding) -> frozenset[str]:
    """The names, in lower case, of the fields that the two read in another way."""
    return frozenset(name.casefold() for name, _ in _changes(before, now) if name is not None)


def _changes(before: Decoding, now: Decoding) -> Iterator[tuple[str | None, str]]:
    """Each change with the name of its field. None: it is of another setting."""
    old, new = before.declared["fields"], now.declared["fields"]
    for name in sorted(new.keys() - old.keys()):
        yield name, f"field '{name}' is declared"
    for name in sorted(old.keys() - new.keys()):
        yield name, f"field '{name}' is not declared any more"
    for name in sorted(old.keys() & new.keys()):
        for setting in sorted(old[name].keys() | new[name].keys()):
            value, was = new[name].get(setting), old[name].get(setting)
            if value != was:
                yield name, f"the {setting} of field '{name}', which was {_text(was)}, is {_text(value)}"
    if before.hash and before.raw != now.raw:
        yield None, f"raw, which was {_text(before.raw)}, is {_text(now.raw)}"
    for setting in _OF_SOURCE:
        value, was = now.declared.get(setting), before.declared.get(setting)
        if value != was:
            yield None, f"{setting}, which was {_text(was)}, is {_text(value)}"


def _text(value: Any) -> str:
    if isinstance(value, str):
        return f"'{value}'"
    if isinstance(value, dict):
        return ", ".join(f"{name}: {item}" for name, item in value.items() if item is not None) or "not declared"
    return "not declared" if value is None else json.dumps(value)
