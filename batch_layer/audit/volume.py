"""The expectations on the volume of a source: how much has come in an hour, also in an hour without events."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

import duckdb
import pandas as pd

from batch_layer.audit.built_in_expectations import Facts, measure_distance_beyond
from batch_layer.audit.declared_expectations import Check, Origin
from batch_layer.audit.history_bounds import compute_bounds
from hourline_core.model import History, Severity, Source
from hourline_core.model.hours import HOUR, hour_text
from hourline_core.sql.progress import LONGEST_SILENCE, rejected_sql

_SILENT_HOURS = 3
"""The number of successive hours without events that is a silence."""
_LOOK_BACK = timedelta(days=7)
"""The time before a silence in which there must be no other."""
_HOURS_KNOWN = 24
"""The minimum number of hours that must be known of that time."""


@dataclass(frozen=True)
class Arrivals:
    """What progress knows of the hours of a source, also of those that are not recomputed."""

    events: Mapping[datetime, int]
    """By hour, the number of events. It has the hours without events, and those before that are looked back at."""
    late: Mapping[datetime, int]
    """By hour, the number of late events."""
    rejected: Mapping[datetime, float]
    """By hour with events, the share of rejected records in the micro-batches that brought them."""
    arrived: Mapping[datetime, int]
    """By hour, the number of events as they were archived, also if another declaration has moved them since."""


def read_arrivals(
    connection: duckdb.DuckDBPyConnection,
    source: Source,
    sequence: int,
    first: datetime,
    last: datetime,
    days: int = 0,
) -> Arrivals:
    """The arrivals up to ``sequence`` that ``compare_volume`` needs of the hours from ``first`` to ``last`` (UTC), and
    at least the events of ``days`` days before. Rejected records are looked up only if the source limits them.
    """
    look_back = max(timedelta(days=max(days, source.volume.history.days)), LONGEST_SILENCE + _LOOK_BACK)
    hours = connection.execute(
        f"SELECT hour, events, late, arrived FROM hourline.source_hours_{source.name} WHERE hour BETWEEN ? AND ?",
        [first - look_back, last],
    ).fetchall()
    limited = source.volume.rejected is not None
    rejected = connection.execute(rejected_sql(source, sequence)).fetchall() if limited else []
    return Arrivals(
        {hour: events for hour, events, *_ in hours},
        {hour: late for hour, _, late, _ in hours},
        # A record that is validated again after a reset takes its earlier count back.
        {hour: _divide(max(refused, 0), events) for hour, refused, events in rejected},
        {hour: arrived for hour, *_, arrived in hours},
    )


def compare_volume(
    source: Source, arrivals: Arrivals, duplicates: Mapping[datetime, int], hours: Sequence[datetime]
) -> Facts:
    """The volume of ``hours`` (UTC) compared with the declaration, with past days, and with silence. ``duplicates``
    are the numbers of those that are archived.
    """
    volume, events = source.volume, [arrivals.events.get(hour, 0) for hour in hours]
    columns: dict[str, list[Any]] = {"hour": [hour_text(hour) for hour in hours], "events": events}
    checks: list[Check] = []
    if volume.min is not None or volume.max is not None:
        checks.append(_expect_within(columns, "events", volume.min, volume.max, volume.severity))
    late = [_divide(arrivals.late.get(hour, 0), count) for hour, count in zip(hours, events, strict=True)]
    repeated = [(duplicates.get(hour, 0), count) for hour, count in zip(hours, events, strict=True)]
    shares = {
        "share of late events": (volume.late, late),
        "share of duplicates": (volume.duplicates, [_divide(part, part + count) for part, count in repeated]),
        "share of rejected records": (volume.rejected, [arrivals.rejected.get(hour, 0.0) for hour in hours]),
    }
    for name, (limit, values) in shares.items():
        if limit is not None:
            columns[name] = values
            checks.append(_expect_within(columns, name, None, limit, volume.severity))
    if volume.history.severity != "off":
        checks += _expect_like_past_days(columns, volume.history, volume.history.severity, arrivals.events, hours)
    if volume.silence != "off":
        columns["hours of silence"] = [count_silence(arrivals.events, hour) for hour in hours]
        checks.append(_expect_between("hours of silence", 0, 0, volume.silence, "history"))
    return Facts(pd.DataFrame(columns), checks)


def count_silence(events: Mapping[datetime, int], hour: datetime) -> int:
    """The number of successive hours without events that end with ``hour``, if that is a silence of a feed that never
    sleeps, else 0. ``events`` are those of each known hour.
    """
    length = 0
    while events.get(hour - length * HOUR) == 0:
        length += 1
    if length < _SILENT_HOURS:
        return 0
    begin = hour - length * HOUR
    past = [known for number in range(_LOOK_BACK // HOUR) if (known := events.get(begin - number * HOUR)) is not None]
    never_sleeps = len(past) >= _HOURS_KNOWN and _find_longest_silence(past) < _SILENT_HOURS
    return length if never_sleeps else 0


def _expect_like_past_days(
    columns: dict[str, list[Any]],
    history: History,
    severity: Severity,
    events: Mapping[datetime, int],
    hours: Sequence[datetime],
) -> list[Check]:
    """The comparison with the same hour of past days, whose bounds are added to ``columns``. None: too little is
    known.
    """
    known = {hour: {"events": count} for hour, count in events.items()}
    limits = [compute_bounds(known, events, hour, "events", history, adds_up=True) for hour in hours]
    if not any(limits):
        return []
    band = ("events", "events at least", "events at most")
    columns[band[1]], columns[band[2]] = ([pair and pair[side] for pair in limits] for side in (0, 1))
    columns["events beyond past days"] = [
        measure_distance_beyond(*facts) for facts in zip(*(columns[column] for column in band), strict=True)
    ]
    return [_expect_between("events beyond past days", 0, 0, severity, "history", band)]


def _expect_within(
    columns: dict[str, list[Any]], name: str, least: float | None, most: float | None, severity: Severity
) -> Check:
    """The declared bounds of a column. They are added to ``columns``, so that reports show them beside its values."""
    band = (name, f"{name} declared at least", f"{name} declared at most")
    for column, bound in zip(band[1:], (least, most), strict=True):
        columns[column] = [bound] * len(columns["hour"])
    return _expect_between(name, least, most, severity, "user", band)


def _expect_between(
    column: str,
    least: float | None,
    most: float | None,
    severity: Severity,
    origin: Origin,
    band: tuple[str, str, str] | None = None,
) -> Check:
    limits = {"min_value": least, "max_value": most}
    parameters = {"column": column, **{name: limit for name, limit in limits.items() if limit is not None}}
    return Check("expect_column_values_to_be_between", parameters, severity, origin, band)


def _find_longest_silence(events: Iterable[int]) -> int:
    """The length of the longest run of zeros."""
    return max((sum(1 for _ in run) for some, run in groupby(events, key=bool) if not some), default=0)


def _divide(part: int, whole: int) -> float:
    """0 of nothing is 0."""
    return part / whole if whole else 0.0
