"""The expected answers, computed by plain DuckDB over the CSV files of the data set.

The oracle shares no code with Hourline, or with the module that makes the events.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import duckdb

Cells = dict[tuple[object, ...], tuple[object, ...]]
"""Maps the hour (aware, UTC) and the dimensions to the measures, in their declared order."""


@dataclass(frozen=True)
class Sent:
    """What was sent before an answer. All times are aware."""

    flights: datetime
    """The exclusive end of the flights, by the time of their reports."""
    weather: datetime
    """The exclusive end of the weather, by its hours."""
    without_flights: tuple[str, datetime] | None = None
    """The airport and hour of flights that are held back."""
    without_weather: tuple[str, datetime] | None = None
    """The airport and hour of the weather that is late."""


# The data set contains the hour of each scheduled departure in UTC, so the oracle computes no time zones.
_FLIGHTS = """
    CREATE TABLE flights AS
    SELECT *, time_hour AS hour_utc, time_hour + to_minutes(minute) AS scheduled,
        dep_time IS NULL AS cancelled,
        time_hour + to_minutes(minute + coalesce(dep_delay, 0)) AS reported
    FROM read_csv(?, nullstr = 'NA')
    WHERE month = 1 AND list_contains(?, day)"""

# Each tenth aircraft has six more seats from midnight of 3 January on, and each tenth from 1 July on (make_tables.py).
_MET = """
    CREATE TABLE met AS
    WITH planes AS (SELECT tailnum, manufacturer, seats, row_number() OVER () % 10 AS refit FROM read_csv($planes)),
    airports AS (FROM read_csv($airports)), airlines AS (FROM read_csv($airlines))
    SELECT f.*, airlines.name AS airline, planes.tailnum AS plane, manufacturer, seats + CASE
            WHEN refit = 0 AND scheduled >= TIMESTAMPTZ '2013-01-03 05:00:00+00' THEN 6
            WHEN refit = 5 AND scheduled >= TIMESTAMPTZ '2013-07-01 04:00:00+00' THEN 6
            ELSE 0 END AS seats,
        home.name AS home, home.tz AS home_tz, away.name AS away, away.tz AS away_tz
    FROM flights f LEFT JOIN airlines USING (carrier) LEFT JOIN planes ON f.tailnum = planes.tailnum
    LEFT JOIN airports home ON f.origin = home.faa LEFT JOIN airports away ON f.dest = away.faa"""

_WEATHER = """
    CREATE TABLE weather AS SELECT origin, time_hour AS hour_utc, temp, wind_speed
    FROM read_csv(?, nullstr = 'NA') WHERE month = 1 AND list_contains(?, day)"""

# A flight without weather counts once flights and weather are both past its scheduled departure.
_WINDS = """
    SELECT hour_utc, origin,
        if(wind_speed IS NULL, NULL, if(wind_speed < 10, 'light', if(wind_speed < 15, 'moderate', 'strong'))), count(*),
        count(*) FILTER (met_weather IS NULL), avg(dep_delay), min(temp)
    FROM reported_flights LEFT JOIN (SELECT *, true AS met_weather FROM reported_weather) USING (origin, hour_utc)
    WHERE met_weather OR (scheduled < (SELECT max(scheduled) FROM reported_flights)
        AND scheduled < (SELECT max(hour_utc) FROM reported_weather))
    GROUP BY ALL"""

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
        3,
        "SELECT hour_utc, dest, away, count(*), count(*) FILTER (dep_delay >= 15), min(dep_delay), max(dep_delay), "
        "max(home_tz - away_tz) FROM reported_flights GROUP BY ALL",
    ),
    "punctuality": (
        3,
        "SELECT hour_utc, origin, if(distance < 500, 'short', if(distance < 1500, 'medium', 'long')), "
        "count(*), count(*) FILTER (dep_delay < 15), avg(dep_delay), sum(distance) "
        "FROM reported_flights WHERE NOT cancelled GROUP BY ALL",
    ),
    "fleet": (
        3,
        "SELECT hour_utc, airline, manufacturer, count(*), sum(seats), count(*) FILTER (tailnum IS NULL), "
        "count(*) FILTER (tailnum IS NOT NULL AND plane IS NULL) FROM reported_flights GROUP BY ALL",
    ),
    "winds": (3, _WINDS),
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
_BY_MAKER = """
    SELECT manufacturer, count(*), sum(seats), count(*) FILTER (tailnum IS NULL),
        count(*) FILTER (tailnum IS NOT NULL AND plane IS NULL)
    FROM met GROUP BY ALL ORDER BY 2 DESC LIMIT 3"""
_BY_WIND = """
    SELECT CASE WHEN wind_speed < 10 THEN 'light' WHEN wind_speed < 15 THEN 'moderate'
            WHEN wind_speed >= 15 THEN 'strong' END,
        count(*), 0, min(temp) FROM met JOIN weather USING (origin, hour_utc) GROUP BY ALL
    UNION ALL SELECT NULL, count(*), count(*), NULL FROM met ANTI JOIN weather USING (origin, hour_utc)
    ORDER BY 2 DESC"""
_WITHOUT_ROW = """
    FROM (SELECT hour_utc, count(*) FILTER (airline IS NULL) AS airline, count(*) FILTER (plane IS NULL) AS plane,
        count(*) FILTER (home IS NULL) AS home, count(*) FILTER (away IS NULL) AS away FROM met GROUP BY ALL)
    UNPIVOT (flights FOR lookup IN (airline, plane, home, away))"""


class Oracle:
    """The expected answers for some ``days`` of January 2013, from the CSV files ``flights`` and of ``data``."""

    def __init__(self, flights: Path, data: Path, days: Iterable[int]) -> None:
        self._database = duckdb.connect()
        self._database.execute("SET TimeZone = 'UTC'")
        self._database.execute(_FLIGHTS, [str(flights), list(days)])
        files = {name: str(data / f"{name}.csv") for name in ("planes", "airports", "airlines")}
        self._database.execute(_MET, files)
        self._database.execute(_WEATHER, [str(data / "weather.csv"), list(days)])

    def metrics(self, sent: Sent) -> dict[str, Cells]:
        """The cells of each metric over what was ``sent``."""
        reported = [
            ("reported_flights", "met", "reported", sent.flights, sent.without_flights),
            ("reported_weather", "weather", "hour_utc", sent.weather, sent.without_weather),
        ]
        for name, table, time, end, without in reported:
            query = f"FROM {table} WHERE {time} < ? AND (origin, hour_utc) IS DISTINCT FROM (?, ?)"
            self._database.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS {query}", [end, *(without or (None, None))])
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

    def by_maker(self) -> list[tuple[object, ...]]:
        """The three makers of most flights, with their flights and seats, and the flights without a known aircraft."""
        return self._database.execute(_BY_MAKER).fetchall()

    def by_wind(self) -> list[tuple[object, ...]]:
        """Each class of wind with its flights, and its lowest temperature. Null has the flights without weather."""
        return self._database.execute(_BY_WIND).fetchall()

    def without_row(self) -> dict[tuple[object, ...], int]:
        """By hour and lookup, the number of flights without a row there."""
        return {tuple(key): number for *key, number in self._database.execute(_WITHOUT_ROW).fetchall()}
