"""Which values are equal: NaN equals NaN, and -0.0 equals 0.0, at any depth."""

import math
from typing import Any

_NAN = object()


def key_of(value: Any) -> Any:
    """What equals the same of exactly the equal values, and can be the key of a dict."""
    if isinstance(value, float) and math.isnan(value):
        return _NAN
    if isinstance(value, dict):
        return tuple((name, key_of(part)) for name, part in value.items())
    if isinstance(value, list | tuple):
        return tuple(map(key_of, value))
    return value


def order_of(value: Any) -> tuple[bool, Any]:
    """What a value that is not null is ordered by: NaN is larger than any number."""
    is_nan = isinstance(value, float) and math.isnan(value)
    return is_nan, 0.0 if is_nan else value


def is_near(one: Any, other: Any, apart: float) -> bool:
    """Whether two values are equal, or two numbers at most ``apart``."""
    if key_of(one) == key_of(other):
        return True
    if one is None or other is None:
        return False
    return not math.isnan(one) and not math.isnan(other) and abs(float(one) - float(other)) <= apart


def are_near(one: Any, other: Any, relative: float) -> bool:
    """Whether two values are equal, but for the last digits of the doubles in them."""
    if isinstance(one, float) and isinstance(other, float):
        sizes = [abs(value) for value in (one, other) if math.isfinite(value)]
        return is_near(one, other, relative * max(sizes) if len(sizes) == 2 else 0.0)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(are_near(value, other[name], relative) for name, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(are_near, one, other, [relative] * len(one)))
    return bool(key_of(one) == key_of(other))
