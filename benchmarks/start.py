"""Measures start times, compared with a bare Spark session.

    python -m benchmarks.start [--full]

The peer is a process that only builds the same Spark session, with the same jars and settings but without the prepared
class archives, and counts the rows of a Delta table of 4.8 million events. Hourline does the same, and starts all
else that it needs. A recompute of one hour runs without Java's second compiler. So does the peer that it is compared
with.

- `hourline up` on a new project, with its own Kafka, until a query shows a record that was sent as soon as Kafka
  accepted it.
- The speed layer and its Kafka are killed with -9, with an hour of state: 200,000 events (full: 500,000) with ids, all
  in one hour. Some are repeated, and must be recognised. Then `hourline up`, until a query shows a record that was sent
  in the meantime.
- `hourline recompute` of one hour of 200,000 events, out of a day of them, until it has ended.
- `hourline recompute` of one hour of 500 events, which needs no Spark. It has a goal in seconds instead of a peer. If
  the table has a row "to one that needs Spark", the peer there is the same with expressions that only Spark evaluates.

Times are wall times from the start of a process; the subjects take turns. Queries run after a commit of the speed
layer, so they take no time from it. The answers are checked before a time counts.
"""

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

import serving_layer
from benchmarks.archive import FIRST, TILES, Archive
from benchmarks.clicks import Clicks
from benchmarks.figures import Figure
from benchmarks.processes import cost_of, hourline
from benchmarks.running import run
from hourline_core.ledger.layout import Layout
from hourline_core.model.hours import HOUR, hour_text

ROUNDS = 2
STATE = {False: 200_000, True: 500_000}
HOUR_EVENTS = 200_000
SMALL_HOUR_EVENTS = 500

BARE = """
import sys
from pathlib import Path
from hourline import load_project
from hourline_core.runtime import spark as runtime_spark
runtime_spark.sharing_options = lambda which: []
spark = runtime_spark.spark_session(load_project(Path(sys.argv[1])), "bare", brief=sys.argv[4] == "brief")
assert spark.read.format("delta").load(sys.argv[2]).count() == int(sys.argv[3])
spark.stop()
"""


def measure(full: bool) -> Iterator[Figure | str]:
    subjects = ("bare", "brief", "up", "restart", "recompute", "small", "small with Spark")
    seconds: dict[str, list[float]] = {subject: [] for subject in subjects}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        archive = Archive(folder / "archive")
        archive.write(24, HOUR_EVENTS)
        small = Archive(folder / "small")
        needs_spark = Archive(folder / "needs_spark", with_expressions=True)
        for one in (small, needs_spark):
            one.write(24, SMALL_HOUR_EVENTS)
        with Clicks(folder / "state", STATE[full]) as state:
            state.up()
            for number in range(ROUNDS):
                state.kill()  # nothing else may run now
                seconds["bare"].append(bare(archive))
                seconds["brief"].append(bare(archive, "brief"))
                seconds["recompute"].append(recompute(archive, number))
                seconds["small"].append(recompute(small, number))
                seconds["small with Spark"].append(recompute(needs_spark, number))
                with Clicks(folder / f"new{number}", 1) as new:
                    seconds["up"].append(new.up())
                state.repeat(100)
                state.send(1)
                seconds["restart"].append(state.up())
    goals = {
        "up": ("`hourline up` of a new project to its first visible row", 1.3),
        "restart": (f"restart after kill -9, with {STATE[full]:,} ids of one hour, to the next visible row", 1.3),
        "recompute": (f"`hourline recompute` of one hour of {HOUR_EVENTS:,} events", 1.5),
    }
    what = f"`hourline recompute` of one hour of {SMALL_HOUR_EVENTS} events"
    yield Figure(what=what, unit="s", ours=seconds["small"], peer=[], goal=7.0)
    with_spark = seconds["small with Spark"]
    yield Figure(what=f"{what}, to one that needs Spark", unit="s", ours=seconds["small"], peer=with_spark)
    for which, (what, goal) in goals.items():
        peer = seconds["brief" if which == "recompute" else "bare"]
        yield Figure(
            what=f"{what}, to a bare Spark session with one query", unit="s", ours=seconds[which], peer=peer, goal=goal
        )


def bare(archive: Archive, compilers: str = "both") -> float:
    """Run the peer."""
    events = Layout.of(archive.project).events(archive.aggregation.source)
    return cost_of(
        [sys.executable, "-c", BARE, str(archive.project.root), events, str(24 * HOUR_EVENTS), compilers]
    ).wall


def recompute(archive: Archive, number: int) -> float:
    """Recompute an hour for the first time."""
    begin = FIRST + number * HOUR
    between = ["--from", hour_text(begin), "--to", hour_text(begin + HOUR)]
    wall = cost_of(hourline(archive.project.root, "recompute", *between)).wall
    true = archive.truth.filter(pc.equal(archive.truth["hour"], pa.scalar(begin, TILES.field("hour").type)))
    with serving_layer.connect(archive.project) as connection:
        got = connection.sql(
            f"SELECT shop, orders, takings, dearest FROM turnover_final WHERE hour = '{begin}' ORDER BY shop"
        ).fetchall()
    assert got == [tuple(row.values())[1:] for row in true.to_pylist()], "the recomputed hour is wrong"
    return wall


if __name__ == "__main__":
    run("start", measure)
