"""The decoding of a source: what its declaration says about how a record becomes events, and how two of them differ.

The archive keeps the records themselves. Their typed fields are a cache of decoding, which can be made anew. So each
archived event names the decoding that made it.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hourline_core.model.expressions import column_names
from hourline_core.model.source import DERIVATIONS, Source
from hourline_core.model.table import Table

DECODER_VERSION = 1
"""Raised when a correction makes the decoder take other records, or other values of them. Then all records are decoded
anew.
"""

BYTES_ALONE = "bytes"
"""The decoding of a row of rejected records that has only the bytes of a record: its events are archived without them.
"""

TOMBSTONE = "tombstone"
"""The decoding of a tombstone among the rejected records: it has no bytes, and was not rejected."""

_OF_SOURCE = ("format", "key_type", "explode", "event_time", "earliest", "latest", "ahead", *DERIVATIONS)
"""The settings of a source, beside its fields, that decide which events a record becomes, or what it is made of."""

_INPUTS = "inputs"
"""What decides about the events of a derived source's inputs, by their names, among the declared settings."""


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
    if source.inputs and source.join:
        own[_INPUTS] = {one.name: _what_joins(one, _keys(source, one)) for one in source.inputs}
    if source.inputs and source.table:
        own[_INPUTS] = {table.name: _what_is_a_row(table, source.table) for table in source.inputs}
    content = {"decoder": DECODER_VERSION, **own, **({} if source.raw else {"raw": False})}
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return Decoding(hashlib.sha256(canonical.encode()).hexdigest()[:12], own, source.raw)


def _keys(source: Source, joined: Source) -> list[str]:
    """The parts of the key of an input that is ``joined``, on either side."""
    if source.join is None:
        return []
    keys = zip(source.join.sides, (source.join.on, source.join.on.values()), strict=True)
    return [text for side, texts in keys if side.source == joined.name for text in texts]


def _what_joins(source: Source, key: list[str]) -> dict[str, Any]:
    """The settings of an input that decide which of its events are joined. Other fields may change meanwhile."""
    declared = dict(decoding_of(source).declared)
    texts = [source.event_time.expression, source.id or "", source.where or "", *source.explode.values(), *key]
    return declared | _what_is_named(source, (), texts) | {"id": source.id, "where": source.where}


def _what_is_named(source: Source, names: Iterable[str], texts: Iterable[str]) -> dict[str, Any]:
    """The fields of an input that are required, are among ``names`` or that ``texts`` use, with the derived ones."""
    named = frozenset[str]().union(*map(column_names, texts)) | {name.casefold() for name in names}
    derived = {}
    for name, text in reversed(source.derived.items()):  # A derived field may use earlier ones.
        if name.casefold() in named:
            derived[name] = text
            named |= column_names(text)
    declared = decoding_of(source).declared["fields"]
    fields = {name: of for name, of in declared.items() if of.get("required") or name.casefold() in named}
    return {"fields": fields, "derived": derived}


def _what_is_a_row(table: Source, rows: Table) -> dict[str, Any]:
    """The settings of the source in the place of a table that decide which rows it has. Other fields may change."""
    texts = [table.event_time.expression, rows.deleted or ""]
    return dict(decoding_of(table).declared) | _what_is_named(table, rows.deciding_fields, texts)


def find_other_derivation(before: Decoding, now: Decoding) -> list[str]:
    """In words, what is declared in another way by ``now`` than by ``before`` about what a derived source is made of.
    Empty: nothing, or neither is of a derived source.
    """
    found = [key for key in DERIVATIONS if before.declared.get(key) != now.declared.get(key)]
    old, new = before.declared.get(_INPUTS, {}), now.declared.get(_INPUTS, {})
    for name in new.keys() & old.keys():
        changed = [
            key for key in sorted(new[name].keys() | old[name].keys()) if new[name].get(key) != old[name].get(key)
        ]
        found += [f"{key} of source '{name}'" for key in changed]
    return found


def decides_otherwise(before: Decoding, now: Decoding) -> bool:
    """Whether other settings than the fields decide by ``now`` in another way which events a record becomes."""
    return any(before.declared.get(setting) != now.declared.get(setting) for setting in _OF_SOURCE)


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
        if value != was and setting == "format":
            yield None, _other_format(was, value)
        elif value != was and setting not in DERIVATIONS:
            yield None, f"{setting}, which was {_text(was)}, is {_text(value)}"
    for what in find_other_derivation(before, now):
        yield None, f"{what} is another one, which a recompute refuses"


def _other_format(was: Any, value: Any) -> str:
    """In words, without the texts of schemas. A format is a mapping of one; None: JSON."""
    (old, before), (new, now) = (next(iter((one or {"json_": {}}).items())) for one in (was, value))
    if old != new:
        return f"the format, which was {old.rstrip('_')}, is {new.rstrip('_')}"
    keys = sorted(key.rstrip("_") for key in before.keys() | now.keys() if before.get(key) != now.get(key))
    name = new.rstrip("_")
    return f"{' and '.join(keys)} of the format {name} {'is another one' if len(keys) == 1 else 'are others'}"


def _text(value: Any) -> str:
    if isinstance(value, str):
        return f"'{value}'"
    if isinstance(value, dict):
        return ", ".join(f"{name}: {item}" for name, item in value.items() if item is not None) or "not declared"
    return "not declared" if value is None else json.dumps(value)
