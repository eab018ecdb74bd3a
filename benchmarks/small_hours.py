"""Measures `hourline import` of a year of small hours, compared with that of a month of the same.

    python -m benchmarks.small_hours [--full]

A year has 8,760 hours, a month 720, each hour 10 events with ids, of one metric with a dimension. The quick form
imports a quarter of a year and a month. This is what somebody meets who tries Hourline with history of their own: what
an hour costs, not what an event costs. After that, one late event of a long past hour is imported into each: a run must
not cost more with more history.

Times are CPU seconds of the command with its Java. All results are compared with plain counts before a time counts.
"""

import json
import tempfile
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import serving_layer
from benchmarks.figures import Figure
from benchmarks.processes import cost_of, hourline
from benchmarks.project_files import write_files
from benchmarks.running import run

MONTH, QUARTER, YEAR = 720, 2_190, 8_760
EVENTS, PAGES = 10, "abc"
LATE = 3
"""The number of the hour that gets a late event."""
FIRST = datetime(2024, 1, 1, tzinfo=UTC)
FILES = {
    "hourline.yaml": "name: small_hours\n",
    "sources/clicks.yaml": (
        "topic: clicks\nfields: {id: string, at: timestamp, page: string, ms: long}\nevent_time: at\nid: id\n"
    ),
    "metrics/views.yaml": "source: clicks\ndimensions: [page]\nmeasures: {views: count, spent: sum(ms)}\n",
}
Truth = Counter[tuple[datetime, str]]
"""By hour and page, the number of events."""


def measure(full: bool) -> Iterator[Figure | str]:
    long = YEAR if full else QUARTER
    with tempfile.TemporaryDirectory() as folder:
        costs = {hours: imported(Path(folder) / f"{hours}", hours) for hours in (MONTH, long)}
    (month, late_of_month), (longer, late) = costs[MONTH], costs[long]
    many = f"{long:,} hours of {EVENTS} events each"
    if full:
        yield Figure(what=f"import of {many}", unit="CPU s", ours=[longer], peer=[], goal=60.0)
    yield Figure(
        what=f"import of {many}, to {MONTH}", unit="CPU s", ours=[longer], peer=[month], goal=8.0 if full else 3.0
    )
    yield Figure(
        what=f"import of one late event into {long:,} hours, to {MONTH}",
        unit="CPU s",
        ours=late,
        peer=late_of_month,
        goal=1.15,
    )


def imported(root: Path, hours: int) -> tuple[float, list[float]]:
    """The cost of importing the hours, and of late events, three times one."""
    write_files(root, FILES)
    truth: Truth = Counter()
    write_events(root / "events.jsonl", range(hours), truth)
    whole = cost_of(hourline(root, "import", str(root / "events.jsonl"), "--source", "clicks")).cpu
    check(root, truth)
    late = []
    for number in range(LATE):
        (root / f"late{number}.jsonl").write_text(event(truth, -number - 1, FIRST + timedelta(hours=LATE)))
        command = hourline(root, "import", str(root / f"late{number}.jsonl"), "--source", "clicks")
        late.append(cost_of(command).cpu)
    check(root, truth)
    return whole, late


def write_events(file: Path, hours: range, truth: Truth) -> None:
    """Write the events of the hours, by their numbers, and count them in ``truth``."""
    with file.open("w") as lines:
        for number in range(hours.start * EVENTS, hours.stop * EVENTS):
            lines.write(event(truth, number, FIRST + number * timedelta(hours=1) / EVENTS))


def event(truth: Truth, number: int, moment: datetime) -> str:
    """A line of a file, which is counted in ``truth``."""
    page = PAGES[number % len(PAGES)]
    truth[moment.replace(minute=0), page] += 1
    return json.dumps({"id": str(number), "at": moment.isoformat(), "page": page, "ms": 1}) + "\n"


def check(root: Path, truth: Truth) -> None:
    """Compare all results with the counts."""
    with serving_layer.connect(root) as connection:
        found = connection.sql("SELECT hour, page, views, spent FROM views").fetchall()
    assert {(hour, page): views for hour, page, views, _ in found} == truth, "the answers are wrong"
    assert all(views == spent for *_, views, spent in found), "the answers are wrong"


if __name__ == "__main__":
    run("small_hours", measure)
