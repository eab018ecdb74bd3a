"""Measures `hourline recompute` of 40 sources with two metrics each, compared with that of one such source.

    python -m benchmarks.small_metrics [--full]

Each source has 1,000 events with ids in three closed hours, which are few. So this is what a metric costs, not what an
event costs. The command folds them itself, without Spark. The product's own import fills both projects, in one Spark
session.

Times are wall times of the command, from its start to its end. The subjects take turns, twice (full: four times).
The first time, final has no tables yet. Each time, all hours are recomputed, audited and published. All results are
compared with plain counts before a time counts.
"""

import json
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import serving_layer
from benchmarks.figures import Figure
from benchmarks.processes import cost_of, hourline
from benchmarks.project_files import write_files
from benchmarks.running import run
from hourline import Project, load_project
from hourline_core.model.hours import HOUR, hour_text
from speed_layer.import_files import find_history, import_files
from speed_layer.spark_session import speed_session

SOURCES, HOURS, EVENTS, PAGES = 40, 3, 1_000, "abc"
ROUNDS = {False: 2, True: 4}
FIRST = datetime(2024, 1, 1, tzinfo=UTC)
CLOSING = FIRST + 12 * HOUR
"""When the last event of a source comes, which closes its hours. Its own hour stays open."""
SOURCE = "topic: {0}\nfields: {{id: string, at: timestamp, page: string, ms: long}}\nevent_time: at\nid: id\n"
VIEWS = "source: {0}\ndimensions: [page]\nmeasures: {{views: count, spent: sum(ms)}}\n"
TIMES = "source: {0}\nmeasures: {{events: count, longest: max(ms)}}\n"
Truth = dict[tuple[datetime, str], list[int]]
"""By hour and page, the milliseconds of the events of each source."""


def measure(full: bool) -> Iterator[Figure | str]:
    with tempfile.TemporaryDirectory() as folder:
        lines, truth = events()
        projects = [written(Path(folder) / f"{sources}", sources, lines) for sources in (SOURCES, 1)]
        with speed_session(projects[0]) as spark:
            for project in projects:
                file = str(project.root / "events.jsonl")
                for source in project.sources.values():
                    import_files(spark, project, source, find_history(project, source, [file]))
        rounds = [[recompute(project, truth) for project in projects] for _ in range(ROUNDS[full])]
    many, one = zip(*rounds, strict=True)
    what = f"recompute of {SOURCES} sources with two metrics each, {HOURS} hours of {EVENTS:,} events, to one source"
    yield Figure(what=what, unit="s", ours=list(many), peer=list(one), goal=2.5)


def events() -> tuple[str, Truth]:
    """The lines of a file, and what they count."""
    lines: list[str] = []
    truth: Truth = {}
    moments = [FIRST + number * HOURS * HOUR / EVENTS for number in range(EVENTS)]
    for number, moment in enumerate([*moments, CLOSING]):
        page = PAGES[number % len(PAGES)]
        truth.setdefault((moment.replace(minute=0, second=0, microsecond=0), page), []).append(number)
        lines.append(json.dumps({"id": str(number), "at": moment.isoformat(), "page": page, "ms": number}))
    return "\n".join(lines) + "\n", truth


def written(root: Path, sources: int, lines: str) -> Project:
    """A project with so many sources, and the file of their events."""
    files = {"hourline.yaml": "name: small_metrics\n", "events.jsonl": lines}
    for number in range(1, sources + 1):
        name = f"s{number}"
        files |= {f"sources/{name}.yaml": SOURCE.format(name), f"metrics/{name}_views.yaml": VIEWS.format(name)}
        files[f"metrics/{name}_times.yaml"] = TIMES.format(name)
    return load_project(write_files(root, files))


def recompute(project: Project, truth: Truth) -> float:
    """Recompute all hours, and check them."""
    between = ["--from", hour_text(FIRST), "--to", hour_text(FIRST + HOURS * HOUR)]
    wall = cost_of(hourline(project.root, "recompute", *between)).wall
    hours = [FIRST + number * HOUR for number in range(HOURS)]
    views = {(*of, len(ms), sum(ms)) for of, ms in truth.items() if of[0] in hours}
    of_hours = {hour: [one for of, ms in truth.items() if of[0] == hour for one in ms] for hour in hours}
    times = {(hour, len(ms), max(ms)) for hour, ms in of_hours.items()}
    with serving_layer.connect(project) as connection:
        for source in project.sources:
            rows = connection.sql(f"SELECT hour, page, views, spent FROM {source}_views_final").fetchall()
            assert sorted(rows) == sorted(views), f"{source}: the answers are wrong"
            rows = connection.sql(f"SELECT hour, events, longest FROM {source}_times_final").fetchall()
            assert sorted(rows) == sorted(times), f"{source}: the answers are wrong"
    return wall


if __name__ == "__main__":
    run("small_metrics", measure)
