"""Compares the states of tiles, however they were made: what says the same of the same events is equal."""

import math
from collections import Counter
from typing import Any

from datasketches import compact_theta_sketch, frequent_items_error_type, frequent_strings_sketch, theta_union

from hourline_core.aggregates.user_classes.fold_class import ORDER


def groups(rows: list[dict[str, Any]], dimensions: list[str]) -> dict[str, dict[str, Any]]:
    """The states of each group by its hour and dimensions, where -0.0 is 0.0."""
    found = {}
    for row in rows:
        key = repr([_unsigned(row[name]) for name in ["hour", *dimensions]])
        assert key not in found, f"{key} has two groups"
        found[key] = {name: value for name, value in row.items() if name not in ("hour", *dimensions)}
    return found


def equal(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return (math.isnan(one) and math.isnan(other)) or math.isclose(one, other, rel_tol=1e-12)
    if isinstance(one, dict) and "sketch" in one:
        return {**one, "sketch": frequencies(one)} == {**other, "sketch": frequencies(other)}
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(equal(one[name], other[name]) for name in one)
    if is_histogram(one) and is_histogram(other):
        return counts(one) == counts(other)
    if isinstance(one, bytes) and isinstance(other, bytes):
        return hashes(one) == hashes(other)
    return in_order(one) == in_order(other) if are_events(one) and are_events(other) else bool(one == other)


def is_histogram(state: Any) -> bool:
    return isinstance(state, list) and all(isinstance(one, dict) and one.keys() == {"x", "y"} for one in state)


def counts(histogram: list[dict[str, Any]]) -> dict[int, float]:
    """The number of values by bucket."""
    found: Counter[int] = Counter()
    for bucket in histogram:
        found[bucket["x"]] += bucket["y"]
    return dict(found)


def frequencies(state: dict[str, Any]) -> list[tuple[str, int, int, int]]:
    sketch = frequent_strings_sketch.deserialize(state["sketch"])
    return sorted(sketch.get_frequent_items(frequent_items_error_type.NO_FALSE_NEGATIVES))


def are_events(state: Any) -> bool:
    return isinstance(state, list) and all(isinstance(one, dict) and "offset" in one for one in state)


def in_order(events: list[dict[str, Any]]) -> list[str]:
    """The events that a keyed fold keeps, as texts: no NaN is equal to another one."""
    return [repr(list(event.values())) for event in sorted(events, key=lambda one: [one[name] for name in ORDER])]


def hashes(sketch: bytes) -> list[int]:
    union = theta_union(12)
    union.update(compact_theta_sketch.deserialize(sketch))
    return sorted(union.get_result())


def _unsigned(value: Any) -> Any:
    if isinstance(value, list):
        return [_unsigned(one) for one in value]
    return 0.0 if isinstance(value, float) and value == 0 else value
