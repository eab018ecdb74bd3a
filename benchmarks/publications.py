"""Measures whether an hour costs more, the more hours were published before.

    python -m benchmarks.publications [--full]

A year has 8,760 hours with 10 events each (quick: a month of 720). Its last tenth is compared with its first tenth, in
two projects that take turns. In one, nothing is published yet. In the other, all hours before the last tenth are.

`hourline import` and `hourline backfill` publish the tenths in jobs of two days, by two commands each (quick: one day,
and one command). The cost of a job is what the command takes from one commit of coverage to the next. The first job of
each command is left out, since it imports packages. One command publishes the hours before the last tenth, in the jobs
that Hourline cuts. So these figures are about hours. In the year, two publications come before the last tenth.

Then come whole runs of one hour: the plan, the recompute without Spark, its audit, commits and reports. One project has
published a tenth of the hours before, the other all of them, each hour by a publication of its own. Whole runs would
take hours for that, so these are the product's own commits alone: staged rows, drift, findings, final and coverage. All
their events are archived at once, and maintenance comes once a week, not daily.

Three things make these commits cheap, and change no row:

- Tables have a checkpoint every 20 commits, not every 100.
- Checkpoints forget replaced files after a second, and maintenance keeps no older versions. In real time, both keep
  those of a week, after a tenth of the year and after all of it.
- Each commit lists the log of its table. What no commit reads any more of it is moved out, and moved back before the
  runs. So the runs find the whole log.

By the first two, a run costs a little less than in real time, in both projects alike.

The quick form has no goals: audits and reports look back at four weeks, which a tenth of a month does not have. A tenth
of a year has eight days more than that.

Times are CPU seconds. All results are compared with the written data before a time counts.
"""

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from unittest.mock import patch

import serving_layer
from batch_layer.maintenance import Maintenance
from batch_layer.plan import plan
from batch_layer.recompute import recompute
from benchmarks.archive import FIRST, Archive
from benchmarks.figures import Figure
from benchmarks.processes import cost_of, cost_of_each, hourline
from benchmarks.project_files import write_files
from benchmarks.running import run
from benchmarks.small_hours import FILES, MONTH, YEAR, Truth, check, write_events
from hourline import load_project
from hourline_core.ledger.layout import Layout
from hourline_core.model.hours import HOUR, hour_text
from hourline_core.storage.version_retention import PUBLISHED

EVENTS = 10
DAY = 24
WEEK = 7 * DAY
OPEN = 2
"""The number of hours that are open, since `grace` is an hour."""
RUNS = 24
"""The number of runs of each project that count."""
BRIEF = {"delta.checkpointInterval": "20", "delta.deletedFileRetentionDuration": "interval 1 seconds"}
"""Properties of tables with cheap commits."""
GOAL = 1.1

Command = Callable[[Path, range], list[str]]
"""The command that publishes some hours of a project, by their numbers."""
Costs = tuple[list[float], list[float]]
"""Near the beginning, and near the end."""


@dataclass(frozen=True)
class Size:
    """What is published, and how often it is measured."""

    hours: int
    commands: int
    """The number of commands that publish a tenth."""
    per_job: int
    """The number of hours in each of their jobs."""


def measure(full: bool) -> Iterator[Figure | str]:
    size = Size(YEAR, commands=2, per_job=2 * DAY) if full else Size(MONTH, commands=1, per_job=DAY)
    hours, tenth = size.hours, size.hours // 10
    figure = partial(Figure, unit="CPU s", goal=GOAL if full else None)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for kind, jobs in (("import", imported), ("backfill", backfilled)):
            first, last = jobs(folder / kind, size)
            yield figure(what=f"a job of {kind} of {hours:,} hours: the last tenth to the first", ours=last, peer=first)
        first, last = runs(*(published_one_by_one(folder / f"{count}", count) for count in (tenth, hours)))
        what = f"a run of one hour after {hours:,} publications of one hour, to one after {tenth:,}"
        yield figure(what=what, ours=last, peer=first)


def imported(folder: Path, size: Size) -> Costs:
    """The cost of each job of an import of the first tenth, and of the last."""
    truths: dict[Path, Truth] = {write_files(folder / name, FILES): Counter() for name in ("early", "late")}

    def command(root: Path, chosen: range) -> list[str]:
        file = root / f"{chosen.start}.jsonl"
        write_events(file, chosen, truths[root])
        return hourline(root, "import", str(file), "--source", "clicks")

    early, late = truths
    costs = tenths(early, late, size, command)
    for root, truth in truths.items():
        check(root, truth)
    return costs


def backfilled(folder: Path, size: Size) -> Costs:
    """The cost of each job of a backfill of the first tenth, and of the last. Both projects have all events."""
    early, late = (Archive(folder / name) for name in ("early", "late"))
    for archive in (early, late):
        archive.write(size.hours + OPEN, EVENTS)

    def command(root: Path, chosen: range) -> list[str]:
        first, end = (hour_text(hour(number)) for number in (chosen.start, chosen.stop))
        return hourline(root, "backfill", "--from", first, "--to", end)

    costs = tenths(early.project.root, late.project.root, size, command)
    for archive in (early, late):
        check_archive(archive)
    return costs


def tenths(early: Path, late: Path, size: Size, command: Command) -> Costs:
    """The cost of each job of the first tenth of the hours, in ``early``, and of the last tenth, in ``late``."""
    part = size.hours // 10 // DAY * DAY // size.commands
    before = size.hours - size.commands * part
    cost_of(command(late, range(before)))
    costs: dict[Path, list[float]] = {early: [], late: []}
    for root in costs:
        declare(root, f"hours_per_job: {size.per_job}")
    for number in range(size.commands):
        for root, first in ((early, 0), (late, before)):
            begin = first + number * part
            costs[root] += cost_of_each(command(root, range(begin, begin + part)), partial(published, root))[1:]
    return costs[early], costs[late]


def declare(root: Path, batch: str) -> None:
    """Declare a setting of the batch layer."""
    with (root / "hourline.yaml").open("a") as file:
        file.write(f"batch: {{{batch}}}\n")


def hour(number: int) -> datetime:
    return FIRST + number * HOUR


def published(root: Path) -> int:
    """The number of publications so far."""
    commits = [*(root / ".hourline" / "tables" / "coverage" / "_delta_log").glob("*.json")]
    return max(len(commits) - 1, 0)  # the first one creates the table


def published_one_by_one(root: Path, hours: int) -> Archive:
    """A project that has published each of the hours by a publication of its own."""
    archive = Archive(root)
    declare(root, "answers_kept: 1s")
    archive.project = load_project(root)
    archive.write(hours + OPEN, EVENTS)
    with patch.dict(PUBLISHED, BRIEF):
        archive.publish(1)  # It creates the tables.
    aside: dict[Path, Path] = {}
    for first in range(1, hours, WEEK):
        end = min(first + WEEK, hours)
        archive.publish(end, first, per_job=1)
        list(Maintenance(archive.project, clock=partial(hour, end), kept_hours=0).run())
        set_aside(archive, aside)
    for place, file in aside.items():
        file.rename(place)
    return archive


def set_aside(archive: Archive, aside: dict[Path, Path]) -> None:
    """Move what the logs of the batch layer's tables have of versions that nothing reads any more. ``aside`` gets where
    each file was, and is now.
    """
    layout, of_metric = Layout.of(archive.project), (archive.aggregation.source, archive.aggregation.metric)
    folder = archive.project.root / "aside"
    folder.mkdir(exist_ok=True)
    for uri in (layout.coverage, layout.drift, layout.quality, layout.staged(*of_metric), layout.final(*of_metric)):
        files = sorted(Path(uri, "_delta_log").glob("[0-9]*"))
        # Maintenance and the next publication read versions of the last second. Those are in the last 40 commits.
        oldest = [file.name for file in files if file.name.endswith(".checkpoint.parquet")][-3:][0]
        for file in files:
            if file.name[:20] < oldest[:20]:
                aside[file] = file.rename(folder / f"{len(aside)}")


def check_archive(archive: Archive) -> None:
    """Compare the results of all hours with the written events."""
    with serving_layer.connect(archive.project) as connection:
        got = connection.sql("SELECT hour, shop, orders, takings, dearest FROM turnover ORDER BY hour, shop").fetchall()
    assert got == [tuple(row.values()) for row in archive.truth.to_pylist()], "the answers are wrong"


def runs(early: Archive, late: Archive) -> Costs:
    """The cost of each of a day's runs after some hours, and after many, in turn. The first one of each is left out."""
    costs: dict[Path, list[float]] = {one.project.root: [] for one in (early, late)}
    for _ in range(RUNS + 1):
        for archive in (early, late):
            archive.arrive(EVENTS)
            costs[archive.project.root].append(cost_of_run(archive))
    for archive in (early, late):
        check_archive(archive)
    return costs[early.project.root][1:], costs[late.project.root][1:]


def cost_of_run(archive: Archive) -> float:
    """The CPU seconds that this process takes for the run of one hour."""
    began = time.process_time()
    [hour] = plan(archive.project)
    recompute(archive.project, [hour])
    return time.process_time() - began


if __name__ == "__main__":
    run("publications", measure)
