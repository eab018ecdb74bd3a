"""Gives parameters of expectations the types of their columns. YAML holds text, and Great Expectations compares a
set's values as they are.
"""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from typing import Any

from hourline_core.model.base import QuotedText, quoted

_WORDS = {"true": True, "yes": True, "false": False, "no": False}


class UnfitValueError(ValueError):
    """A text that is no value of its column's type. The message names the type, ``name`` is the parameter."""

    def __init__(self, message: str, name: str) -> None:
        super().__init__(f"{name}: {message}")
        self.name = name


def convert_parameters(parameters: Mapping[str, Any], types: Mapping[str, str]) -> dict[str, Any]:
    """``parameters`` with the values of sets and the bounds of quantiles in the types of their columns, and with JSON
    in a JSON schema. ``types`` are those of the columns, as Spark or Arrow write them. Great Expectations converts all
    else. Raises UnfitValueError.
    """
    typed = {}
    for name, value in parameters.items():
        try:
            typed[name] = _convert_parameter(name, value, parameters, types)
        except ValueError as error:
            raise UnfitValueError(str(error), name) from None
    return typed


def _convert_parameter(name: str, value: Any, parameters: Mapping[str, Any], types: Mapping[str, str]) -> Any:
    if name == "value_set":
        return _convert_each(value, types.get(str(parameters.get("column")), "string"))
    if name == "value_pairs_set" and isinstance(value, list):
        kinds = [types.get(str(parameters.get(column)), "string") for column in ("column_A", "column_B")]
        return [
            tuple(_convert(item, kind) for item, kind in zip(pair, kinds, strict=True))
            for pair in map(_convert_pair, value)
        ]
    if name in ("quantile_ranges", "partition_object"):
        return _convert_each(value, "double")
    return _read_as_json(value) if name == "json_schema" else value


def _read_as_json(value: Any) -> Any:
    """``value`` with the numbers and booleans that stand in it without quotes."""
    if isinstance(value, list):
        return [_read_as_json(item) for item in value]
    if isinstance(value, dict):
        return {name: _read_as_json(item) for name, item in value.items()}
    if not isinstance(value, str) or isinstance(value, QuotedText):
        return value
    try:
        return json.loads(value) if value[:1] not in ('"', "[", "{") else value
    except ValueError:
        return value


def _convert_each(value: Any, kind: str) -> Any:
    if isinstance(value, list):
        return [_convert_each(item, kind) for item in value]
    if isinstance(value, dict):
        return {name: _convert_each(item, kind) for name, item in value.items()}
    return _convert(value, kind)


def _convert_pair(pair: Any) -> list[Any]:
    if not isinstance(pair, list) or len(pair) != 2:
        raise ValueError(f"got {pair!r}, allowed is a pair, as in [a, b]")
    return pair


def _convert(value: Any, kind: str) -> Any:
    for start, parse in _PARSERS.items():
        if isinstance(value, str) and kind.startswith(start):
            if isinstance(value, QuotedText) and parse not in (date.fromisoformat, _parse_moment):
                raise ValueError(quoted(value, "true or false" if start == "bool" else "a number"))
            try:
                return parse(value)
            except (ValueError, KeyError):
                raise ValueError(f"'{value}' is no value of a column of type {kind}") from None
    return value


def _parse_number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        return float(text)


def _parse_moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


_PARSERS: dict[str, Callable[[str], Any]] = {
    "bool": lambda text: _WORDS[text.lower()],
    **dict.fromkeys(("int", "uint", "bigint", "smallint", "tinyint", "float", "double", "decimal"), _parse_number),
    "date": date.fromisoformat,
    "timestamp": _parse_moment,
}
