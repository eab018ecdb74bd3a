"""Measures whether an hour costs more, the more hours were published before.

    python -m benchmarks.publications [--full]

A year has 8,760 hours with 10 events each (quick: a month of 720). It is published by one `hourline import`, and by one
`hourline backfill` of an archive of which nothing is published yet. Both have a job for each day here
(`batch.hours_per_job`), and the cost of a job is what the command takes from one commit of coverage to the next. The
jobs of the last tenth are compared with those of the first tenth. The first job is left out, since it imports packages.

Then the hours are published one by one, with the daily maintenance. The product's own commits do that: a year of whole
runs would take hours. The commits of a day in the last tenth are compared with those of one in the first tenth. After a
tenth of the hours, and after all of them, a day is published by whole runs: the plan, the recompute without Spark, its
audit and reports. The runs of both take turns.

The quick form has no goals: audits and reports look back at four weeks, which a tenth of a month does not have. A tenth
of a year has eight days more than that.

Times are CPU seconds. All results are compared with the written data before a time counts.
"""

import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import serving_layer
from batch_layer.maintenance import Maintenance
from batch_layer.plan import plan
from batch_layer.recompute import recompute
from benchmarks.archive import FIRST, Archive
from benchmarks.figures import Figure
from benchmarks.processes import cost_of_each, hourline
from benchmarks.project_files import write_files
from benchmarks.running import run
from benchmarks.small_hours import FILES, MONTH, YEAR, check, write_events
from hourline_core.model.hours import HOUR, hour_text

EVENTS = 10
DAY = 24
OPEN = 2
"""The number of hours that are open, since `grace` is an hour."""
GOAL = 1.1


def measure(full: bool) -> Iterator[Figure | str]:
    hours = YEAR if full else MONTH
    goal = GOAL if full else None
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        yield compared(f"a job of an import of {hours:,} hours", imported(folder / "import", hours), goal)
        yield compared(f"a job of a backfill of {hours:,} hours", backfilled(folder / "backfill", hours), goal)
        early, late = Archive(folder / "early"), Archive(folder / "late")
        by_hour(early, hours // 10)
        yield compared(f"commits of a day of runs of one hour, of {hours:,} such runs", by_hour(late, hours), goal)
        first, last = runs(early, late)
        before, after = (number // DAY * DAY for number in (hours // 10, hours))
        what = f"a run of one hour after {after:,} published hours, to one after {before:,}"
        yield Figure(what=what, unit="CPU s", ours=last, peer=first, goal=goal)


def compared(what: str, costs: list[float], goal: float | None) -> Figure:
    """The costs of the last tenth, beside those of the first tenth. The first one is left out."""
    tenth = len(costs) // 10
    return Figure(
        what=f"{what}: the last tenth to the first",
        unit="CPU s",
        ours=costs[-tenth:],
        peer=costs[1 : tenth + 1],
        goal=goal,
    )


def imported(root: Path, hours: int) -> list[float]:
    """The cost of each job of an import."""
    write_files(root, FILES | {"hourline.yaml": settings("small_hours")})
    truth = write_events(root / "events.jsonl", hours)
    command = hourline(root, "import", str(root / "events.jsonl"), "--source", "clicks")
    costs = cost_of_each(command, partial(published, root))
    check(root, truth)
    return costs


def backfilled(root: Path, hours: int) -> list[float]:
    """The cost of each job of a backfill."""
    archive = Archive(root)
    archive.write(hours + OPEN, EVENTS)
    (root / "hourline.yaml").write_text(settings("archive"))
    between = ["--from", hour_text(FIRST), "--to", hour_text(FIRST + hours * HOUR)]
    costs = cost_of_each(hourline(root, "backfill", *between), partial(published, root))
    check_archive(archive)
    return costs


def settings(name: str) -> str:
    return f"name: {name}\nbatch: {{hours_per_job: {DAY}}}\n"


def published(root: Path) -> int:
    """The number of publications so far."""
    commits = [*(root / ".hourline" / "tables" / "coverage" / "_delta_log").glob("*.json")]
    return max(len(commits) - 1, 0)  # the first one creates the table


def by_hour(archive: Archive, hours: int) -> list[float]:
    """Publish the hours one by one by the commits of their runs alone. Returns what each day costs, with its share of
    maintenance.
    """
    days = []
    for _ in range(OPEN):
        archive.arrive(EVENTS)
    for day in range(hours // DAY):
        used = 0.0
        for number in range(day * DAY, (day + 1) * DAY):
            archive.arrive(EVENTS)
            used += cpu_of(partial(archive.publish_hour, number))
        days.append(used + cpu_of(partial(maintain, archive)))
    return days


def maintain(archive: Archive) -> None:
    """The daily maintenance."""
    list(Maintenance(archive.project, clock=lambda: FIRST + archive.hours * HOUR).run())


def check_archive(archive: Archive) -> None:
    """Compare the results of all hours with the written events."""
    with serving_layer.connect(archive.project) as connection:
        got = connection.sql("SELECT hour, shop, orders, takings, dearest FROM turnover ORDER BY hour, shop").fetchall()
    assert got == [tuple(row.values()) for row in archive.truth.to_pylist()], "the answers are wrong"


def runs(early: Archive, late: Archive) -> tuple[list[float], list[float]]:
    """The cost of each of a day's runs after some hours, and after many, in turn. The first one of each is left out."""
    costs: dict[Path, list[float]] = {one.project.root: [] for one in (early, late)}
    for _ in range(DAY + 1):
        for archive in (early, late):
            archive.arrive(EVENTS)
            costs[archive.project.root].append(cpu_of(partial(run_once, archive)))
    for archive in (early, late):
        check_archive(archive)
    return costs[early.project.root][1:], costs[late.project.root][1:]


def run_once(archive: Archive) -> None:
    [hour] = plan(archive.project)
    recompute(archive.project, [hour])


def cpu_of(work: Callable[[], object]) -> float:
    """CPU seconds that this process takes for some work."""
    began = time.process_time()
    work()
    return time.process_time() - began


if __name__ == "__main__":
    run("publications", measure)
