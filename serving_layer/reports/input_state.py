"""Reports the state of joins and upserts: the archived events of their inputs that new events may still meet.

Progress tells the number of events by hour, so no archive is read.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from hourline_core.model import Source
from hourline_core.model.windows import HOURLY
from hourline_core.sql.literals import literal
from serving_layer.connection import Connection

_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True)
class InputState:
    """The events of one input that new ones may still meet. By default, the input is not part of any such state."""

    events: int | None = None
    since: datetime | None = None
    """The oldest of their hours (UTC). None: there is none."""


def find_input_states(
    connection: Connection, clocks: Mapping[str, datetime | None]
) -> dict[str, dict[str, InputState]]:
    """By join or upsert and by its input, the state. ``clocks`` has the clock (UTC) of each source that was read. If a
    source has no clock yet, all events of its inputs may meet new ones.
    """
    parts = [
        f"SELECT {literal(name)}, {literal(of)}, coalesce(sum(arrived), 0)::BIGINT, min(hour) "
        f"FROM hourline.source_hours_{of} WHERE arrived > 0 AND {_is_in_reach(clock, reach)}"
        for name, clock in clocks.items()
        for of, reach in _reaches(connection.project.sources[name]).items()
        if of in connection.snapshot.progress
    ]
    states: dict[str, dict[str, InputState]] = {}
    for name, of, events, since in connection.sql(" UNION ALL ".join(parts)).fetchall() if parts else ():
        states.setdefault(name, {})[of] = InputState(events, since)
    return states


def _reaches(source: Source) -> dict[str, timedelta]:
    """By input, how long before the clock of ``source`` the events may lie. A snapshot starts from the one before."""
    if source.upsert:
        return {source.upsert.of: source.upsert.within}
    if not source.join:
        return {}
    reaches: dict[str, timedelta] = {}
    for side, reach in zip(source.join.sides, source.join.reaches, strict=True):
        reaches[side.source] = max(reach, reaches.get(side.source, reach))  # Both sides may be one input.
    return reaches


def _is_in_reach(clock: datetime | None, reach: timedelta) -> str:
    """The condition that an hour ends after the time that lies ``reach`` before ``clock``."""
    if clock is None:
        return "true"
    before = reach + HOURLY.size  # In SQL, since this time may be before those of Python.
    return f"hour > {literal(clock)} - INTERVAL '{before // _MICROSECOND} microseconds'"
