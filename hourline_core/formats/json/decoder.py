"""Decodes records whose value is one JSON object: bytes become typed Arrow columns, or a reason for each refused one.

docs/reference/types.md has the rules. msgspec decodes a record by them as far as it is strict. ``columns`` converts a
whole batch. What they refuse is looked at once more by ``explain``, which only finds the words.
"""

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from hourline_core.formats.columns.column_of import column_of
from hourline_core.formats.columns.reading import Reading
from hourline_core.formats.columns.recursion import despite_depth
from hourline_core.formats.columns.structs import struct_of
from hourline_core.formats.decoded_records import DecodedRecords
from hourline_core.formats.json import malformed
from hourline_core.formats.json.depth import DEEPEST, beginning, is_too_deep
from hourline_core.formats.json.explain import Explainer
from hourline_core.model.fields import Field

_FAULTS = (msgspec.MsgspecError, UnicodeDecodeError)
_TOO_DEEP = f"more than {DEEPEST} levels of objects and arrays within each other"


class JsonDecoder:
    """Decodes JSON objects with ``fields``. It can be pickled. To make one takes about 0.1 ms for ten fields."""

    def __init__(self, fields: Mapping[str, Field]) -> None:
        self._fields = dict(fields)
        self._passes = [_Pass(names) for names in _split_by_key(self._fields)]
        self._explainer = Explainer(
            (name, field.key or name, Reading.of(field)) for name, field in self._fields.items()
        )

    def __reduce__(self) -> tuple[type["JsonDecoder"], tuple[dict[str, Field]]]:
        return JsonDecoder, (self._fields,)

    @property
    def fault(self) -> None:
        """None: there is no schema that the fields could differ from."""

    def decode(self, values: pa.Array | pa.ChunkedArray) -> DecodedRecords:
        """Decode binary ``values``, of 2 GiB at most. No value makes it raise, and none has an effect on another one.

        A null or empty value has neither fields nor a reason. The reason of a refused one is its first fault.
        """
        array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
        written: list[bytes | None] = array.cast(pa.binary()).to_pylist()
        reasons = _too_deep(array, written, self._refuse_depth)
        todo = [None if place in reasons else value for place, value in enumerate(written)] if reasons else written
        rows = [self._rows(one, todo, reasons) for one in self._passes]
        places = [place for place, value in enumerate(written) if value and place not in reasons]
        columns: dict[str, pa.Array] = {}
        for one, decoded in zip(self._passes, rows, strict=True):
            present = decoded if len(places) == len(decoded) else [decoded[place] for place in places]
            for name, (reading, attribute) in one.readings.items():
                column = column_of(reading, [attribute(row) for row in present])
                columns[name] = column.values
                for place in (places[refused] for refused in column.refused):
                    if place not in reasons:
                        reasons[place] = self._explain(written[place] or b"", name)
        spread = _spread({name: columns[name] for name in self._fields}, places, reasons, len(written))
        return DecodedRecords(spread, pa.array(map(reasons.get, range(len(written))), pa.string(), size=len(written)))

    def _rows(self, one: "_Pass", values: list[bytes | None], reasons: dict[int, str]) -> list[Any]:
        """The decoded value of each place; None where there is none. Adds to ``reasons``."""
        decode = one.decoder.decode
        rows: list[Any] = []
        for place, value in enumerate(values):
            if not value:
                rows.append(None)
                continue
            try:
                rows.append(decode(value))
            except (*_FAULTS, RecursionError):
                row, reason = self._decode_despite(one, value)
                rows.append(row)
                if reason:
                    reasons.setdefault(place, reason)
        return rows

    def _decode_despite(self, one: "_Pass", value: bytes) -> tuple[Any, str | None]:
        """What ``value`` holds despite half pairs in undeclared fields and the caller's stack; or the reason."""
        try:
            return despite_depth(one.decoder.decode, value), None
        except _FAULTS as fault:
            mended = malformed.replace_half_pairs(value) if malformed.is_malformed(fault) else value
            if mended == value:
                return None, self._reason(value, fault)
        try:
            row = despite_depth(one.decoder.decode, mended)
        except _FAULTS as fault:
            return None, self._reason(value, fault)
        reason = despite_depth(self._explainer.explain, value)
        return (None, reason) if reason else (row, None)

    def _refuse_depth(self, value: bytes) -> str:
        """The reason for a value that is too deep: its first fault, if that is not the depth."""
        readable = malformed.replace_half_pairs(beginning(value))
        try:
            despite_depth(self._passes[0].decoder.decode, readable)
        except _FAULTS as fault:
            if not malformed.is_truncated(fault):
                return self._reason(beginning(value), fault)
        return despite_depth(self._explainer.explain_beginning, beginning(value)) or _TOO_DEEP

    def _reason(self, value: bytes, fault: Exception) -> str:
        """The first fault of ``value``, for which msgspec raised ``fault``."""
        if malformed.is_malformed(fault):
            before = value[: malformed.where(fault)]
            reason = despite_depth(self._explainer.explain_beginning, before)
        else:
            reason = despite_depth(self._explainer.explain, value)
        return reason or malformed.describe(value, fault)

    def _explain(self, value: bytes, name: str) -> str:
        """The first fault of ``value``, whose field ``name`` was refused when its column was made."""
        want = Reading.of(self._fields[name]).want
        return despite_depth(self._explainer.explain, value) or f"field '{name}': got another value, want {want}"


class _Pass:
    """Decodes the fields ``names``, by their names in the JSON object, each of which is there once."""

    def __init__(self, fields: Mapping[str, tuple[str, Field]]) -> None:
        read = [(key, name, Reading.of(field)) for key, (name, field) in fields.items()]
        self.decoder = msgspec.json.Decoder(struct_of((key, reading) for key, _, reading in read))
        self.readings = {name: (reading, attrgetter(f"m{place}")) for place, (_, name, reading) in enumerate(read)}


def _split_by_key(fields: Mapping[str, Field]) -> list[dict[str, tuple[str, Field]]]:
    """``fields`` by their names in the JSON object. Fields that share one go into different mappings."""
    passes: list[dict[str, tuple[str, Field]]] = [{}]
    for name, field in fields.items():
        key = field.key or name
        if all(key in one for one in passes):
            passes.append({})
        next(one for one in passes if key not in one)[key] = (name, field)
    return passes


def _too_deep(array: pa.Array, written: list[bytes | None], refuse: Callable[[bytes], str]) -> dict[int, str]:
    """The reasons of the values that have too many levels. Only a long one can."""
    lengths = pc.binary_length(array)
    if (pc.max(lengths).as_py() or 0) <= DEEPEST:
        return {}
    long = pc.indices_nonzero(pc.greater(lengths, DEEPEST)).to_pylist()
    return {place: refuse(value) for place in long if (value := written[place]) and is_too_deep(value)}


def _spread(
    columns: dict[str, pa.Array], places: list[int], reasons: Mapping[int, str], length: int
) -> dict[str, pa.Array]:
    """``columns``, which have a value for each of ``places``, with null for all other places and for refused ones."""
    if len(places) == length and not reasons:
        return columns
    position = {place: index for index, place in enumerate(places) if place not in reasons}
    indices = pa.array(map(position.get, range(length)), pa.int64(), size=length)
    return {name: column.take(indices) for name, column in columns.items()}
