"""The acts of the demo."""

from dataclasses import replace
from datetime import UTC, datetime

from examples.nyc_flights.check import compare_audited, compare_changes, compare_quiet_hours, compare_rows
from examples.nyc_flights.flights import hold_back, write_parts
from examples.nyc_flights.make_tables import data_folder
from examples.nyc_flights.oracle import Oracle, Sent
from examples.nyc_flights.screen import picture, side_by_side
from examples.nyc_flights.stage import Stage
from examples.nyc_flights.weather import write_weather

BY_DAY = (
    "SELECT (window_start AT TIME ZONE 'America/New_York')::DATE AS day, aircraft, carriers FROM aircraft_by_day "
    "ORDER BY day"
)
BY_MAKER = (
    "SELECT manufacturer, sum(flights)::INT AS flights, sum(seats)::INT AS seats, sum(no_tail)::INT AS no_tail, "
    "sum(unknown_tail)::INT AS unknown_tail FROM fleet GROUP BY manufacturer ORDER BY flights DESC LIMIT 3"
)
BY_WIND = (
    "SELECT wind, sum(flights)::INT AS flights, sum(no_weather)::INT AS no_weather, min(coldest) AS coldest FROM winds "
    "GROUP BY wind ORDER BY flights DESC"
)
LAST_DAY = "SELECT window_start, flights, cancelled FROM traffic_last_day ORDER BY window_start"


def _utc(day: int, hour: int, minute: int = 0) -> datetime:
    return datetime(2013, 1, day, hour, minute, tzinfo=UTC)


# The reports of one airport and hour are held back until later, so the audit blocks that hour.
_HELD_BACK = ("JFK", _utc(1, 15))

# The weather of one airport and hour is late by a day. Its flights count without weather until then.
_LATE_WEATHER = ("LGA", _utc(1, 20))

# The ends of the parts. The short second part runs while Airflow recomputes. At its pace, both take about as long.
_ENDS = [_utc(2, 1), _utc(2, 2), _utc(3, 1), _utc(6, 0)]


def tell(stage: Stage, oracle: Oracle) -> None:
    """Run the demo. All comparisons with the oracle are added to ``stage.comparison``."""
    screen = stage.screen
    evening, night, next_day, rest = write_parts(stage.flights, _ENDS, stage.folder)
    evening, held_back = hold_back(evening, *_HELD_BACK)
    first_weather, late_weather, later_weather = write_weather(
        data_folder() / "weather.csv", evening.end, _LATE_WEATHER, stage.folder
    )
    screen.title("Kafka, Spark and Airflow start")
    stage.start()

    screen.title("New Year's Day: each flight reports when it leaves. All hours are provisional")
    stage.stream(evening, 5000)
    stage.check(oracle, Sent(evening.end, weather=_utc(1, 0), without_flights=_HELD_BACK))

    screen.title("The weather comes late, as a second stream. Each flight meets that of its hour")
    stage.report_weather(first_weather)
    known = Sent(evening.end, evening.end, _HELD_BACK, _LATE_WEATHER)
    stage.check(oracle, known)

    stage.wait_for_airflow()
    screen.title("Airflow's scheduler recomputes while the stream goes on: closed hours turn final")
    stage.scheduled(night, 250)
    stage.check(oracle, replace(known, flights=night.end))

    screen.title("One hour of one metric is blocked by its audit: it lacks JFK's flights, which the demo kept back")
    stage.run("quality", "--blocked")

    screen.title("Late departures: flights that leave hours after schedule make hours revised")
    stage.stream(next_day, 6000)
    stage.run("status", "--last", "3")
    stage.check(oracle, replace(known, flights=next_day.end))

    screen.title("The missing reports and weather come, and two days more. The scheduler's next run closes them all")
    stage.stream(held_back, 100000)
    stage.report_weather(late_weather, takes_back=True)
    stage.report_weather(later_weather)
    stage.scheduled(rest, 15000)
    stage.check(oracle, Sent(rest.end, rest.end))
    stage.add_comparison(compare_quiet_hours(stage.hours.connection, oracle.quiet_hours()))
    stage.run("quality")
    screen.show(picture(stage.hours))

    screen.title("How far off was an hour's last provisional answer?")
    screen.show(side_by_side(stage.hours))

    screen.title("How many different aircraft left each day? Hours merge; they do not add up")
    stage.run("query", BY_DAY)
    stage.add_comparison(
        compare_rows(stage.hours.connection, BY_DAY, oracle.by_day(), "by day"),
        compare_rows(stage.hours.connection, LAST_DAY, oracle.last_day(), "by day"),
    )

    screen.title("Who made the aircraft? Flights meet the rows of other tables, by their tail and time")
    stage.run("query", BY_MAKER)
    stage.add_comparison(
        compare_rows(stage.hours.connection, BY_MAKER, oracle.by_maker(), "by maker"),
        compare_audited(stage.hours.connection, oracle.without_row()),
    )

    screen.title("Does the wind delay them? Flights are joined with the weather of their hour, and count without it")
    stage.run("query", BY_WIND)
    stage.add_comparison(compare_rows(stage.hours.connection, BY_WIND, oracle.by_wind(), "by wind"))

    screen.title("What has changed between any two of these checks? `hourline changes` says it, value by value")
    stage.add_comparison(compare_changes(stage.hours.connection.project, stage.answers))
