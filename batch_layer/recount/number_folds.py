"""The aggregates of numbers: sums, means, variances and quantiles."""

import math
from array import array
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

from batch_layer.recount.equality import is_near
from batch_layer.recount.folds import OverValues
from hourline_core.aggregates import TOLERANCE
from hourline_core.model import Measure

_EXACT = Context(prec=100)
"""Adds decimals without rounding: a total has at most 38 digits."""
_BEYOND = 1e144
"""From here on, a variance takes a double as NaN, since its square may be none."""
_ROUNDING = 1e-15
"""The rounding of a variance, for each value, relative to the root mean square. See the guide."""
_QUANTILE_ERROR = 0.010001
"""1 %, and what computing with doubles adds to it."""
_LEAST, _LARGEST = 1e-9, 1e18
"""Quantiles take a smaller value as 0, and a larger one as this one."""


class SumFold(OverValues):
    """``sum`` and ``mean``. Whole numbers and decimals are added exactly, doubles with what was rounded off."""

    def __init__(self, measure: Measure) -> None:
        super().__init__(measure)
        self._count = 0
        self._exact: int | Decimal = 0
        self._total = self._lost = self._size = 0.0
        self._is_double = False

    def add_value(self, value: Any) -> None:
        """See OverValues."""
        self._count += 1
        if isinstance(value, float):
            self._is_double = True
            self._add_double(value)
        elif isinstance(value, Decimal):
            self._exact = _EXACT.add(value, self._exact)
        else:
            self._exact += int(value)

    def value(self) -> Any:
        """See Fold."""
        if not self._count:
            return None
        total: Any = self._exact
        if self._is_double:
            total = self._total + self._lost if math.isfinite(self._total) else self._total
        return float(total) / self._count if self._measure.kind == "mean" else total

    def agrees(self, published: Any) -> bool:
        """See Fold."""
        value = self.value()
        if self._measure.kind == "mean" and value is not None:
            return is_near(published, value, TOLERANCE * max(self._size / self._count, _finite(value)))
        return is_near(published, value, TOLERANCE * self._size) if self._is_double else super().agrees(published)

    def _add_double(self, value: float) -> None:
        # Neumaier's sum keeps what each addition rounds off.
        total = self._total + value
        larger, smaller = (self._total, value) if abs(self._total) >= abs(value) else (value, self._total)
        self._lost += (larger - total) + smaller
        self._total = total
        self._size += _finite(value)


class VarianceFold(OverValues):
    """The variances and standard deviations, by Welford's updates."""

    def __init__(self, measure: Measure) -> None:
        super().__init__(measure)
        self._count = 0
        self._mean = self._m2 = 0.0

    def add_value(self, value: Any) -> None:
        """See OverValues."""
        double = float(value)
        if isinstance(value, float) and not abs(value) < _BEYOND:
            double = math.nan
        self._count += 1
        apart = double - self._mean
        self._mean += apart / self._count
        self._m2 += apart * (double - self._mean)

    def value(self) -> float | None:
        """See Fold."""
        divisor = self._count if self._measure.kind in ("var_pop", "stddev_pop") else self._count - 1
        return None if divisor <= 0 else self._root(self._m2 / divisor)

    def agrees(self, published: Any) -> bool:
        """See Fold."""
        value = self.value()
        if value is None or math.isnan(value):
            return is_near(published, value, 0.0)
        spread = math.sqrt(self._m2 / self._count)
        error = self._count * _ROUNDING * math.hypot(spread, self._mean)
        of_value = error if self._measure.kind.startswith("stddev") else error * (spread + error)
        return is_near(published, value, max(TOLERANCE * abs(value), of_value))

    def _root(self, variance: float) -> float:
        return math.sqrt(variance) if self._measure.kind.startswith("stddev") else variance


class QuantileFold(OverValues):
    """``quantile``, which holds all values in memory, with 8 bytes each."""

    def __init__(self, measure: Measure) -> None:
        super().__init__(measure)
        self._values = array("d")

    def add_value(self, value: Any) -> None:
        """See OverValues."""
        double = float(value)
        if not math.isnan(double):
            self._values.append(max(-_LARGEST, min(double, _LARGEST)))

    def value(self) -> float | None:
        """See Fold."""
        if not self._values:
            return None
        # As doubles, 0.29 * 100 is less than 29.
        return sorted(self._values)[math.floor(Fraction(str(self._measure.quantile)) * (len(self._values) - 1))]

    def agrees(self, published: Any) -> bool:
        """See Fold."""
        value = self.value()
        return is_near(published, value, 0.0 if value is None else max(_QUANTILE_ERROR * abs(value), _LEAST))


def _finite(value: float) -> float:
    """The magnitude of a number; 0 if it is not finite, so that no other value is near it."""
    return abs(value) if math.isfinite(value) else 0.0
