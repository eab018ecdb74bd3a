"""Every measure in every kind of window is that of all events of the window, one by one: whatever was recomputed, came
late or came twice. Tiles are folded as the speed layer folds them.
"""

import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import serving_layer
from hourline_core.aggregates import aggregate_of
from hourline_core.compute.fold_tiles import connect_for_folds
from hourline_core.model import Metric
from hourline_core.sql.literals import identifier
from tests.protocol.test_session_windows import Sessions, split
from tests.support import visits as support
from tests.support.examples import examples
from tests.support.user_classes import SPREAD, TRAIL, keyed_fold, user_measure
from tests.support.visit_strategies import micro_batches
from tests.support.visits import Visit, Visits, hour
from tests.support.window_oracle import DECLARED, WITH_PANES, Declared, windows_of

EVENT = "time, 'partition': 0, 'offset': number, 'place': 0, 'topic': 'visits'"
BUCKET = "CASE WHEN ms = 0 THEN 0 ELSE (ceil(ln(abs(ms::DOUBLE)) / 0.0200006667066694351) + 1037)::INTEGER END"
Values = list[int]


def nearest_rank(rank: float) -> Callable[[Values], Any]:
    """The value at a rank, which an estimate is within 1 % of."""
    return lambda values: pytest.approx(sorted(values)[int(rank * (len(values) - 1))], rel=0.0101) if values else None


def of_two(of: Callable[[Values], float]) -> Callable[[Values], Any]:
    return lambda values: pytest.approx(of(values), rel=1e-9) if len(values) > 1 else None


# By measure: its declaration, the SQL over an event that it is folded from, and the naive answer over values in order.
MEASURES: dict[str, tuple[str, list[str], Callable[[Values], Any]]] = {
    "n": ("count", [], len),
    "n_slow": ("count where ms > 100", ["ms > 100"], lambda v: sum(x > 100 for x in v)),
    "total": ("sum(ms)", ["ms::DECIMAL(19, 0)"], sum),
    "lowest": ("min(ms)", ["ms"], min),
    "highest": ("max(ms)", ["ms"], max),
    "average": ("mean(ms)", ["ms::DECIMAL(19, 0)"], lambda v: pytest.approx(sum(v) / len(v))),
    "apart": ("variance(ms)", ["ms::DOUBLE"], of_two(statistics.variance)),
    "deviation": ("stddev(ms)", ["ms::DOUBLE"], of_two(statistics.stdev)),
    "apart_of_all": ("var_pop(ms)", ["ms::DOUBLE"], lambda v: pytest.approx(statistics.pvariance(v), rel=1e-9)),
    "high": ("quantile(ms, 0.9)", [BUCKET], nearest_rank(0.9)),
    "middle": ("median(ms)", [BUCKET], nearest_rank(0.5)),
    "different": ("distinct(ms)", ["'.' || ms"], lambda v: len(set(v))),
    "earliest": ("first(ms)", [f"{{'at': {EVENT}, 'value': ms}}"], lambda v: v[0]),
    "latest": ("last(ms)", [f"{{'at': {EVENT}, 'value': ms}}"], lambda v: v[-1]),
    "often": (
        "top(ms, 2)",
        ["ms::VARCHAR"],
        lambda v: [
            {"value": value, "count": count, "error": 0}
            for value, count in sorted(Counter(map(str, v)).items(), key=lambda one: (-one[1], one[0]))[:2]
        ],
    ),
    "some_slow": ("any(ms > 100)", ["ms > 100"], lambda v: any(x > 100 for x in v)),
    "all_slow": ("every(ms > 100)", ["ms > 100"], lambda v: all(x > 100 for x in v)),
    "slow_share": ("ratio(n_slow, n)", [], lambda v: pytest.approx(sum(x > 100 for x in v) / len(v))),
    "own": ("spread(ms)", ["ms", "'visits'", "0", "number"], of_two(statistics.variance)),
    "trail": ("trail(ms)", ["ms", "time", "0::INTEGER", "number", "0::INTEGER", "'visits'"],
              lambda v: ",".join(map(str, v)) if len(v) <= 5 else None),
}  # fmt: skip
METRIC = "source: visits\ndimensions: [page]\nmeasures: {}\n".replace(
    "{}",
    "{"
    + "frequency: rate(n), "
    + ", ".join(f'{name}: "{declared}"' for name, (declared, *_) in MEASURES.items())
    + "}",
)
FILES = {"metrics/loads.yaml": METRIC, "measures/spread.py": SPREAD, "folds/trail.py": TRAIL}
WINDOWS = [
    DECLARED[2],  # the last 24 hours, at each hour
    DECLARED[5],  # days of New York
    WITH_PANES[2],  # 90 minutes, every 20
    Sessions(timedelta(minutes=45), timedelta(hours=3)),
    # What these have, the others have, too.
    *(
        pytest.param(one, marks=pytest.mark.long)
        for one in (DECLARED[0], *WITH_PANES[:2], Sessions(timedelta(minutes=30)))
    ),
]
HOURS = st.integers(220, 250)  # the clocks of New York change in hour 223
VISITS = micro_batches(HOURS, most=8)
STEPS = st.lists(st.one_of(VISITS, st.sets(HOURS, min_size=1, max_size=12)), min_size=1, max_size=6)


@pytest.fixture(autouse=True, scope="module")
def _declared() -> Iterator[None]:
    """The metric has all measures, which are folded by DuckDB."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(support, "FILES", {**support.FILES, **FILES})
        patch.setattr(support, "tiles", fold)
        patch.setattr(support, "tile_schema", lambda metric: fold([], metric).schema)
        yield


def fold(visits: Iterable[Visit], metric: Metric) -> pa.Table:
    """The tiles of ``metric``, folded from the visits."""
    pane = metric.pane or timedelta(hours=1)
    keys = {"hour": "hour", **({"pane": "pane"} if metric.pane else {}), "page": "page"}
    columns = [f"{sql} AS {name}" for name, sql in keys.items()]
    for name, measure in metric.stored_measures.items():
        values = MEASURES[name][1] if name in MEASURES else ["time"]  # the bounds of a session
        aggregate = aggregate_of(measure)
        folds = zip(aggregate.columns(name), aggregate.folds(values), strict=True)
        columns += [f"{sql} AS {identifier(column)}" for column, sql in folds]
    rows = [
        {
            "hour": hour(visit.hour),
            "pane": hour(visit.hour) + (visit.time - hour(visit.hour)) // pane * pane,
            "page": visit.page,
            "ms": visit.ms,
            "time": visit.time,
            "number": visit.offset,
        }
        for visit in visits
    ]
    moment = pa.timestamp("us", "UTC")
    types = {
        "hour": moment,
        "pane": moment,
        "page": pa.string(),
        "ms": pa.int64(),
        "time": moment,
        "number": pa.int64(),
    }
    connection = folding()
    connection.register("visits", pa.Table.from_pylist(rows, pa.schema(types)))
    return connection.execute(f"SELECT {', '.join(columns)} FROM visits GROUP BY {', '.join(keys)}").to_arrow_table()


@cache
def folding() -> duckdb.DuckDBPyConnection:
    own = {"own": user_measure("spread", "ms"), "trail": keyed_fold("trail", "ms")}
    return connect_for_folds([Metric(name="any", source="any", measures=own)])


def windows_of_group(visits: list[Visit], declared: Declared | Sessions) -> list[tuple[datetime, datetime]]:
    if isinstance(declared, Sessions):
        return split([visit.time for visit in visits], declared)
    return list(windows_of(declared, {hour(visit.hour) for visit in visits}).items())


def expected(visits: list[Visit], declared: Declared | Sessions) -> dict[Any, dict[str, Any]]:
    """By start, end and page: every measure, from the visits one by one."""
    answer = {}
    for page in {visit.page for visit in visits}:
        of_page = sorted((v for v in visits if v.page == page), key=lambda visit: (visit.time, visit.offset))
        for start, end in windows_of_group(of_page, declared):
            # A session's end is exclusive, unless it is cut.
            within = [visit.ms for visit in of_page if start <= visit.time < end]
            if within:
                values = {name: of(within) for name, (*_, of) in MEASURES.items()}
                seconds = (end - start).total_seconds()
                answer[start, end, page] = {**values, "frequency": pytest.approx(len(within) / seconds)}
    return answer


@pytest.mark.parametrize("declared", WINDOWS, ids=lambda declared: declared.yaml)
@settings(max_examples=examples(2))
@given(steps=STEPS)
def test_a_measure_of_a_window_is_that_of_its_events(declared: Declared | Sessions, steps: list[Any]) -> None:
    with TemporaryDirectory() as folder:
        visits = Visits(Path(folder), declared.yaml)
        visits.start()
        visits.micro_batch(Visit(220, "a", 5))
        for step in steps:
            if isinstance(step, list):
                visits.micro_batch(*step)
            else:
                visits.publish(*sorted(step))
        with serving_layer.connect(visits.project) as connection:
            rows = connection.sql("FROM loads").to_arrow_table().to_pylist()
        counted = [v for n in range(220, 251) for v in (*visits.final(n), *visits.provisional(n))]
        found = {(row["window_start"], row["window_end"], row["page"]): row for row in rows}
        wanted = expected(counted, declared)
        assert found.keys() == wanted.keys()
        for key, values in wanted.items():
            assert {name: found[key][name] for name in values} == values
