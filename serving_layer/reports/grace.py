"""Reports how long after the end of their hours the events of a source came, and what each of some graces would have
cost: `hourline advise grace`.

The delay of an event is its source's clock before the micro-batch that read it, minus the end of its hour. With
``clock: wall``, the clock is the event's time of arrival. So an event is late under a grace exactly if its delay is not
below that grace.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Literal

from hourline_core.errors import UsageError
from hourline_core.model import Source
from hourline_core.model.hours import HourRange, hour_text
from hourline_core.model.windows import HOURLY
from hourline_core.sql.literals import literal
from hourline_core.sql.progress import IS_IMPORTED, clocks_sql
from serving_layer.connection import Connection
from serving_layer.described import Described

GRACES = tuple(timedelta(minutes=minutes) for minutes in (0, 1, 10, 30, 60, 120, 360, 1440))
"""The graces that every report compares, beside the declared one."""
MOST_REVISIONS = 1.0
"""The maximum number of revisions a day that the advised grace may cost."""

_COLUMNS = "topic, partition, hour"
"""The columns of the archive that are needed. Others may be fields of any name."""
_DAY = timedelta(days=1)
_USUAL_RANGE = timedelta(days=28)


class GraceCost(Described):
    """What a grace would have cost."""

    grace_seconds: float
    """The grace, in seconds."""
    in_time: float
    """The share of the events whose delay was below it, from 0 to 1."""
    late: int
    """The number of the other events, which would have been late."""
    revised: int
    """The number of hours with late events."""
    revisions: int
    """The number of pairs of an hour and an hour of the clock in which late events of it came: how often these hours
    would have been recomputed again, at most, by a recompute in each hour.
    """
    revisions_per_day: float
    """The number of revisions per 24 hours."""


class Arrivals(Described):
    """The delays of a part of the events."""

    part: str
    """The partition, as `TOPIC-NUMBER`, or the hour of the day (UTC), `00` to `23`."""
    events: int
    """The number of its events."""
    in_time: list[float]
    """The share of them whose delay was below each of the report's graces, in their order."""


class GraceReport(Described):
    """The delays of one source's events, without imported ones and duplicates."""

    source: str
    """The name of the source."""
    clock: Literal["event_time", "wall"]
    """The kind of its clock, as declared."""
    declared_seconds: float
    """The declared grace, in seconds."""
    advised_seconds: float | None
    """The least of the graces with at most one revision a day. Null: there is none."""
    start: datetime
    """The first hour with events (UTC)."""
    end: datetime
    """The exclusive end of the hours (UTC). They have all ended by the clock."""
    events: int
    """The number of events."""
    imported: int
    """The number of imported events, which are left out."""
    unknown: int
    """The number of events without a time of arrival, which are left out if the clock is `wall`. An earlier Hourline
    0.2 archived them.
    """
    graces: list[GraceCost]
    """The graces that are compared, by length. The declared one is among them."""
    partitions: list[Arrivals]
    """The delays by partition."""
    hours_of_day: list[Arrivals]
    """The delays by hour of the day."""


def advise_grace(
    connection: Connection, source: Source, start: datetime | None = None, end: datetime | None = None
) -> GraceReport:
    """The report on the hours from ``start`` up to ``end`` (exclusive) that have ended by the source's clock. The
    default is the last 28 days of them.

    Raises UsageError if there are no such hours, or no events with a known delay.
    """
    hours = _ended_hours(connection, source, start, end)
    imported, unknown = _count_arrivals(connection, source, hours)
    database = connection.database
    ((events, first),) = database.sql("SELECT coalesce(sum(events), 0)::BIGINT, min(hour) FROM _arrivals").fetchall()
    if not events:
        raise UsageError(_nothing(source, hours, imported, unknown))
    hours = HourRange(first, hours.end)
    graces = _graces(source)
    costs = [_cost(connection, grace, number, events, hours) for number, grace in enumerate(graces)]
    advised = next((cost.grace_seconds for cost in costs if cost.revisions_per_day <= MOST_REVISIONS), None)
    return GraceReport(
        source=source.name,
        clock=source.clock,
        declared_seconds=source.grace.total_seconds(),
        advised_seconds=advised,
        start=hours.start,
        end=hours.end,
        events=events,
        imported=imported,
        unknown=unknown,
        graces=costs,
        partitions=_arrivals(connection, ["topic", "partition"], "concat(topic, '-', partition)", len(graces)),
        hours_of_day=_arrivals(connection, ["strftime(hour, '%H')"], "strftime(hour, '%H')", len(graces)),
    )


def _graces(source: Source) -> list[timedelta]:
    return sorted({*GRACES, source.grace})


def _ended_hours(connection: Connection, source: Source, start: datetime | None, end: datetime | None) -> HourRange:
    if f"events/{source.name}" not in connection.snapshot.other_tables:
        raise UsageError(
            f"nothing of '{source.name}' is archived yet; `hourline up` or `hourline speed` reads its topic"
        )
    rows = connection.sql(f"SELECT any_value(clock) FROM hourline.source_hours_{source.name}")
    ((clock,),) = rows.fetchall()
    if clock is None:
        raise UsageError(f"no event of '{source.name}' has been accepted yet")
    ended = HOURLY.assign(clock)
    end = min(end or ended, ended)
    hours = HourRange(start or end - _USUAL_RANGE, end)
    if hours.start >= hours.end:
        raise UsageError(
            f"no hour from {hour_text(hours.start)} on has ended: "
            f"the clock of '{source.name}' is at {clock:%Y-%m-%d %H:%M:%S}; give an earlier --from"
        )
    return hours


def _count_arrivals(connection: Connection, source: Source, hours: HourRange) -> tuple[int, int]:
    """Make the table ``_arrivals``: topic, partition, hour, clock_hour, passed, events; ``passed`` is the number of
    graces that are not above the delay. Returns the number of imported events, and of those without a clock.
    """
    database = connection.database
    table, last = f"hourline.events_{source.name}", connection.snapshot.progress[source.name].sequence
    chosen = f"sequence <= {last} AND NOT duplicate AND hour >= {literal(hours.start)} AND hour < {literal(hours.end)} "
    streamed = f"{chosen} AND NOT ({IS_IMPORTED})"
    if source.clock == "wall":
        known = "record" in database.sql(f"FROM {table} LIMIT 0").columns
        events = (
            f"SELECT {_COLUMNS}, {'record.arrived' if known else 'NULL::TIMESTAMPTZ'} AS _hourline_clock "
            f"FROM {table} WHERE {streamed}"
        )
        counted = "_hourline_clock IS NOT NULL"
    else:
        rows = database.sql(
            f"SELECT coalesce(min(sequence), 0), coalesce(max(sequence), 0) FROM {table} WHERE {streamed}"
        )
        database.execute(f"CREATE OR REPLACE TEMP TABLE _clocks AS {_clock_sql(source, last, *rows.fetchall()[0])}")
        events = f"SELECT {_COLUMNS}, _hourline_clock FROM {table} JOIN _clocks USING (sequence) WHERE {streamed}"
        counted = "true"  # The clock is null in the first micro-batch, of which no event is late.
    graces = _graces(source)
    passed = " ".join(
        f"WHEN _hourline_clock >= hour + to_microseconds({after // timedelta(microseconds=1)}) THEN {number}"
        for number, after in reversed(list(enumerate(map(HOURLY.complete_after, graces), 1)))
    )
    database.execute(f"""
        CREATE OR REPLACE TEMP TABLE _arrivals AS
        SELECT topic, partition, hour, date_trunc('hour', _hourline_clock) AS clock_hour,
               CASE {passed} ELSE 0 END AS passed, count(*) AS events
        FROM ({events}) WHERE {counted} GROUP BY ALL""")
    ((every, of_topics, known),) = database.sql(
        f"SELECT (SELECT count(*) FROM {table} WHERE {chosen}), (SELECT count(*) FROM {table} WHERE {streamed}), "
        "(SELECT coalesce(sum(events), 0)::BIGINT FROM _arrivals)"
    ).fetchall()
    return every - of_topics, of_topics - known


def _clock_sql(source: Source, last: int, first_sequence: int, last_sequence: int) -> str:
    """A query: sequence, _hourline_clock: the source's clock before each micro-batch with events, in this range of
    sequences.

    Old progress is compacted to one row per hour of arrival. Within such a row, the clock is taken to be the highest
    event time so far, not below the clock before the row, and not above the one after it.
    """
    clocks = clocks_sql(source, last)
    return f"""
        SELECT sequence,
               CASE WHEN highest IS NULL THEN before ELSE greatest(before, least(after, highest)) END AS _hourline_clock
        FROM (
            SELECT sequence, before, after, max(newest) OVER (
                PARTITION BY until ORDER BY sequence ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ) AS highest
            FROM (
                SELECT sequence, max(event_time) AS newest FROM hourline.events_{source.name}
                WHERE NOT duplicate AND sequence <= {last_sequence} AND sequence >
                    (SELECT coalesce(max(until), -1) FROM ({clocks}) WHERE until < {first_sequence})
                GROUP BY sequence
            ) ASOF JOIN ({clocks}) ON sequence <= until
        )"""


def _cost(connection: Connection, grace: timedelta, number: int, events: int, hours: HourRange) -> GraceCost:
    ((late, revised, revisions),) = connection.database.sql(
        "SELECT coalesce(sum(events), 0)::BIGINT, count(DISTINCT hour), count(DISTINCT (hour, clock_hour)) "
        f"FROM _arrivals WHERE passed > {number}"
    ).fetchall()
    return GraceCost(
        grace_seconds=grace.total_seconds(),
        in_time=(events - late) / events,
        late=late,
        revised=revised,
        revisions=revisions,
        revisions_per_day=revisions / ((hours.end - hours.start) / _DAY),
    )


def _arrivals(connection: Connection, keys: Sequence[str], part: str, graces: int) -> list[Arrivals]:
    in_time = ", ".join(
        f"coalesce(sum(events) FILTER (passed <= {number}), 0) / sum(events)" for number in range(graces)
    )
    by = ", ".join(keys)
    rows = connection.database.sql(
        f"SELECT {part}, sum(events)::BIGINT, [{in_time}] FROM _arrivals GROUP BY {by} ORDER BY {by}"
    ).fetchall()
    return [Arrivals(part=name, events=events, in_time=shares) for name, events, shares in rows]


def _nothing(source: Source, hours: HourRange, imported: int, unknown: int) -> str:
    if unknown:
        return (
            f"the {unknown:,} events of '{source.name}' in {hours} have no time of arrival, which `clock: wall` "
            "needs: an earlier Hourline 0.2 archived them; give a later range with --from and --to"
        )
    but = f" but {imported:,} imported ones, which have no delay" if imported else ""
    return f"'{source.name}' has no events in the ended hours {hours}{but}; give another range with --from and --to"
