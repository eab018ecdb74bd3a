"""The expected answers, computed by plain DuckDB over the CSV.

The oracle shares no code with Hourline, or with the module that makes the events.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path

import duckdb

Cells = dict[tuple[object, ...], tuple[object, ...]]
"""Maps the hour (aware, UTC) and the dimensions to the measures, in their declared order."""

# The data set contains the hour of each scheduled departure in UTC, so the oracle computes no time zones.
_FLIGHTS = """
    CREATE TABLE flights AS
    SELECT *, time_hour AS hour_utc, dep_time IS NULL AS cancelled,
        time_hour + to_minutes(minute + coalesce(dep_delay, 0)) AS reported
    FROM read_csv(?, nullstr = 'NA')
    WHERE month = 1 AND list_contains(?, day)"""

# For each metric, the number of key columns and the query.
_METRICS = {
    "traffic": (
        1,
        "SELECT hour_utc, count(*), count(*) FILTER (cancelled), avg(dep_delay) FROM reported_flights GROUP BY ALL",
    ),
    "departures": (
        3,
        "SELECT hour_utc, origin, carrier, count(*), count(*) FILTER (cancelled), avg(dep_delay), max(dep_delay) "
        "FROM reported_flights GROUP BY ALL",
    ),
    "aircraft": (
        2,
        "SELECT hour_utc, origin, count(DISTINCT tailnum), count(DISTINCT carrier) FROM reported_flights GROUP BY ALL",
    ),
    "destinations": (
        2,
        "SELECT hour_utc, dest, count(*), count(*) FILTER (dep_delay >= 15), min(dep_delay), max(dep_delay) "
        "FROM reported_flights GROUP BY ALL",
    ),
    "punctuality": (
        3,
        "SELECT hour_utc, origin, if(distance < 500, 'short', if(distance < 1500, 'medium', 'long')), "
        "count(*), count(*) FILTER (dep_delay < 15), avg(dep_delay), sum(distance) "
        "FROM reported_flights WHERE NOT cancelled GROUP BY ALL",
    ),
}
_BY_DAY = (
    "SELECT make_date(year, month, day), count(DISTINCT tailnum), count(DISTINCT carrier) "
    "FROM flights GROUP BY ALL ORDER BY ALL"
)
_LAST_DAY = """
    SELECT start, count(*), count(*) FILTER (cancelled)
    FROM flights JOIN (
        SELECT unnest(range(min(hour_utc) - INTERVAL 1 DAY, max(hour_utc) + INTERVAL 1 HOUR, INTERVAL 1 HOUR)) AS start
        FROM flights
    ) ON hour_utc >= start AND hour_utc < start + INTERVAL 1 DAY
    GROUP BY start ORDER BY start"""


class Oracle:
    """The expected answers for some ``days`` of January 2013, from the CSV file ``flights``."""

    def __init__(self, flights: Path, days: Iterable[int]) -> None:
        self._database = duckdb.connect()
        self._database.execute("SET TimeZone = 'UTC'")
        self._database.execute(_FLIGHTS, [str(flights), list(days)])

    def metrics(self, until: datetime, held_back: tuple[str, datetime] | None = None) -> dict[str, Cells]:
        """The cells of each metric over the flights that were reported before ``until`` (aware).

        The flights of the airport and hour ``held_back`` are not counted.
        """
        query = "FROM flights WHERE reported < ? AND (origin, hour_utc) IS DISTINCT FROM (?, ?)"
        self._database.execute(
            f"CREATE OR REPLACE TEMP TABLE reported_flights AS {query}", [until, *(held_back or (None, None))]
        )
        answers = {}
        for metric, (width, query) in _METRICS.items():
            answers[metric] = {row[:width]: row[width:] for row in self._database.execute(query).fetchall()}
        return answers

    def quiet_hours(self) -> list[datetime]:
        """The hours between the first and the last flight in which no flight is scheduled."""
        busy = {hour for (hour,) in self._database.execute("SELECT DISTINCT hour_utc FROM flights").fetchall()}
        between = range((max(busy) - min(busy)) // timedelta(hours=1))
        return [hour for number in between if (hour := min(busy) + timedelta(hours=number)) not in busy]

    def last_day(self) -> list[tuple[object, ...]]:
        """The numbers of flights and of cancelled ones in each 24 hours that contain a flight, by their start."""
        return self._database.execute(_LAST_DAY).fetchall()

    def by_day(self) -> list[tuple[object, ...]]:
        """Each day in New York, with the numbers of distinct aircraft and carriers over all flights."""
        return self._database.execute(_BY_DAY).fetchall()
