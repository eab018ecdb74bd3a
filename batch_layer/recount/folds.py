"""The aggregates over events one after the other, each with how exact a published value must be."""

from abc import ABC, abstractmethod
from collections import Counter
from typing import Any

from batch_layer.recount.equality import key_of, order_of
from batch_layer.recount.read_rows import Row
from hourline_core.aggregates.top import MOST_VALUES
from hourline_core.model import Measure

_EXACT_DISTINCT = 4096
"""The maximum number of values in a group that ``distinct`` counts exactly."""
_FIVE_DEVIATIONS = 0.08
"""Five times the standard deviation of its relative error above that, 1/64. The 3 % of the guide hold at 95 %
confidence, so of many groups, some are beyond them.
"""


class Fold(ABC):
    """One measure over the events of one group."""

    def __init__(self, measure: Measure) -> None:
        self._measure = measure

    @abstractmethod
    def add(self, row: Row, arguments: tuple[Any, ...]) -> None:
        """Take one event, with the measure's arguments."""

    @abstractmethod
    def value(self) -> Any:
        """The value over all events."""

    def agrees(self, published: Any) -> bool:
        """Whether the published value is as near as is promised. By default, it is equal."""
        return bool(key_of(published) == key_of(self.value()))


class OverValues(Fold):
    """A measure over the values that are not null."""

    def add(self, row: Row, arguments: tuple[Any, ...]) -> None:
        """See Fold."""
        if arguments[0] is not None:
            self.add_value(arguments[0])

    @abstractmethod
    def add_value(self, value: Any) -> None:
        """Take one value."""


class CountFold(Fold):
    """``count``."""

    _count = 0

    def add(self, row: Row, arguments: tuple[Any, ...]) -> None:
        """See Fold. Without a condition, there is no argument."""
        self._count += not arguments or bool(arguments[0])

    def value(self) -> int:
        """See Fold."""
        return self._count


class AnyEveryFold(OverValues):
    """``any`` and ``every``."""

    _value: bool | None = None

    def add_value(self, value: bool) -> None:
        """See OverValues."""
        known = self._value
        self._value = value if known is None else (known or value if self._measure.kind == "any" else known and value)

    def value(self) -> bool | None:
        """See Fold."""
        return self._value


class MinMaxFold(OverValues):
    """``min`` and ``max``."""

    _value: Any = None

    def add_value(self, value: Any) -> None:
        """See OverValues."""
        choose = min if self._measure.kind == "min" else max
        self._value = value if self._value is None else choose(self._value, value, key=order_of)

    def value(self) -> Any:
        """See Fold."""
        return self._value


class FirstLastFold(Fold):
    """``first`` and ``last``, by event time, then partition, offset, place and topic."""

    _known: tuple[Any, ...] | None = None
    _value: Any = None

    def add(self, row: Row, arguments: tuple[Any, ...]) -> None:
        """See Fold."""
        (value,) = arguments
        if value is None:
            return
        order = (*event_order(row), order_of(value))
        if self._known is None or (order < self._known if self._measure.kind == "first" else order > self._known):
            self._known, self._value = order, value

    def value(self) -> Any:
        """See Fold."""
        return self._value


class DistinctFold(OverValues):
    """``distinct``, which holds all values in memory."""

    def __init__(self, measure: Measure) -> None:
        super().__init__(measure)
        self._values: set[Any] = set()

    def add_value(self, value: Any) -> None:
        """See OverValues."""
        self._values.add(key_of(value))

    def value(self) -> int:
        """See Fold."""
        return len(self._values)

    def agrees(self, published: Any) -> bool:
        """See Fold."""
        count = len(self._values)
        apart = 0.0 if count <= _EXACT_DISTINCT else _FIVE_DEVIATIONS * count
        return bool(published is not None and abs(published - count) <= apart)


class TopFold(OverValues):
    """``top``, which holds all values in memory."""

    def __init__(self, measure: Measure) -> None:
        super().__init__(measure)
        self._counts: Counter[str] = Counter()

    def add_value(self, value: Any) -> None:
        """See OverValues."""
        self._counts[value] += 1

    def value(self) -> list[dict[str, Any]] | None:
        """See Fold."""
        ordered = sorted(self._counts.items(), key=lambda one: (-one[1], one[0]))
        top = [{"value": value, "count": count, "error": 0} for value, count in ordered[: self._measure.limit]]
        return top or None

    def agrees(self, published: Any) -> bool:
        """See Fold. Beyond what is exact, by the errors that the entries tell."""
        if published is None or len(self._counts) <= MOST_VALUES:
            return super().agrees(published)
        listed = {one["value"]: one for one in published}
        if any(not one["count"] <= self._counts[name] <= one["count"] + one["error"] for name, one in listed.items()):
            return False
        # A value that is not listed has no higher count than the last one, or none but for the error.
        least = published[-1]["count"] if len(published) == self._measure.limit else 0
        highest = max((count for value, count in self._counts.items() if value not in listed), default=0)
        return bool(highest <= least + max(one["error"] for one in published))


def event_order(row: Row) -> tuple[Any, ...]:
    """What the events of a group are ordered by."""
    return row.at, row.partition, row.offset, row.place, row.topic or ""
