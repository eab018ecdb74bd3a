"""A keyed fold is given the events of a group in the order of their event times, wherever they were counted: whatever
came late, came twice, or lies on either side of an hour or a cutoff.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import serving_layer
from hourline_core.model import Metric
from serving_layer.reports.lineage import explain_number
from tests.protocol.test_rollups import with_rollups
from tests.support import visits as support
from tests.support.examples import examples
from tests.support.user_classes import KEPT_EVENT, TRAIL, UNTIL_THIRD
from tests.support.visits import Visit, Visits, hour
from tests.support.window_oracle import parse_window

MOST = {"trail": 5, "third": 4}
plain_tiles = support.tiles
VISITS = st.lists(
    st.builds(
        Visit,
        hour=st.integers(0, 5),
        page=st.sampled_from(["a", "b"]),
        ms=st.sampled_from([1, 2, 300]),
        visit=st.sampled_from([None, None, "x", "y"]),
        missed=st.booleans(),
        minute=st.integers(0, 3),
    ),
    min_size=1,
    max_size=12,
)
STEPS = st.lists(st.one_of(VISITS, VISITS, st.sets(st.integers(0, 5), min_size=1)), min_size=1, max_size=6)


def tiles_with_states(visits: Iterable[Visit], metric: Metric) -> pa.Table:
    """The tiles with the states of the two folds, as plain Python keeps them."""
    groups: defaultdict[Any, list[Visit]] = defaultdict(list)
    for visit in (seen := list(visits)):
        groups[hour(visit.hour), visit.page, visit.slow].append(visit)
    tiles = plain_tiles(seen, metric)
    columns: dict[str, list[Any]] = {name: [] for fold in MOST for name in (fold, f"{fold}__n")}
    for row in tiles.to_pylist():
        of_group = ordered(groups[row["hour"], row["page"], row["slow"]])
        for fold, most in MOST.items():
            columns[fold].append([kept(visit) for visit in of_group[:most]])
            columns[f"{fold}__n"].append(len(of_group))
    for name, of_rows in columns.items():
        place = tiles.schema.get_field_index(name)
        tiles = tiles.set_column(place, name, pa.array(of_rows, tiles.schema.field(place).type))
    return tiles


def kept(visit: Visit) -> dict[str, Any]:
    place = {"partition": 0, "offset": visit.offset, "place": 0, "topic": "visits"}
    return {"at": visit.time, **place, "_0": visit.ms}


def ordered(visits: Iterable[Visit]) -> list[Visit]:
    return sorted(visits, key=lambda visit: (visit.time, visit.offset))


@pytest.fixture(autouse=True, scope="module")
def _declared() -> Iterator[None]:
    """The metric has both folds."""
    metric = support.FILES["metrics/loads.yaml"].replace(
        "pages: distinct(page)", "pages: distinct(page), trail: trail(ms), third: until_third(ms)"
    )
    files = {"metrics/loads.yaml": metric, "folds/trail.py": TRAIL, "folds/until_third.py": UNTIL_THIRD}
    states = [
        pa.field(name, of) for fold in MOST for name, of in ((fold, pa.list_(KEPT_EVENT)), (f"{fold}__n", pa.int64()))
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(support, "FILES", {**support.FILES, **files})
        patch.setattr(support, "TILES", pa.schema([*support.TILES, *states]))
        patch.setattr(support, "tiles", tiles_with_states)
        yield


def after(folder: Path, steps: list[Any]) -> Visits:
    """A workspace after these micro-batches and recomputes."""
    visits = Visits(folder)
    visits.start()
    visits.micro_batch(Visit(0, "a", 5))
    for step in steps:
        if isinstance(step, list):
            visits.micro_batch(*step)
        else:
            visits.publish(*sorted(step))
    return visits


def expected(visits: Iterable[Visit]) -> tuple[str | None, float | None]:
    """The two values over some visits, which are of one group, one after the other."""
    of_group = ordered(visits)
    trail = ",".join(str(visit.ms) for visit in of_group) if len(of_group) <= MOST["trail"] else None
    third = (of_group[2].time - of_group[0].time).total_seconds() if len(of_group) >= 3 else None
    return trail, third


@settings(max_examples=examples(8))
@given(STEPS)
def test_events_are_folded_in_their_order(steps: list[Any]) -> None:
    with TemporaryDirectory() as folder:
        visits = after(Path(folder), steps)
        whole = {
            "dimensions": ["page"],
            "window": parse_window("{size: 3h, every: 1h}"),
            "measures": ["trail", "third"],
        }
        project = with_rollups(visits.project, by_page=whole)
        with serving_layer.connect(project) as connection:
            by_hour = connection.sql("SELECT hour, page, slow, trail, third FROM loads").fetchall()
            by_page = connection.sql("SELECT window_start, page, trail, third FROM by_page").fetchall()
        counted = [v for n in range(6) for v in (*visits.final(n), *visits.provisional(n))]
        assert {row[:3]: row[3:] for row in by_hour} == {
            key: expected(v for v in counted if (hour(v.hour), v.page, v.slow) == key)
            for key in {(hour(v.hour), v.page, v.slow) for v in counted}
        }
        assert {row[:2]: row[2:] for row in by_page} == {
            (start, page): expected(v for v in counted if v.page == page and 0 <= number_of(v, start) < 3)
            for page in {v.page for v in counted}
            for start in map(hour, range(-2, 6))
            if any(v.page == page and 0 <= number_of(v, start) < 3 for v in counted)
        }


def number_of(visit: Visit, start: datetime) -> float:
    """The hours from ``start`` to the visit's hour."""
    return (hour(visit.hour) - start).total_seconds() / 3600


def test_a_fold_is_explained(tmp_path: Path) -> None:
    visits = after(tmp_path, [[Visit(0, "a", 7, minute=3), Visit(0, "a", 6, minute=2)], {0}, [Visit(0, "a", 8)]])
    with serving_layer.connect(visits.project) as connection:
        explained = explain_number(connection, "loads", hour(0), {"page": "a"})
    (trail,) = [one for one in explained.answer if one.measure == "trail"]
    assert (trail.value, trail.final, trail.provisional) == ("5,8,6,7", "5,6,7", "8")


def test_a_group_has_no_value_where_its_fold_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    once = TRAIL.replace("[*state, x]", "[*state, x // (x not in state)]")
    monkeypatch.setattr(support, "FILES", {**support.FILES, "folds/trail.py": once})
    visits = after(tmp_path, [[Visit(0, "a", 5, minute=1)], [Visit(0, "b", 5)]])
    with serving_layer.connect(visits.project) as connection:
        rows = connection.sql("SELECT page, visits, trail FROM loads ORDER BY page").fetchall()
        assert rows == [("a", 2, None), ("b", 1, "5")]
        explained = explain_number(connection, "loads", hour(0), {"page": "a"})
    (trail,) = [one for one in explained.answer if one.measure == "trail"]
    assert trail.value is None
