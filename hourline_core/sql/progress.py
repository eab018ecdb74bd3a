"""Progress as DuckDB SQL. Only this file, all_progress.py and arrivals.py name its columns in SQL.

All of it reads ``hourline.progress_<source>``, in which a micro-batch has a row for each topic that it has read. Old
rows are compacted. A compacted row stands for the micro-batches since the sequence before it, and has the sums of their
counts.
"""

from datetime import datetime, timedelta

from hourline_core.ledger.layout import FROM_HOUR
from hourline_core.ledger.read_offsets import ARRIVED_FILE, FILE
from hourline_core.model import Source
from hourline_core.model.windows import HOURLY
from hourline_core.sql.literals import literal

COUNTS = (
    "records",
    "accepted",
    "rejected",
    "duplicates",
    "tombstones",
    "not_taken",
    "taken_by_none",
    "exploded",
    "empty",
)
"""The columns with the counts of a micro-batch."""

IS_IMPORTED = (
    f"starts_with(coalesce(topic_id, ''), {literal(FILE)}) "
    f"AND NOT starts_with(coalesce(topic_id, ''), {literal(ARRIVED_FILE)})"
)
"""The condition that a row is about a file that was imported, of which no event is late."""

LONGEST_SILENCE = timedelta(days=31)
"""The maximum time after an hour with events in which hours without events are listed. One record with a wrong year
would otherwise make hundreds of thousands of them.
"""

_SILENT_HOURS = LONGEST_SILENCE // HOURLY.size


def source_hours_sql(source: Source, sequence: int, now: datetime, decoding: str | None = None) -> str:
    """A query: hour, events, arrived, late (bigint), clock, closed of one source up to ``sequence``.

    It has each hour with events, and after it the hours without events that have ended by the source's clock. The
    clock never goes back, so an hour that is listed once stays, unless the source is made anew. ``now`` (UTC) closes
    hours of a source that uses wall time. ``arrived`` are the events as they were archived, ``events`` those as they
    were published.

    They differ if records were decoded anew by ``decoding``. Then it has each covered hour, too: events may have moved
    to it. It reads ``hourline.decoded_<source>`` and ``hourline.coverage``.
    """
    covered = f"FROM hourline.coverage WHERE source = {literal(source.name)} AND hour IS NOT NULL"
    also_listed = f"""
                UNION ALL
                SELECT DISTINCT {{'hour': hour, 'events': 0, 'late': 0}}, NULL {covered} AND cutoff IS NOT NULL"""
    counts = f"""
            SELECT hour, sum(events)::BIGINT AS moved
            FROM (
                SELECT unnest([{{'hour': hour, 'events': 1}}, {{'hour': {FROM_HOUR}, 'events': -1}}], recursive := true)
                FROM hourline.decoded_{source.name}
                WHERE sequence <= {sequence} AND NOT duplicate AND hour IS DISTINCT FROM {FROM_HOUR}
            )
            SEMI JOIN (SELECT hour {covered} AND decoding = {literal(decoding or "")}) USING (hour)
            GROUP BY hour"""
    clock = literal(now) if source.clock == "wall" else "max(clock) OVER ()"
    closes_after = f"INTERVAL '{int(HOURLY.complete_after(source.grace).total_seconds())} seconds'"
    hour = f"INTERVAL '{int(HOURLY.size.total_seconds())} seconds'"
    return f"""
        WITH arrivals AS (
            SELECT arrival.hour AS hour, sum(arrival.events)::BIGINT AS events, sum(arrival.late)::BIGINT AS late,
                   max(any_value(clock)) OVER () AS clock
            FROM (
                SELECT arrival, clock FROM (SELECT hours, {clock} AS clock FROM {_finished(source, sequence)}),
                     UNNEST(hours) AS arrivals(arrival){also_listed if decoding else ""}
            )
            GROUP BY arrival.hour
        ), stretches AS (
            SELECT *, least(lead(hour) OVER (ORDER BY hour), hour + {hour} * {_SILENT_HOURS + 1},
                            coalesce(clock, hour)) - {hour} AS last
            FROM arrivals
        ), listed AS (
            SELECT unnest(generate_series(hour, greatest(hour, last), {hour})) AS hour, hour AS with_events, events,
                   late, clock
            FROM stretches
        )
        SELECT hour, arrived + {"coalesce(moved, 0)" if decoding else "0"} AS events, arrived, late, clock, closed
        FROM (
            SELECT hour, if(hour = with_events, events, 0) AS arrived, if(hour = with_events, late, 0) AS late, clock,
                   coalesce(hour + {closes_after} <= clock, false) AS closed
            FROM listed
        ){f" LEFT JOIN ({counts}) USING (hour)" if decoding else ""}"""


def late_sql(source: Source, sequence: int) -> str:
    """A query: hour, sequence, events, arrived, clock of each micro-batch up to ``sequence`` with events of an hour
    that had closed.

    ``arrived`` is when the micro-batch began, ``clock`` was the source's clock then (UTC).
    """
    before = "last_value(clock IGNORE NULLS) OVER (ORDER BY sequence RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
    clock = "started" if source.clock == "wall" else before
    return f"""
        SELECT arrival.hour AS hour, sequence, sum(arrival.late)::BIGINT AS events, started AS arrived, clock
        FROM (SELECT sequence, hours, started, {clock} AS clock FROM {_finished(source, sequence)}),
             UNNEST(hours) AS arrivals(arrival)
        WHERE arrival.late > 0 GROUP BY ALL"""


def imported_sql(source: Source, sequence: int) -> str:
    """A query: hour, sequence, events (without duplicates) of each micro-batch up to ``sequence`` that imported rows of
    a file; of each file.
    """
    return f"""
        SELECT arrival.hour AS hour, sequence, arrival.events AS events
        FROM {_progress(source)}, UNNEST(hours) AS arrivals(arrival)
        WHERE sequence <= {sequence} AND {IS_IMPORTED}"""


def rejected_sql(source: Source, sequence: int) -> str:
    """A query: hour, rejected, events (bigint) of all micro-batches up to ``sequence`` that brought events of the hour.
    ``events`` are those of all records that the source's branch takes, whatever became of them.
    """
    events = "records + coalesce(exploded, 0) - coalesce(not_taken, 0)"
    return f"""
        WITH batches AS (
            SELECT sequence, sum(rejected) AS rejected, sum({events}) AS events
            FROM {_finished(source, sequence)} GROUP BY sequence
        ), arrived AS (
            SELECT DISTINCT arrival.hour AS hour, sequence
            FROM {_progress(source)}, UNNEST(hours) AS arrivals(arrival)
        )
        SELECT hour, sum(rejected)::BIGINT AS rejected, sum(events)::BIGINT AS events
        FROM batches JOIN arrived USING (sequence) GROUP BY hour"""


def last_arrivals_sql(source: Source, sequence: int, before: int) -> str:
    """A query: hour, last of each hour with events below the sequence ``before``; ``last`` is the newest such
    sequence.
    """
    if before <= 1:  # This way, progress, which is long, is not read.
        return "SELECT NULL::TIMESTAMPTZ AS hour, NULL::BIGINT AS last WHERE false"
    return f"""
        SELECT arrival.hour AS hour, max(sequence) AS last
        FROM {_progress(source)}, UNNEST(hours) AS arrivals(arrival)
        WHERE sequence < {before} AND sequence <= {sequence} GROUP BY ALL"""


def last_taken_back_sql(source: Source, sequence: int) -> str:
    """A query: hour, last of each hour in which events were taken back up to ``sequence``; ``last`` is the newest
    sequence that has done so.
    """
    if not source.takes_back:
        return "SELECT NULL::TIMESTAMPTZ AS hour, NULL::BIGINT AS last WHERE false"
    return f"""
        SELECT back.hour AS hour, max(sequence) AS last
        FROM {_progress(source)}, UNNEST(taken_back) AS hours_back(back)
        WHERE sequence <= {sequence} GROUP BY ALL"""


def arrived_hours_sql(source: Source, first: int, last: int) -> str:
    """A query: hour, each to which a sequence from ``first`` to ``last`` brought an event."""
    return f"""
        SELECT DISTINCT arrival.hour AS hour
        FROM {_progress(source)}, UNNEST(hours) AS arrivals(arrival)
        WHERE sequence BETWEEN {first} AND {last}"""


def gaps_sql(source: Source, sequence: int) -> str:
    """A query: sequence, topic, accepted (when it was skipped), and the columns of ``Gap``, of each gap up to
    ``sequence``.
    """
    return f"""
        SELECT sequence, topic, accepted, unnest(gap)
        FROM (SELECT sequence, topic, finished AS accepted, unnest(gaps) AS gap FROM {_finished(source, sequence)})"""


def started_sql(source: Source) -> str:
    """A query: until, started, lookups (if the source has some), for ASOF JOIN. The row of a sequence is the first one
    whose ``until`` is not below it.
    """
    lookups = ", lookups" if source.lookups else ""
    return f"SELECT DISTINCT sequence AS until, started{lookups} FROM {_progress(source)}"


def clocks_sql(source: Source, sequence: int) -> str:
    """A query: until, before, after, for ASOF JOIN as ``started_sql``: the clock of the source (UTC) before and after
    the micro-batches of each row up to ``sequence``. ``before`` is null until a micro-batch has set the clock.
    """
    return f"""
        SELECT sequence AS until, clock AS after, lag(clock IGNORE NULLS) OVER (ORDER BY sequence) AS before
        FROM (SELECT sequence, max(clock) AS clock FROM {_finished(source, sequence)} GROUP BY sequence)"""


def _progress(source: Source) -> str:
    return f"hourline.progress_{source.name}"


def _finished(source: Source, sequence: int) -> str:
    return f"{_progress(source)} WHERE sequence <= {sequence}"
