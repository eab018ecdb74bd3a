"""Gives parameters of expectations the types of their columns. YAML holds text, and Great Expectations compares a
set's values as they are.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from typing import Any

_WORDS = {"true": True, "yes": True, "false": False, "no": False}


class UnfitValueError(ValueError):
    """A text that is no value of its column's type. The message names the type."""


def convert_parameters(parameters: Mapping[str, Any], types: Mapping[str, str]) -> dict[str, Any]:
    """``parameters`` with the values of sets and the bounds of quantiles in the types of their columns. ``types``
    are those of the columns, as Spark or Arrow write them. Great Expectations converts all else. Raises
    UnfitValueError.
    """
    typed = dict(parameters)
    if "value_set" in parameters:
        typed["value_set"] = _convert_each(parameters["value_set"], types.get(str(parameters.get("column")), "string"))
    if isinstance(pairs := parameters.get("value_pairs_set"), list):
        kinds = [types.get(str(parameters.get(column)), "string") for column in ("column_A", "column_B")]
        typed["value_pairs_set"] = [
            tuple(_convert(value, kind) for value, kind in zip(pair, kinds, strict=True))
            for pair in map(_convert_pair, pairs)
        ]
    for name in ("quantile_ranges", "partition_object"):
        if name in parameters:
            typed[name] = _convert_each(parameters[name], "double")
    return typed


def _convert_each(value: Any, kind: str) -> Any:
    if isinstance(value, list):
        return [_convert_each(item, kind) for item in value]
    if isinstance(value, dict):
        return {name: _convert_each(item, kind) for name, item in value.items()}
    return _convert(value, kind)


def _convert_pair(pair: Any) -> list[Any]:
    if not isinstance(pair, list) or len(pair) != 2:
        raise UnfitValueError(f"got {pair!r}, allowed is a pair, as in [a, b]")
    return pair


def _convert(value: Any, kind: str) -> Any:
    for start, parse in _PARSERS.items():
        if isinstance(value, str) and kind.startswith(start):
            try:
                return parse(value)
            except (ValueError, KeyError):
                raise UnfitValueError(f"'{value}' is no value of a column of type {kind}") from None
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
