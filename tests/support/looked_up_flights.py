"""Flights that meet the rows of planes and airports, and what a naive pass finds for them."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

import serving_layer
from hourline import Project, load_project
from hourline.cli import app
from hourline_core.model.hours import iso_text
from hourline_core.runtime.lease import lease
from speed_layer.import_files import find_history, import_files
from speed_layer.spark_session import speed_session

BASE = datetime(2026, 3, 2, 8, tzinfo=UTC)
FIELDS = """\
fields: {tail: string, origin: string, dest: string, at: timestamp}
event_time: at
grace: 0s
lookups:
  plane: tail
  home: {lookup: airport, key: origin}
  away: {lookup: airport, key: dest}
"""
DERIVED = """\
derived: {maker: upper(plane.maker)}
where: away IS NOT NULL
"""
FILES = {
    "hourline.yaml": "",
    "sources/flights.yaml": f"topic: flights\n{FIELDS}",
    "sources/hops.yaml": f"topic: hops\n{FIELDS}{DERIVED}",
    "lookups/plane.yaml": """
        table: planes.csv
        key: tail
        columns: {tail: string, maker: string, seats: int, since: timestamp, until: timestamp}
        valid_from: since
        valid_to: until
        """,
    "lookups/airport.yaml": """
        table: airports.csv
        key: code
        columns: {code: string, zone: string}
        """,
    "metrics/by_maker.yaml": """
        source: flights
        dimensions: {maker: plane.maker}
        measures: {flights: count, seats: sum(plane.seats), far: count where away.zone <> home.zone}
        """,
    "metrics/by_upper.yaml": """
        source: hops
        dimensions: [maker]
        measures: {flights: count, seats: sum(plane.seats), far: count where away.zone <> home.zone}
        """,
    "airports.csv": "code,zone\nJFK,east\nLGA,east\nSFO,west\n",
}
HALF = BASE + timedelta(minutes=90)
PLANES = [
    {"tail": "N1", "maker": "Airbus", "seats": 180, "since": None, "until": HALF},
    {"tail": "N1", "maker": "Boeing", "seats": 200, "since": HALF, "until": None},
    {"tail": "N2", "maker": "Embraer", "seats": 50, "since": None, "until": None},
]
ZONES = {"JFK": "east", "LGA": "east", "SFO": "west"}
FLIGHTS: list[dict[str, Any]] = [
    {"tail": tail, "origin": origin, "dest": dest, "at": BASE + timedelta(minutes=17 * (7 * number % 16))}
    for number, (tail, origin, dest) in enumerate(
        (tail, origin, dest)
        for tail in ("N1", "N2", "N9", None)
        for origin in ("JFK", "LGA")
        for dest in ("SFO", "XXX")
    )
]
LAST = (BASE + timedelta(minutes=17 * (len(FLIGHTS) - 1))).replace(minute=0)
"""The hour that is still open."""
Rows = list[tuple[Any, ...]]


def import_flights(root: Path, flights: Iterable[Mapping[str, Any]] = FLIGHTS, name: str = "history.jsonl") -> Project:
    """The project in ``root``, whose sources have these flights from a file, too."""
    project = load_project(root)
    history = root / name
    history.write_text("".join(json.dumps({**flight, "at": iso_text(flight["at"])}) + "\n" for flight in flights))
    with lease(project.workspace, "speed"), speed_session(project) as spark:
        for source in project.sources.values():
            import_files(spark, project, source, find_history(project, source, [str(history)]))
    return project


def recompute_as_of(root: Path, token: str) -> None:
    """Recompute all closed hours with the lookups of an answer."""
    arguments = ["--from", iso_text(BASE), "--to", iso_text(LAST), "--lookups-as-of", token, "--project", str(root)]
    done = CliRunner().invoke(app, ["recompute", *arguments])
    assert done.exit_code == 0, done.output


def span(root: Path, end: datetime) -> list[str]:
    return ["--from", iso_text(BASE), "--to", iso_text(end), "--project", str(root)]


def run(root: Path, *arguments: str) -> None:
    done = CliRunner().invoke(app, [*arguments, "--project", str(root)], catch_exceptions=False)
    assert done.exit_code == 0, done.output


def write_planes(root: Path, planes: Iterable[Mapping[str, Any]]) -> None:
    lines = [",".join(text(value) for value in plane.values()) for plane in planes]
    (root / "planes.csv").write_text("\n".join(["tail,maker,seats,since,until", *lines]) + "\n")


def text(value: Any) -> str:
    return "" if value is None else iso_text(value) if isinstance(value, datetime) else str(value)


def read(project: Project, metric: str) -> Rows:
    with serving_layer.connect(project) as connection:
        columns = "hour, maker, flights, seats, far"
        rows: Rows = connection.sql(f"SELECT {columns} FROM {metric} ORDER BY ALL NULLS LAST").fetchall()
    return rows


def states(project: Project, metric: str = "by_maker") -> set[tuple[datetime, str]]:
    with serving_layer.connect(project) as connection:
        return set(connection.sql(f"SELECT hour, state FROM hours WHERE name = '{metric}'").fetchall())


def always(planes: list[dict[str, Any]]) -> Callable[[int], list[dict[str, Any]]]:
    return lambda _: planes


def until_last(planes: list[dict[str, Any]], of_last: list[dict[str, Any]]) -> Callable[[int], list[dict[str, Any]]]:
    """Other planes in the open hour."""
    return lambda number: of_last if FLIGHTS[number]["at"].replace(minute=0) == LAST else planes


def expected(planes_of: Callable[[int], list[dict[str, Any]]], *, upper: bool = False) -> Rows:
    """The rows by the planes that each flight, by its number, meets."""
    flights: Counter[tuple[Any, ...]] = Counter()
    seats: dict[tuple[Any, ...], int | None] = {}
    far: Counter[tuple[Any, ...]] = Counter()
    for number, flight in enumerate(FLIGHTS):
        hour = flight["at"].replace(minute=0)
        plane = find(planes_of(number), flight["tail"], flight["at"])
        home, away = ZONES.get(flight["origin"]), ZONES.get(flight["dest"])
        if upper and away is None:
            continue
        key = (hour, plane and (plane["maker"].upper() if upper else plane["maker"]))
        flights[key] += 1
        far[key] += away is not None and home != away
        seats[key] = (seats.get(key) or 0) + plane["seats"] if plane else seats.get(key)
    rows = [(*key, flights[key], seats[key], far[key]) for key in flights]
    return sorted(rows, key=lambda row: (row[0], row[1] is None, row[1] or ""))


def find(planes: list[dict[str, Any]], tail: str | None, time: datetime) -> dict[str, Any] | None:
    for plane in planes:
        if (
            plane["tail"] == tail
            and (plane["since"] or time) <= time
            and (plane["until"] is None or time < plane["until"])
        ):
            return plane
    return None
