"""What the answers must be: naive Python over the records that were sent.

Shares nothing with the product, not even how an hour is found. What it takes from the product are facts alone: which
sequence each record got, and up to which sequence each hour was recomputed.
"""

import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import groupby
from operator import attrgetter
from typing import Any

Body = dict[str, Any]
Hour = datetime
Key = tuple[Any, ...]
"""The hour, then the dimensions."""

OLD_TOPIC = 500
"""The number of a partition that stands for a topic that an older version of Hourline has read."""
FIRST_FILE = 1000
"""From here on, numbers of partitions stand for imported files."""
RECREATED = 1_000_000
"""The partitions of a topic that was recreated have numbers this much lower than those of the topic before."""
_MOST_RECREATED = 1_000

_WEAKEST_FIRST = ["blocked", "incomplete", "provisional", "revised", "final"]


@dataclass(frozen=True)
class Sent:
    """One record as Kafka has it. ``body`` is None for what must not be accepted."""

    partition: int
    offset: int
    body: Body | None
    tombstone: bool = False


@dataclass(frozen=True)
class MetricRule:
    """A metric in Python: dimensions and measures (kind, argument) as functions of an event."""

    measures: Mapping[str, tuple[str, Callable[[Body], Any]]]
    dimensions: Mapping[str, Callable[[Body], Any]] = field(default_factory=dict)
    where: Callable[[Body], Any] = lambda body: True


@dataclass(frozen=True)
class SourceRule:
    """A source in Python. ``time`` gives an event's time in UTC; ``where`` and ``id`` as declared; None counts as not
    true, and as no id.
    """

    time: Callable[[Body], datetime]
    metrics: Mapping[str, MetricRule]
    where: Callable[[Body], Any] = lambda body: True
    id: Callable[[Body], Any] = lambda body: None
    explode: Callable[[Body], list[Body | None]] = lambda body: [body]
    """The events of a record, as the other functions take them; None for one that must be rejected."""
    grace: timedelta = timedelta(hours=1)
    id_horizon: timedelta = timedelta(days=1)


@dataclass(frozen=True)
class Event:
    """An accepted event with the sequence that its record was read in."""

    sequence: int
    partition: int
    offset: int
    time: datetime
    hour: Hour
    body: Body
    place: int = 0
    """The place in the record."""
    duplicate: bool = False
    """Recognised at once, as another event of the same id and hour within the horizon."""


def accepted(rule: SourceRule, sent: Iterable[Sent], sequences: Mapping[tuple[int, int], int]) -> list[Event]:
    """The accepted events in the order in which they count. ``sequences`` is by partition and offset."""
    events = []
    for record in sent:
        address = record.partition, record.offset
        for place, body in enumerate([] if record.body is None else rule.explode(record.body)):
            if body is not None:
                time = rule.time(body)
                hour = datetime(time.year, time.month, time.day, time.hour, tzinfo=UTC)
                events.append(Event(sequences[address], *address, time, hour, body, place))
    return _marked(rule, sorted(events, key=attrgetter("sequence", "partition", "offset", "place")))


class Clock:
    """The clock of a source whose records lie in the past: the least, over the partitions, of the highest time of each.

    A time more than an hour ahead waits. It counts once four such have come, not all equal, and no event up to an hour
    ahead in between. Of a record, only its highest time counts. Files, and a topic of an older version, count while no
    partition has an event. The partitions of a topic count until one that was recreated has an event.
    """

    def __init__(self) -> None:
        self.time: datetime | None = None
        self._highest: dict[int, datetime] = {}
        self._waiting: dict[int, list[datetime]] = {}

    def pass_sequence(self, events: Iterable[Event]) -> None:
        """Go on by the events of one sequence."""
        by_partition: dict[int, list[datetime]] = {}
        for (partition, _), of_record in groupby(
            sorted(events, key=attrgetter("partition", "offset")), key=attrgetter("partition", "offset")
        ):
            by_partition.setdefault(partition, []).append(max(event.time for event in of_record))
        now = max(map(count_recreated, by_partition), default=0)
        self._highest = {of: time for of, time in self._highest.items() if count_recreated(of) >= now}
        for partition, times in by_partition.items():
            if partition < OLD_TOPIC:
                self._pass_times(partition, times)
            elif not self._highest:
                self.time = max([*times, *([self.time] if self.time else [])])
        if self._highest:
            self.time = max([min(self._highest.values()), *([self.time] if self.time else [])])

    def _pass_times(self, partition: int, times: list[datetime]) -> None:
        highest = self._highest.get(partition) or min(times[:4])
        waiting = self._waiting.setdefault(partition, [])
        for time in times:
            if highest <= time <= highest + timedelta(hours=1):
                highest = time
                waiting.clear()
            elif time > highest:
                waiting.append(time)
            while len(waiting) >= 4 and len(set(waiting)) > 1:
                highest = min(waiting)
                while near := [one for one in waiting if one <= highest + timedelta(hours=1)]:
                    highest = max(near)
                    for one in near:
                        waiting.remove(one)
            if len(waiting) == 4:
                waiting.pop()  # all equal
        self._highest[partition] = highest


def count_recreated(partition: int) -> int:
    """How often the partition's topic had been recreated."""
    return -(partition // RECREATED) if -RECREATED * _MOST_RECREATED < partition < 0 else 0


def _marked(rule: SourceRule, events: list[Event]) -> list[Event]:
    """The events, which are in order, duplicates marked; after each sequence, hours further behind the clock than the
    horizon are forgotten.
    """
    known: dict[Hour, set[Any]] = {}
    marked: list[Event] = []
    clock = Clock()
    for _, of_sequence in groupby(events, key=attrgetter("sequence")):
        together = list(of_sequence)
        for event in together:
            identity = rule.id(event.body)
            duplicate = identity is not None and identity in known.get(event.hour, set())
            marked.append(replace(event, duplicate=duplicate))
            if not duplicate:
                known.setdefault(event.hour, set()).add(identity)
        clock.pass_sequence(together)
        known = {hour: ids for hour, ids in known.items() if not clock.time or clock.time - hour <= rule.id_horizon}
    return marked


def counted(
    rule: SourceRule, metric: str, events: list[Event], cutoffs: Mapping[tuple[str, Hour], int]
) -> Iterator[Event]:
    """The events that one metric counts: below the cutoff of its hour the first of each id, above it those not
    recognised as duplicates.
    """
    seen = set()
    for event in events:
        if event.sequence > cutoffs.get((metric, event.hour), -1):
            if event.duplicate:
                continue
        elif (identity := rule.id(event.body)) is not None:
            if (event.hour, identity) in seen:
                continue
            seen.add((event.hour, identity))
        if rule.where(event.body) and rule.metrics[metric].where(event.body):
            yield event


def answer(
    rule: SourceRule, metric: str, events: list[Event], cutoffs: Mapping[tuple[str, Hour], int]
) -> dict[Key, dict[str, Any]]:
    """All rows of one metric."""
    metric_rule = rule.metrics[metric]
    groups: dict[Key, list[Event]] = {}
    for event in counted(rule, metric, events, cutoffs):
        key = (event.hour, *(hashable(dimension(event.body)) for dimension in metric_rule.dimensions.values()))
        groups.setdefault(key, []).append(event)
    in_order = attrgetter("time", "partition", "offset", "place")
    return {
        key: {
            name: value(kind, [argument(event.body) for event in sorted(together, key=in_order)])
            for name, (kind, argument) in metric_rule.measures.items()
        }
        for key, together in groups.items()
    }


def source_clock(events: list[Event]) -> datetime | None:
    """The source's own clock after all of ``events``."""
    clock = Clock()
    for _, of_sequence in groupby(events, key=attrgetter("sequence")):
        clock.pass_sequence(of_sequence)
    return clock.time


def source_hours(events: list[Event], wall: datetime | None = None) -> set[Hour]:
    """The hours with events, and after each of them up to 31 days of hours without, as far as they end by the clock:
    ``wall`` is the wall's, None: the source's own.
    """
    hours, now = {event.hour for event in events}, wall or source_clock(events)
    for hour in sorted(hours):
        for number in range(1, 31 * 24 + 1):
            silent = hour + timedelta(hours=number)
            if silent in hours or now is None or silent + timedelta(hours=1) > now:
                break
            hours.add(silent)
    return hours


def states(
    rule: SourceRule,
    metric: str,
    events: list[Event],
    cutoffs: Mapping[tuple[str, Hour], int],
    wall: datetime | None = None,
) -> dict[Hour, str]:
    """The state of every hour of the source; ``wall`` is as in ``source_hours``."""
    hours = source_hours(events, wall)
    found = {hour: "final" if (metric, hour) in cutoffs else "provisional" for hour in hours}
    for event in counted(rule, metric, events, cutoffs):
        if event.sequence > cutoffs.get((metric, event.hour), event.sequence):
            found[event.hour] = "revised"
    return found


def weakest(of_metrics: Iterable[str]) -> str:
    """The state of a source's hour, from those of its metrics."""
    return min(of_metrics, key=_WEAKEST_FIRST.index)


def late_events(
    rule: SourceRule, events: list[Event], live: Callable[[Event], bool] = lambda event: True
) -> dict[Hour, int]:
    """By hour, the number of late events. Duplicates do not count. Those that are not ``live`` are history: they are not
    late.
    """
    late: dict[Hour, int] = Counter()
    for event in came_late(rule, events):
        if not event.duplicate:
            late[event.hour] += live(event)
    return late


def came_late(rule: SourceRule, events: list[Event]) -> Iterator[Event]:
    """The events that came when their hour had closed by the source's clock after the earlier sequences."""
    clock = Clock()
    for _, of_sequence in groupby(events, key=attrgetter("sequence")):
        together = list(of_sequence)
        yield from (
            event for event in together if clock.time and event.hour + timedelta(hours=1) + rule.grace <= clock.time
        )
        clock.pass_sequence(together)


def closed_hours(rule: SourceRule, events: list[Event], wall: datetime | None = None) -> set[Hour]:
    """The closed hours; ``wall`` is the wall's clock, None: the source's own."""
    now = wall or source_clock(events)
    return {
        hour for hour in source_hours(events, wall) if now is not None and hour + timedelta(hours=1) + rule.grace <= now
    }


def compare(found: list[dict[str, Any]], rule: MetricRule, expected: Mapping[Key, Mapping[str, Any]]) -> int:
    """Assert that the rows are exactly the expected ones; returns how many cells were compared."""
    by_key = {(row["hour"], *(hashable(row[name]) for name in rule.dimensions)): row for row in found}
    assert len(by_key) == len(found), "a group has several rows"
    assert by_key.keys() == expected.keys(), (
        f"missing {sorted_some(expected.keys() - by_key.keys())}, extra {sorted_some(by_key.keys() - expected.keys())}"
    )
    wrong = [
        f"{key} {name}: got {by_key[key][name]!r}, want {want!r}"
        for key, values in expected.items()
        for name, want in values.items()
        if not same(by_key[key][name], want, rule.measures[name][0])
    ]
    assert not wrong, f"{len(wrong)} cells are wrong, such as {wrong[:5]}"
    return len(expected) * len(rule.measures)


def same(got: Any, want: Any, kind: str) -> bool:
    """Equal; sums of doubles, means, variances and standard deviations within 1e-9, quantiles within 1 %."""
    if kind == "quantile" and want is not None and got is not None:
        return math.isclose(got, want, rel_tol=0.010001, abs_tol=1e-9)
    rounded = kind in ("mean", "variance", "stddev", "var_pop", "stddev_pop")
    if want is not None and got is not None and (rounded or (kind == "sum" and isinstance(want, float))):
        return math.isclose(got, want, rel_tol=1e-9)
    return bool(got == want and (got is None) == (want is None))


def _spread(kind: str, known: list[Any]) -> float | None:
    """A variance or standard deviation, by exact fractions. NaN if a double's square is no double to speak of."""
    population = kind.endswith("_pop")
    if any(isinstance(value, float) and not abs(value) < 1e144 for value in known):
        return math.nan if population or len(known) > 1 else None
    if len(known) < (1 if population else 2):
        return None
    fractions = [Fraction(value) for value in known]
    variance = (statistics.pvariance if population else statistics.variance)(fractions)
    return math.sqrt(variance) if kind.startswith("stddev") else float(variance)


def hashable(value: Any) -> Any:
    """A dimension's value as part of a key."""
    if isinstance(value, dict):
        return tuple((name, hashable(item)) for name, item in value.items())
    return tuple(map(hashable, value)) if isinstance(value, list) else value


def sorted_some(keys: Iterable[Key]) -> list[Key]:
    return sorted(keys, key=repr)[:5]


def value(kind: str, values: list[Any], quantile: float = 0.5) -> Any:
    """A measure over all of its argument's values at once, in the order of their events."""
    known = [value for value in values if value is not None]
    match kind:
        case "count" | "per_second":
            found: Any = len(values) if kind == "count" else len(values) / 3600
        case "count_if":
            found = sum(map(bool, known))
        case "share":
            found = sum(map(bool, known)) / len(values)
        case "distinct":
            found = len(set(known))
        case _ if not known:
            found = None
        case "first" | "last":
            found = known[0] if kind == "first" else known[-1]
        case "quantile":
            found = sorted(known)[math.floor(Fraction(str(quantile)) * (len(known) - 1))]
        case "top":
            counts = sorted(Counter(known).items(), key=lambda one: (-one[1], one[0]))
            found = [{"value": value, "count": count, "error": 0} for value, count in counts]
        case "any" | "every":
            found = any(known) if kind == "any" else all(known)
        case "variance" | "stddev" | "var_pop" | "stddev_pop":
            found = _spread(kind, known)
        case "sum" | "mean":
            total = math.fsum(known) if isinstance(known[0], float) else sum(known)
            found = total if kind == "sum" else float(total) / len(known)
        case _:
            found = {"min": min, "max": max}[kind](known)
    return found
