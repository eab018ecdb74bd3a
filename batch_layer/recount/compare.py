"""Compares the recounted groups of an hour with its published rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from batch_layer.recount.equality import are_near, key_of
from batch_layer.recount.groups import Group
from hourline_core.aggregates import TOLERANCE
from hourline_core.model import Measure, Metric

NO_ROW, NO_SECOND_ROW = "no row", "no second row"
"""Stands for the value of a group that is not there."""
_HOUR_SECONDS = 3600


@dataclass(frozen=True)
class Difference:
    """A value that does not agree."""

    dimensions: Mapping[str, Any]
    measure: str
    published: Any
    recounted: Any


def count_cells(metric: Metric, published: Sequence[Mapping[str, Any]], groups: Mapping[Any, Group]) -> int:
    """The number of values that are compared: those of each group that one of both has."""
    return len(_keys(metric, published) | groups.keys()) * len(metric.measures)


def find_differences(
    metric: Metric, published: Sequence[Mapping[str, Any]], groups: Mapping[Any, Group]
) -> list[Difference]:
    """The values that do not agree, by the text of their dimensions."""
    found: list[Difference] = []
    seen: set[Any] = set()
    for row in published:
        key = _key(metric, row)
        dimensions = {name: row[name] for name in metric.dimensions}
        if key in groups and key not in seen:
            found += _compare(metric, dimensions, row, groups[key])
        else:
            recounted = NO_SECOND_ROW if key in seen else NO_ROW
            found += [Difference(dimensions, name, row[name], recounted) for name in metric.measures]
        seen.add(key)
    for key, group in groups.items():
        if key not in seen:
            dimensions = dict(zip(metric.dimensions, group.dimensions, strict=True))
            found += [Difference(dimensions, name, NO_ROW, _value(name, metric, group)) for name in metric.measures]
    return sorted(found, key=lambda one: [str(value) for value in one.dimensions.values()])


def _keys(metric: Metric, rows: Sequence[Mapping[str, Any]]) -> set[Any]:
    return {_key(metric, row) for row in rows}


def _key(metric: Metric, row: Mapping[str, Any]) -> Any:
    return key_of(tuple(row[name] for name in metric.dimensions))


def _compare(metric: Metric, dimensions: Mapping[str, Any], row: Mapping[str, Any], group: Group) -> list[Difference]:
    differing = {name for name, fold in group.folds.items() if not fold.agrees(row[name])}
    for name, measure in metric.measures.items():
        # A quotient is as exact as what it divides.
        if measure.operands and (
            not differing.isdisjoint(measure.operands) or not are_near(row[name], _divide(measure, row), TOLERANCE)
        ):
            differing.add(name)
    return [
        Difference(dimensions, name, row[name], _value(name, metric, group))
        for name in metric.measures
        if name in differing
    ]


def _value(name: str, metric: Metric, group: Group) -> Any:
    measure = metric.measures[name]
    if not measure.operands:
        return group.folds[name].value()
    return _divide(measure, {operand: group.folds[operand].value() for operand in measure.operands})


def _divide(measure: Measure, values: Mapping[str, Any]) -> float | None:
    """The quotient of a ``ratio`` or ``rate`` from the values of its operands."""
    dividend, divisor = [values[name] for name in measure.operands] + (
        [_HOUR_SECONDS] if measure.kind == "rate" else []
    )
    if dividend is None or not divisor:
        return None
    return float(dividend) / float(divisor)
