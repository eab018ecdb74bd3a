"""Finds the first value of a refused record that its declared type does not take, and the reason in words.

What is before that value is known to be JSON, so it is only skipped here.
"""

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum, auto
from functools import cached_property
from itertools import count
from typing import Any, TypeAlias

import msgspec

from hourline_core.formats.columns.column_of import column_of
from hourline_core.formats.columns.decimals import decimal_of, is_too_exact
from hourline_core.formats.columns.reading import Reading
from hourline_core.formats.columns.structs import keeps_bytes, struct_of
from hourline_core.formats.json.malformed import replace_half_pairs
from hourline_core.formats.time_grammar import ISO_DATE, ISO_LOCAL, ISO_WITH_OFFSET, matches
from hourline_core.model.field_types import ArrayType, DecimalType, MapType, ScalarType, StructType

_LONGEST = 80
_SPACE = re.compile(r"[ \t\n\r]*+")
_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_OTHER_SCALAR = re.compile(r"[^\s,\[\]{}\"]++")
_AT_ONCE = 1000
"""The number of elements of an array, or members of a map, that are looked at together until one is refused."""
_WITHIN = rf"(?:[^\[\]{{}}\"]++|{_STRING.pattern})*+"
_FLAT = rf"(?:{_OTHER_SCALAR.pattern}|{_STRING.pattern}|\[{_WITHIN}\]|\{{{_WITHIN}\}})"
"""A value without objects and arrays within each other."""
_COMMA = rf"{_SPACE.pattern},{_SPACE.pattern}"
_ELEMENTS = re.compile(rf"(?:{_FLAT}{_COMMA}){{{_AT_ONCE}}}", re.DOTALL)
_MEMBERS = re.compile(
    rf"(?:{_STRING.pattern}{_SPACE.pattern}:{_SPACE.pattern}{_FLAT}{_COMMA}){{{_AT_ONCE}}}", re.DOTALL
)
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

    def judge(self, written: bytes) -> "_Verdict":
        """What the very code that reads records and makes columns does with the value."""
        try:
            value = self._decoder.decode(b'{"v":' + written + b"}").m0
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return _Verdict.REFUSED_IF_LAST if keeps_bytes(self.reading) else _Verdict.REFUSED
        taken = _judge(self.reading, value)
        if taken is None:
            taken = not column_of(self.reading, [value]).refused
        return _Verdict.TAKEN if taken else _Verdict.REFUSED_IF_LAST


class _Verdict(Enum):
    TAKEN = auto()
    REFUSED = auto()
    REFUSED_IF_LAST = auto()
    """By what makes a column, which sees the last value of a name alone."""


def _judge(reading: Reading, value: Any) -> bool | None:
    """Whether ``value``, which msgspec took, is taken. None: only a column of it can tell, which takes long to make."""
    match reading.tree:
        case ScalarType("date"):
            return matches(ISO_DATE, value)
        case ScalarType("timestamp") if isinstance(value, str):
            if not matches(ISO_LOCAL if reading.zone else ISO_WITH_OFFSET, value):
                return False
            # Only from the first and the last year, an offset leads out of the years that there are.
            return None if value[:4] in ("0001", "9999") else True
        case DecimalType(precision, scale):
            return decimal_of(bytes(value), precision, scale, rounds=reading.rounds) is not None
    return True if str(reading.tree) in _DECIDED_BY_MSGSPEC else None


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


class _FaultIfLastError(_FaultError):
    """The fault is none if a later value has the same name."""


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

    def _members(self, place: int, rules: _Rules, path: str = "", of_map: _Rule | None = None) -> int:
        place = self._skip_space(place + 1)
        if self._text[place] == "}":
            return place + 1
        last: dict[str | None, int] | None = None
        numbers = count()
        while True:
            if of_map and next(numbers) % _AT_ONCE == 0:
                place = self._pass_taken(place, of_map, _MEMBERS, "{}")[0]
            name, begin = self._member(place, path)
            place = -1
            for inner, rule in rules(name):
                try:
                    place = self._value_of(begin, rule, inner)
                except _FaultIfLastError:
                    last = self._last_members(begin) if last is None else last
                    if last.get(name, begin) <= begin:
                        raise
            place = self._skip_space(place if place >= 0 else self._skip(begin))
            if self._text[place] == "}":
                return place + 1
            place = self._past(place, ",")

    def _member(self, place: int, path_of_map: str) -> tuple[str | None, int]:
        """The name of the member at ``place``, and where its value begins."""
        named = _STRING.match(self._text, place)
        if named is None:
            raise _EndedError
        return self._name(named[0], place, path_of_map), self._past(self._skip_space(named.end()), ":")

    def _last_members(self, begin: int) -> dict[str | None, int]:
        """Where the last value of each name begins, among those after the one at ``begin``, as far as they are JSON."""
        last: dict[str | None, int] = {}
        try:
            place = self._skip_space(self._skip(begin))
            while self._text[place] == ",":
                name, value = self._member(self._past(place, ","), "")
                last[name] = value
                place = self._skip_space(self._skip(value))
        except (_EndedError, IndexError, json.JSONDecodeError):
            pass
        return last

    def _elements(self, place: int, of_array: _Rule, path: str) -> int:
        place = self._skip_space(place + 1)
        if self._text[place] == "]":
            return place + 1
        rule, passed = of_array.parts[""], 0
        for number in count():
            if number % _AT_ONCE == 0:
                place, more = self._pass_taken(place, of_array, _ELEMENTS, "[]")
                passed += more
            place = self._skip_space(self._value_of(place, rule, f"{path}[{passed + number}]"))
            if self._text[place] == "]":
                break
            place = self._past(place, ",")
        return place + 1

    def _pass_taken(self, place: int, rule: _Rule, several: re.Pattern[str], brackets: str) -> tuple[int, int]:
        """The place behind elements or members that are all taken, and their number: a multiple of _AT_ONCE."""
        passed = 0
        while found := several.match(self._text, place):
            written = self._value[place : found.end()].rstrip(b", \t\n\r")
            if rule.judge(brackets[0].encode() + written + brackets[1].encode()) is not _Verdict.TAKEN:
                break
            place, passed = found.end(), passed + _AT_ONCE
        return place, passed

    def _value_of(self, place: int, rule: _Rule, path: str) -> int:
        if self._text.startswith("null", place):
            return place + len("null")
        tree = rule.reading.tree
        if self._text[place] == _OPENINGS.get(type(tree)):
            match tree:
                case ArrayType():
                    return self._elements(place, rule, path)
                case MapType():
                    part = rule.parts[""]
                    return self._members(
                        place, lambda name: [(f"{path}['{_shorten(name or '')}']", part)], path, of_map=rule
                    )
                case StructType():
                    parts = rule.parts
                    return self._members(place, lambda name: [(f"{path}.{name}", parts[name])] if name in parts else [])
        end = self._end(place)
        if self._goes_on and end == len(self._text):
            raise _EndedError
        written = self._value[place:end]
        verdict = _Verdict.REFUSED if type(tree) in _OPENINGS else rule.judge(written)
        if verdict is not _Verdict.TAKEN:
            error = _FaultError if verdict is _Verdict.REFUSED else _FaultIfLastError
            raise error(f"field '{path}': got {_describe(written, rule)}")
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
