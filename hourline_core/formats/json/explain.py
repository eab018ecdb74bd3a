"""Finds the first value of a refused record that its declared type does not take, and the reason in words.

What is before that value is known to be JSON, so it is only skipped here.
"""

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Any, TypeAlias

import msgspec

from hourline_core.formats.json.columns import column_of
from hourline_core.formats.json.decimals import is_too_exact
from hourline_core.formats.json.malformed import replace_half_pairs
from hourline_core.formats.json.reading import Reading
from hourline_core.formats.json.structs import struct_of
from hourline_core.model.field_types import ArrayType, DecimalType, MapType, ScalarType, StructType

_LONGEST = 80
_SPACE = re.compile(r"[ \t\n\r]*+")
_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_OTHER_SCALAR = re.compile(r"[^\s,\[\]{}\"]++")
_JSON = ScalarType("json")
_OPENINGS = {StructType: "{", MapType: "{", ArrayType: "["}
# A number is only skipped, so its digits do not matter.
_SKIP = json.JSONDecoder(strict=False, parse_int=len, parse_float=len, object_pairs_hook=len)


_TEXTS = ("string", "date", "timestamp", "json")
_DECIDED_BY_MSGSPEC = ("string", "tinyint", "smallint", "int", "long", "double", "boolean")


class _EndedError(Exception):
    """The walk cannot go on, so there is no fault that it can name."""


@dataclass(frozen=True)
class _Rule:
    """What one place of a record takes."""

    reading: Reading
    is_field: bool = False

    @cached_property
    def parts(self) -> dict[str, "_Rule"]:
        return {name: _Rule(part) for name, part in self.reading.parts}

    @cached_property
    def _decoder(self) -> msgspec.json.Decoder[Any]:
        return msgspec.json.Decoder(struct_of([("v", self.reading)]))

    def takes(self, written: bytes) -> bool:
        """Whether the value is taken, by the very code that makes columns."""
        try:
            value = self._decoder.decode(b'{"v":' + written + b"}").m0
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return False
        return str(self.reading.tree) in _DECIDED_BY_MSGSPEC or not column_of(self.reading, [value]).refused


_Rules: TypeAlias = Callable[[str | None], list[tuple[str, _Rule]]]
"""By the name of a member, the paths and rules of its value. None: the name is no text."""


class Explainer:
    """Knows the declared fields, and says of a record which of them is the first one that does not take its value."""

    def __init__(self, fields: Iterable[tuple[str, str, Reading]]) -> None:
        """``fields`` are the name of each field, its name in the JSON object, and how it is read."""
        self._rules: dict[str, list[tuple[str, _Rule]]] = {}
        for name, key, reading in fields:
            self._rules.setdefault(key, []).append((name, _Rule(reading, is_field=True)))

    def explain(self, value: bytes) -> str | None:
        """The reason; None if no fault of a declared field was found. ``value`` is JSON up to the fault."""
        return self._first_fault(_Walk(value, goes_on=False))

    def explain_beginning(self, value: bytes) -> str | None:
        """The same if ``value`` goes on behind its end, so nothing is known of a value that ends there."""
        return self._first_fault(_Walk(value, goes_on=True))

    def _first_fault(self, walk: "_Walk") -> str | None:
        try:
            walk.record(lambda name: self._rules.get(name, []) if name is not None else [])
        except (_EndedError, IndexError, json.JSONDecodeError):
            return None
        except _FaultError as fault:
            return str(fault)
        return None


class _FaultError(Exception):
    """Its text is the reason."""


class _Walk:
    """One way through a record. Each method takes a place of it, and returns the place behind what it has read."""

    def __init__(self, value: bytes, *, goes_on: bool) -> None:
        self._value = value
        self._goes_on = goes_on
        # One character for each byte, so that places are the same in both.
        self._text = value.decode("latin-1")

    def record(self, rules: _Rules) -> None:
        """Read the record. Raises _FaultError for the first value that a rule does not take."""
        place = self._skip_space(0)
        if self._text[place] == "{":
            self._members(place, rules)

    def _skip_space(self, place: int) -> int:
        match = _SPACE.match(self._text, place)
        return match.end() if match else place

    def _members(self, place: int, rules: _Rules, path: str = "") -> int:
        place = self._skip_space(place + 1)
        if self._text[place] == "}":
            return place + 1
        while True:
            named = _STRING.match(self._text, place)
            if named is None:
                raise _EndedError
            found = rules(self._name(named[0], place, path))
            place = begin = self._past(self._skip_space(named.end()), ":")
            for inner, rule in found:
                place = self._value_of(begin, rule, inner)
            place = self._skip_space(place if found else self._skip(begin))
            if self._text[place] == "}":
                return place + 1
            place = self._past(place, ",")

    def _elements(self, place: int, rule: _Rule, path: str) -> int:
        place = self._skip_space(place + 1)
        if self._text[place] == "]":
            return place + 1
        for index in count():
            place = self._skip_space(self._value_of(place, rule, f"{path}[{index}]"))
            if self._text[place] == "]":
                break
            place = self._past(place, ",")
        return place + 1

    def _value_of(self, place: int, rule: _Rule, path: str) -> int:
        if self._text.startswith("null", place):
            return place + len("null")
        tree = rule.reading.tree
        if self._text[place] == _OPENINGS.get(type(tree)):
            match tree:
                case ArrayType():
                    return self._elements(place, rule.parts[""], path)
                case MapType():
                    part = rule.parts[""]
                    return self._members(place, lambda name: [(f"{path}['{_shorten(name or '')}']", part)], path)
                case StructType():
                    parts = rule.parts
                    return self._members(place, lambda name: [(f"{path}.{name}", parts[name])] if name in parts else [])
        end = self._end(place)
        if self._goes_on and end == len(self._text):
            raise _EndedError
        written = self._value[place:end]
        if type(tree) in _OPENINGS or not rule.takes(written):
            raise _FaultError(f"field '{path}': got {_describe(written, rule)}")
        return end

    def _name(self, written: str, place: int, path_of_map: str) -> str | None:
        """The name of a member. None if it is no text, and the object is no map."""
        if written.isascii() and "\\" not in written:
            return written[1:-1]
        raw = self._value[place : place + len(written)]
        try:
            return msgspec.json.decode(raw, type=str)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            if not path_of_map:
                return None
            raise _FaultError(f"field '{path_of_map}': got {_broken(raw)}, want a text as name") from None

    def _past(self, place: int, character: str) -> int:
        if self._text[place] != character:
            raise _EndedError
        return self._skip_space(place + 1)

    def _skip(self, place: int) -> int:
        if scalar := _STRING.match(self._text, place) or _OTHER_SCALAR.match(self._text, place):
            return scalar.end()
        return int(_SKIP.raw_decode(self._text, place)[1])

    def _end(self, place: int) -> int:
        """The end of a value. If it has none, since it is not known to be JSON, the end of the record."""
        try:
            return self._skip(place)
        except json.JSONDecodeError:
            return len(self._text)


def _describe(written: bytes, rule: _Rule) -> str:
    """What was got, as it was written, and what is allowed instead."""
    reading = rule.reading
    is_text = isinstance(reading.tree, ScalarType) and reading.tree.kind in _TEXTS
    if is_text and not reading.encoding.startswith("epoch") and (written[:1] == b'"' or reading.tree == _JSON):
        return f"{_broken(written)}, want {reading.want}"
    match reading.tree:
        case DecimalType(precision, scale) if rule.is_field and is_too_exact(written, precision, scale):
            return f"{_quote(written)}, want {reading.want} (with round: true, it is rounded)"
    return f"{_quote(written)}, want {reading.want}"


def _broken(written: bytes) -> str:
    """``written``, with what makes it no text, if there is such a thing."""
    try:
        written.decode()
    except UnicodeDecodeError:
        return f"invalid UTF-8 in {_quote(written)}"
    has_half_pair = replace_half_pairs(written) != written
    return f"half of a surrogate pair in {_quote(written)}" if has_half_pair else _quote(written)


def _quote(written: bytes) -> str:
    # A character has four bytes at most.
    return _shorten(written[: 4 * _LONGEST + 4].decode(errors="replace"))


def _shorten(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
