"""A recount in plain Python agrees with what both layers and a recompute have made of every kind of measure, and finds
a value that somebody has changed.
"""

from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from hourline import load_project
from hourline_core.model.hours import HOUR as LENGTH
from hourline_core.model.hours import hour_text, sql_timestamp
from tests.support import parcels
from tests.support.command_line import Failing
from tests.support.project_files import write_project
from tests.support.stack_project import StackProject
from tests.support.user_classes import SPREAD, TRAIL, UNTIL_THIRD

pytestmark = pytest.mark.heavy

HOUR = parcels.BEGIN + timedelta(hours=1)
"""It has late events that no recompute has counted."""
REAL = "case weight % 9 when 0 then double('NaN') when 1 then -0.0D when 2 then 0.0D else speed end"
EDGES = f"""\
source: scans
window: 15m
where: belt <> 'none' or belt is null
dimensions:
  - real: case weight % 5 when 0 then double('NaN') when 1 then -0.0D when 2 then 0.0D end
  - pair: struct(fragile, array(belt) as belts)
measures:
  scans: count
  fragile: count where fragile
  least: min({REAL})
  most: max({REAL})
  sum: sum({REAL})
  mean: mean({REAL}) where fragile
  way: sum(speed)
  big: sum(parcel)
  var: variance({REAL})
  dev: stddev(speed)
  var_pop: var_pop(speed)
  dev_pop: stddev_pop(weight)
  median: quantile({REAL}, 0.5)
  reals: distinct({REAL})
  lists: distinct(array(belt, depot))
  often: top({REAL}, 3)
  first: first({REAL})
  last: last({REAL})
  any: any({REAL} > 5)
  every: every(speed > 1)
  spread: spread(weight) where fragile
  trail: trail(weight)
  until_third: until_third(weight) where weight > 1
  each: ratio(way, reals)
  rate: rate(scans)
"""
FAILING = SPREAD.replace(
    "def add(self, state, x):",
    "def add(self, state, x):\n        if 1300 <= x < 1500:\n            raise ValueError('thirteen hundred')",
)


@pytest.fixture(scope="module")
def project(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> StackProject:
    """Duplicates, also above a cutoff, nulls, NaN, -0.0, events in quarantine, and a revised hour."""
    project = parcels.make(tmp_path_factory.mktemp("recount"), kafka, topic="recount", few=True)
    own = {"measures/spread.py": FAILING, "folds/trail.py": TRAIL, "folds/until_third.py": UNTIL_THIRD}
    write_project(project.root, {"metrics/edges.yaml": EDGES, **own})
    project.project = load_project(project.root, {"KAFKA": kafka})
    bodies = parcels.scans(project.random, 900, first_hour=0, hours=5)
    project.send("scans", bodies)
    project.drain()
    project.recompute()
    project.send("scans", [*parcels.scans(project.random, 50, first_hour=1, hours=1), *bodies[:50]])
    project.drain()
    return project


def test_a_recount_agrees_with_every_published_value(project: StackProject) -> None:
    lines = project.command("verify", "--recount", *around(HOUR)).splitlines()
    assert lines[-1] == "all values agree"
    found = [line.split() for line in lines[1:-1]]
    assert [(metric, hour) for metric, hour, _, _ in found] == [
        (metric, hour_text(HOUR)) for metric in ("edges", "flow", "fragile")
    ]
    assert all(int(cells) == int(agree) > 5 for _, _, cells, agree in found)


def test_a_changed_value_is_found_and_the_first_one_is_shown(project: StackProject, tmp_path: Path) -> None:
    copied = project.copy(tmp_path)
    (final,) = (Path(copied.project.tables) / "final/fragile").iterdir()
    for file in DeltaTable(final).file_uris():
        rows = pq.read_table(file)
        changed = [row["scans"] + (row["hour"] == HOUR and row["depot"] == "south") for row in rows.to_pylist()]
        column = rows.schema.get_field_index("scans")
        pq.write_table(rows.set_column(column, rows.schema.field(column), pa.array(changed, pa.int64())), file)
    lines = copied.command("verify", "--recount", "--metric", "fragile", *around(HOUR), status=1).splitlines()
    assert any(line.strip() == "the first of 2 difference(s)" for line in lines), lines
    (first,) = (line.split() for line in lines if "depot south" in line)
    assert first[:5] == ["fragile", hour_text(HOUR), "depot", "south", "heavy_share"]
    ends = f"--from {hour_text(HOUR)} --to {hour_text(HOUR + LENGTH)}"
    assert lines[-1] == f"to compute this hour again: `hourline recompute {ends} --metric fragile`"


def test_what_cannot_be_recounted_is_told_in_one_sentence(
    project: StackProject, failing: Failing, tmp_path: Path
) -> None:
    copied = project.copy(tmp_path)
    folder = copied.root
    assert "give --recount, too" in failing.sentence("verify", *around(HOUR), folder=folder)
    assert "give both --from and --to" in failing.sentence("verify", "--recount", "--from", "2024-05-06", folder=folder)
    said = failing.sentence("verify", "--recount", *around(HOUR + 99 * LENGTH), folder=folder)
    assert "no hour of that range is published" in said
    said = failing.sentence("verify", "--recount", "--metric", "fragil", folder=folder)
    assert "did you mean 'fragile'?" in said
    DeltaTable(Path(copied.project.tables) / "events/scans").delete(f"hour = '{sql_timestamp(HOUR)}'")
    said = failing.sentence("verify", "--recount", "--metric", "fragile", *around(HOUR), folder=folder, status=1)
    assert f"the archive of source 'scans' has no event of {hour_text(HOUR)}" in said


def around(hour: datetime) -> list[str]:
    return ["--from", hour_text(hour), "--to", hour_text(hour + LENGTH)]
