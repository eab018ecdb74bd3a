"""Compares the rows of a metric with those that a test expects."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from math import isclose, isnan
from typing import Any

import pyarrow as pa

from hourline_core.errors import DeclarationError
from hourline_core.model import Metric
from hourline_core.model.base import QuotedText, describe, quoted
from hourline_core.model.hours import parse_moment
from hourline_core.model.loaded_tests import LoadedTest

_CLOSE = 1e-9
"""How far two sums of doubles may differ, relative to them: the order of addition decides the last digits."""
_WHOLE = re.compile(r"[-+]?[0-9]+")
_NUMBER = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?")
_NO_NUMBERS = {"NaN": "nan", "Infinity": "inf", "-Infinity": "-inf"}

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Difference:
    """How the rows of a metric differ from the expected ones."""

    metric: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    """One for each value that differs, and for each row that is missing or was not expected."""


class ExpectedRows:
    """The rows that ``test`` expects of ``metric``, whose view has the columns ``schema``.

    Raises DeclarationError with a line for each value that is none of its column.
    """

    def __init__(self, test: LoadedTest, metric: Metric, schema: pa.Schema) -> None:
        self._metric = metric
        self._partial = test.declared.partial
        self._keys = (metric.time_columns[0], *metric.dimensions)
        self._rows: dict[tuple[object, ...], Row] = {}
        mistakes = []
        for place, given in enumerate(test.declared.rows_of(metric.name)):
            row: dict[str, Any] = {}
            for name, raw in given.items():
                try:
                    row[name] = _value_of(raw, schema.field(name).type)
                except ValueError as error:
                    at = ("expect", metric.name, str(place), name)
                    mistakes.append(f"{test.place(*at)}: {'.'.join(at)}: {error}")
            self._rows[self._key(row)] = row
        if mistakes:
            raise DeclarationError("\n".join(mistakes))

    def difference(self, found: pa.Table, *, states: bool) -> Difference | None:
        """How ``found`` differs, the rows of the metric's view. None: it does not. States are compared with
        ``states``.
        """
        rows = {self._key(row): row for row in found.to_pylist()}
        if self._partial:
            times = {key[0] for key in self._rows}
            rows = {key: row for key, row in rows.items() if key[0] in times}
        differing: list[tuple[object, ...]] = []
        for key in sorted({**self._rows, **rows}, key=_sortable):
            expected, there = self._rows.get(key), rows.get(key)
            if expected is None:
                differing.append((*key, "", "no row", _in_words(self._measured(there or {}))))
            elif there is None:
                differing.append((*key, "", _in_words(self._measured(expected)), "no row"))
            else:
                differing += [
                    (*key, name, expected[name], there[name])
                    for name in expected
                    if (states or name != "state") and not _are_equal(expected[name], there[name])
                ]
        if not differing:
            return None
        return Difference(self._metric.name, (*self._keys, "column", "expected", "found"), differing)

    def _key(self, row: Row) -> tuple[object, ...]:
        return tuple(_hashable(row.get(name)) for name in self._keys)

    def _measured(self, row: Row) -> Row:
        return {name: value for name, value in row.items() if name in self._metric.measures}


def _in_words(measured: Row) -> str:
    return ", ".join(f"{name} {value}" for name, value in measured.items()) or "a row"


def _hashable(value: object) -> object:
    return str(value) if isinstance(value, dict | list) else value


def _sortable(key: tuple[object, ...]) -> tuple[tuple[bool, str], ...]:
    return tuple((value is not None, str(value)) for value in key)


def _are_equal(expected: Any, found: Any) -> bool:
    if isinstance(expected, float) and isinstance(found, float):
        return (isnan(expected) and isnan(found)) or isclose(expected, found, rel_tol=_CLOSE, abs_tol=1e-12)
    if isinstance(expected, list) and isinstance(found, list):
        return len(expected) == len(found) and all(map(_are_equal, expected, found))
    if isinstance(expected, dict) and isinstance(found, dict):
        return all(name in found and _are_equal(value, found[name]) for name, value in expected.items())
    return bool(expected == found)


def _value_of(raw: Any, kind: pa.DataType) -> Any:
    """A value of YAML as one of a column. Raises ValueError with what is allowed."""
    if raw is None:
        return None
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        if not isinstance(raw, list):
            raise ValueError(f"got {describe(raw)}, allowed is a list")
        return [_value_of(item, kind.value_type) for item in raw]
    if pa.types.is_struct(kind):
        names = [field.name for field in kind]
        if not isinstance(raw, dict) or raw.keys() - set(names):
            raise ValueError(f"got {describe(raw)}, allowed is a mapping of {', '.join(names)}")
        return {name: _value_of(item, kind.field(name).type) for name, item in raw.items()}
    if not isinstance(raw, str):
        raise ValueError(f"got {describe(raw)}, allowed is {_reader_of(kind)[1]}")
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return str(raw)
    if isinstance(raw, QuotedText) and not pa.types.is_temporal(kind):
        raise ValueError(quoted(raw, _reader_of(kind)[1]))
    read, allowed = _reader_of(kind)
    if read is None or (value := read(raw.strip())) is None:
        raise ValueError(f"got {describe(raw)}, allowed is {allowed}")
    return value


def _reader_of(kind: pa.DataType) -> tuple[Callable[[str], Any] | None, str]:
    """What makes a value of a text (None: it is none), and what it allows."""
    for is_of, read, allowed in _READERS:
        if is_of(kind):
            return read, allowed
    return None, f"null, as values of type {kind} cannot be written here"


def _read_float(text: str) -> float | None:
    return float(_NO_NUMBERS.get(text, text)) if text in _NO_NUMBERS or _NUMBER.fullmatch(text) else None


def _read_date(text: str) -> date | None:
    moment = parse_moment(text) if re.fullmatch(r"\d{4}-\d{2}-\d{2}", text) else None
    return None if moment is None else moment.date()


_READERS: Sequence[tuple[Callable[[pa.DataType], bool], Callable[[str], Any], str]] = (
    (pa.types.is_boolean, {"true": True, "false": False}.get, "true or false"),
    (pa.types.is_integer, lambda text: int(text) if _WHOLE.fullmatch(text) else None, "a whole number"),
    (pa.types.is_floating, _read_float, "a number"),
    (pa.types.is_decimal, lambda text: Decimal(text) if _NUMBER.fullmatch(text) else None, "a number"),
    (pa.types.is_timestamp, parse_moment, "a time such as 2026-03-02T08:00Z"),
    (pa.types.is_date, _read_date, "a date such as 2026-03-02"),
)
