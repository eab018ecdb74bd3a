"""What tasks fold of an archive, whatever its files and the number of tasks, beside plain Python."""

import math
import pickle
import secrets
from collections import defaultdict
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from itertools import chain, pairwise
from pathlib import Path
from random import Random
from statistics import fmean, pstdev, pvariance
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from batch_layer.audit.facts import compute_totals
from batch_layer.folding import batches, tables, tasks
from batch_layer.folding.batches import are_small, may_grow
from batch_layer.folding.files import can_query
from batch_layer.folding.plan import FoldPlan, ReadPlan, plan_fold, plan_read
from batch_layer.folding.run import DriverFold, merge_shares
from batch_layer.folding.shares import Share, divide_archive, is_brief
from batch_layer.folding.tasks import FoldedShare, work_on_shares
from batch_layer.hour_totals import HourTotals, IdCounts, without_sketches
from hourline_core.aggregates import aggregate_of
from hourline_core.compute import fold_tiles
from hourline_core.compute.aggregation import AggregationPlan
from hourline_core.compute.projection import Projection
from hourline_core.compute.worker_database import connect
from hourline_core.errors import TableError
from hourline_core.ledger.layout import EVENT_SCHEMA, TIMESTAMP
from hourline_core.model import EventTime, Field, Measure, Metric, Source
from hourline_core.storage.compaction import compact
from hourline_core.storage.data_files import data_files
from hourline_core.storage.file_ranges import FileRange, file_ranges
from hourline_core.storage.file_slices import FileSlice
from hourline_core.storage.statistics import writer_properties
from hourline_core.storage.table_format import FORMAT
from tests.support.examples import examples

HOURS = [datetime(2024, 5, 6, 20, tzinfo=UTC) + number * timedelta(hours=1) for number in range(4)]
WANTED = [HOURS[0], HOURS[1], HOURS[3]]
CUTOFF = 5
SOURCE = Source(
    name="sales",
    topic="sales",
    fields={
        "sale": Field(type="double"),
        "shop": Field(type="string", required=True),
        "big": Field(type="long"),
        "rate": Field(type="double"),
        "at": Field(type="string"),
    },
    event_time=EventTime(expression="at"),
    where="big <> 7",
    id="sale",
)
OTHERS = {name: of for name, of in SOURCE.fields.items() if name != "sale"}
EXPLODED = SOURCE.model_copy(
    update={"fields": OTHERS | {"sales": Field(type="array<double>")}, "explode": {"sale": "sales"}}
)
"""The same, whose sales come in arrays. Its archive has the same columns."""
MEASURES = {"n": "count", "total": "sum(big)", "mean": "mean(big)", "least": "min(big)", "greatest": "max(sale)"}
MEASURES |= {"paid": "sum(rate)", "average": "mean(rate)", "spread": "var_pop(big % 4)"}
MEASURES |= {"small": "stddev_pop(big) where big between 0 and 6", "every": "every(rate < 1)"}
MEASURES |= {"kinds": "distinct(big)", "some": "count where big > 0", "any": "any(big > 0)"}
METRIC = Metric(
    name="turnover",
    source="sales",
    where="shop <> 'closed'",
    dimensions={"shop": "shop", "even": "big % 2"},
    measures={name: Measure.parse(text) for name, text in MEASURES.items()},
)
EXACT = METRIC.model_copy(update={"measures": {name: of for name, of in METRIC.measures.items() if name != "kinds"}})
STATES = {
    "n": pa.int64(),
    "total": pa.decimal128(29, 0),
    "mean__n": pa.int64(),
    "mean__total": pa.decimal128(29, 0),
    "least": pa.int64(),
    "greatest": pa.float64(),
    "paid": pa.float64(),
    "average__n": pa.int64(),
    "average__total": pa.float64(),
    "spread__n": pa.int64(),
    "spread__mean": pa.float64(),
    "spread__m2": pa.float64(),
    "small__n": pa.int64(),
    "small__mean": pa.float64(),
    "small__m2": pa.float64(),
    "every": pa.bool_(),
    "kinds": pa.binary(),
    "some": pa.int64(),
    "any": pa.bool_(),
}


class Event(NamedTuple):
    hour: datetime
    sequence: int
    topic_id: str
    partition: int
    sale: float | None
    shop: str | None
    big: int | None
    rate: float | None


EVENT = st.builds(
    Event,
    hour=st.sampled_from(HOURS),
    sequence=st.integers(1, CUTOFF + 1),
    topic_id=st.sampled_from(["b", "a"]),
    partition=st.integers(0, 1),
    sale=st.none() | st.sampled_from([0.0, -0.0, math.nan, 1.5, -1e300]),
    shop=st.none() | st.sampled_from(["closed", "", "a", "b"]),
    big=st.integers(1, 3) | st.none() | st.sampled_from([7, 2**63 - 1, -(2**63)]) | st.integers(-3, 3),
    # Sums of quarters do not depend on their order.
    rate=st.none() | st.sampled_from([0.0, -0.0, math.nan, math.inf]) | st.integers(-9, 9).map(lambda n: n / 4),
)


@settings(max_examples=examples(40), deadline=None, phases=[Phase.generate])
@given(
    files=st.lists(st.lists(EVENT, min_size=8, max_size=20), min_size=1, max_size=4),
    declared=st.sampled_from([SOURCE, EXPLODED]),
    has_id=st.booleans(),
    metric=st.sampled_from([METRIC, EXACT]),
    shares=st.integers(1, 3),
    parts=st.integers(1, 3),
    rows=st.sampled_from([1, 5, 1000]),
)
def test_tasks_fold_what_a_naive_pass_finds(
    files: list[list[Event]], declared: Source, has_id: bool, metric: Metric, shares: int, parts: int, rows: int
) -> None:
    source = declared if has_id else declared.model_copy(update={"id": None})
    numbered = [[(event, (n, m)) for m, event in enumerate(events)] for n, events in enumerate(files)]
    with TemporaryDirectory() as folder:
        archive = write(Path(folder), numbered)
        plans = make_plans(source, archive, metric)
        assert (plans[1].files is None) == (has_id or metric is METRIC), "DuckDB reads the files of an exact metric"
        with patch("batch_layer.folding.shares.ROWS_OF_TASK", 1):
            divided = divide_archive(archive, WANTED, shares, by_id=has_id)
        if has_id:
            divided = [Share(of.slices, of.first, of.last, part, parts) for of in divided for part in range(parts)]
        with (
            patch.object(tables, "_ROWS", rows),
            patch.multiple(tasks, ROWS_WITH_IDS=rows, _TILE_BYTES=100 * rows),
            patch.object(fold_tiles, "_MERGED", 5),
        ):
            tiles, totals = fold(plans, divided)
    check(source, [one for file in numbered for one in file], tiles, totals)


@settings(max_examples=examples(30), deadline=None, phases=[Phase.generate])
@given(
    events=st.lists(EVENT, min_size=8, max_size=50),
    has_id=st.booleans(),
    metric=st.sampled_from([METRIC, EXACT]),
    ends_of_files=st.lists(st.integers(1, 49), max_size=5),
    compactions=st.sets(st.integers(0, 5), max_size=2),
    ends_of_shares=st.lists(st.integers(1, 49), max_size=4),
    parts=st.integers(1, 3),
    order=st.randoms(use_true_random=False),
)
def test_whatever_the_split_and_the_order_and_compactions_between_the_result_is_the_same(
    events: list[Event],
    has_id: bool,
    metric: Metric,
    ends_of_files: list[int],
    compactions: set[int],
    ends_of_shares: list[int],
    parts: int,
    order: Random,
) -> None:
    source = SOURCE if has_id else SOURCE.model_copy(update={"id": None})
    numbered = [(event, (0, number)) for number, event in enumerate(events)]
    files = [numbered[first:end] for first, end in pairwise([0, *sorted({*ends_of_files}), 50])]
    order.shuffle(files)
    with TemporaryDirectory() as folder:
        archive = write(Path(folder), list(filter(None, files)), 3, compactions)
        ranges = file_ranges(archive, "hour")
        order.shuffle(ranges)
        if has_id:
            everything = [FileSlice(file.path, 0, file.rows) for file in ranges]
            spans = pairwise([0, *sorted({end % len(WANTED) for end in ends_of_shares} - {0}), len(WANTED)])
            shares = [
                Share(everything, WANTED[first], WANTED[end - 1], part, parts)
                for first, end in spans
                for part in range(parts)
            ]
        else:
            shares = [Share(slices, WANTED[0], WANTED[-1]) for slices in cut(ranges, ends_of_shares)]
        order.shuffle(shares)
        with patch.object(tables, "_ROWS", 5), patch.multiple(tasks, ROWS_WITH_IDS=5, _TILE_BYTES=500):
            tiles, totals = fold(make_plans(source, archive, metric), shares)
    check(source, numbered, tiles, totals)


@pytest.mark.parametrize("metric", [METRIC, EXACT])
def test_a_fault_in_a_fold_or_a_merge_makes_tiles_differ_from_totals(metric: Metric, tmp_path: Path) -> None:
    """The audit compares the values of an hour from its tiles with those from its totals."""
    faults = [
        ("_merge_sql", "", ""),  # none
        ("_merge_sql", "(sum(", "(2 * sum("),
        ("_fold_sql", "(sum(", "(2 * sum("),
        ("_fold_sql", "WHERE", "WHERE true OR"),
        ("_fold_sql", "GROUP BY 1, 2, 3", "GROUP BY 1, 2, 3 HAVING count(*) > 1"),
    ]
    events = [Event(HOURS[0], 1, "a", 0, n / 2, "aab"[n % 3], n, n / 4) for n in range(1, 9)]
    archive = write(
        tmp_path, [[(event, (n, 0)) for n, event in enumerate(events) if n // 4 == file] for file in (0, 1)]
    )
    source = SOURCE.model_copy(update={"id": None})
    plans = make_plans(source, archive, metric)
    for sql, old, new in faults:
        right = getattr(fold_tiles, sql)
        wrong = partial(lambda right, old, new, *of: right(*of).replace(old, new), right, old, new)
        tasks._prepare.cache_clear()
        with patch.object(fold_tiles, sql, wrong), patch.object(tables, "_ROWS", 1):
            tiles, totals = fold(plans, divide_archive(archive, WANTED, 2, by_id=False))
        with connect() as connection:
            of_tiles = compute_totals(connection, metric, tiles)[HOURS[0]]
            of_events = compute_totals(connection, without_sketches(metric), totals.rows)[HOURS[0]]
        differs = {name for name, value in of_events.items() if plain(value) != plain(of_tiles[name])}
        assert bool(differs) == bool(old), (sql, old)
    tasks._prepare.cache_clear()


@pytest.mark.parametrize(
    ("kept", "differ"),
    [
        ([True, True, False, True], set()),
        ([True, False, True, True], {"later"}),
        ([True, True, True, True], {"first"}),
        ([True, False, False, True], {"later"}),
        ([False, True, False, True], {"later"}),
    ],
    ids=["none", "the last is kept", "two are kept", "an id is lost", "an event of its own is lost"],
)
def test_a_fault_in_the_choice_of_the_first_event_makes_its_numbers_differ(
    kept: list[bool], differ: set[str], tmp_path: Path
) -> None:
    """Of the ids 0, 1 and 2, the second comes twice, in two files."""
    events = [Event(HOURS[0], 1 + n // 2, "a", 0, sale, "a", n, 0.25) for n, sale in enumerate([0.0, 1.0, 1.0, 2.0])]
    archive = write(tmp_path, [[(event, (n, 0)) for n, event in enumerate(events[at : at + 2])] for at in (0, 2)])
    plans = make_plans(SOURCE, archive)

    def choose(connection: Any, rows: pa.Table, *hashes: Any, **how: bool) -> pa.Array:
        return pa.array([kept[number] for number in rows["big"].to_pylist()])

    tasks._prepare.cache_clear()
    with patch.object(tasks, "find_first", choose):
        _, totals = fold(plans, divide_archive(archive, WANTED, 1, by_id=True))
    found = totals.ids
    assert found
    assert (found.first == found.ids, found.repeated == found.later) == ("first" not in differ, "later" not in differ)
    tasks._prepare.cache_clear()


@pytest.mark.parametrize("metric", [METRIC, EXACT])
def test_tasks_share_the_rows_of_a_file(metric: Metric, tmp_path: Path) -> None:
    """Arrow reads the one row group in the first task, and DuckDB reads a third of its rows in each."""
    source = SOURCE.model_copy(update={"id": None})
    events = [(Event(HOURS[0], 1, "a", 0, n, "b", n + 10, n / 4), (0, n)) for n in range(10)]
    archive = write(tmp_path, [events])
    with patch("batch_layer.folding.shares.ROWS_OF_TASK", 1):
        divided = divide_archive(archive, WANTED, 3, by_id=False)
    assert [[(of.first, of.end) for of in share.slices] for share in divided] == [[(0, 3)], [(3, 6)], [(6, 10)]]
    check(source, events, *fold(make_plans(source, archive, metric), divided))


def test_duckdb_takes_a_column_that_an_older_file_lacks_for_null(tmp_path: Path) -> None:
    source = SOURCE.model_copy(update={"id": None})
    events = [[(Event(HOURS[0], 1, "a", 0, n, "b", n, n / 4), (file, n)) for n in range(1, 5)] for file in (0, 1)]
    archive = write(tmp_path, events)
    older = tmp_path / data_files(archive)[0]
    pq.write_table(pq.read_table(older).drop_columns(["rate", "sale"]), older)
    first = pq.read_table(older)["offset"][0].as_py() // 100
    events[first] = [(event._replace(rate=None, sale=None), place) for event, place in events[first]]
    plan, read = make_plans(source, archive, EXACT)
    check(source, list(chain(*events)), *DriverFold(plan, read, archive).run()["turnover"])


@pytest.mark.parametrize(
    ("folder", "field", "expected"),
    [
        ("/data/a'b %20{1}", "row", True),
        ("/data/a[1]", "row", False),
        ("/data/a*", "row", False),
        ("/data/a?", "row", False),
        ("/data", "File_Row_Number", False),
    ],
)
def test_arrow_reads_what_duckdb_takes_for_a_pattern_or_for_its_own_column(
    folder: str, field: str, expected: bool, tmp_path: Path
) -> None:
    assert can_query(folder, pa.schema([(field, pa.int64())])) is expected
    archive = write(tmp_path, [[(Event(HOURS[0], 1, "a", 0, 1, "b", 1, 1), (0, 0))]])
    source = SOURCE.model_copy(update={"id": None})
    with patch("batch_layer.folding.plan.can_query", lambda *of: can_query(folder, pa.schema([(field, pa.int64())]))):
        _, read = make_plans(source, archive, EXACT)
    assert (read.files is not None) is expected


def test_a_damaged_column_that_duckdb_alone_reads_is_told_with_its_file(tmp_path: Path) -> None:
    source = SOURCE.model_copy(update={"id": None, "fields": SOURCE.fields | {"shop": Field(type="string")}})
    metric = EXACT.model_copy(update={"where": None})
    events = [(Event(HOURS[0], 1, "a", 0, n, secrets.token_hex(9), n, n / 4), (0, n)) for n in range(1, 50)]
    folder = tmp_path / "events" / "sales"
    archive = write(folder, [events])
    (path,) = data_files(archive)
    group = pq.read_metadata(folder / path).row_group(0)
    shop = next(of for place in range(group.num_columns) if (of := group.column(place)).path_in_schema == "shop")
    content = bytearray((folder / path).read_bytes())
    first = shop.dictionary_page_offset or shop.data_page_offset
    content[first : first + shop.total_compressed_size] = b"\xff" * shop.total_compressed_size
    (folder / path).write_bytes(content)
    plan, read = make_plans(source, archive, metric)
    assert "shop" not in read.columns
    with pytest.raises(TableError, match=f"its file {path} cannot be decoded"):
        DriverFold(plan, read, archive).run()


def test_the_few_events_of_an_hour_are_brief_also_in_a_long_file(tmp_path: Path) -> None:
    events = [Event(hour, 1, "a", 0, n, "a", n, n) for hour in HOURS[:2] for n in range(6)]
    archive = write(tmp_path, [[(event, (0, n)) for n, event in enumerate(events)]])
    for most, hours, brief in [(6, 1, True), (5, 1, False), (6, 2, False)]:
        with patch("batch_layer.folding.shares.ROWS_OF_TASK", most):
            assert is_brief(archive, HOURS[:hours]) is brief


@pytest.mark.parametrize(
    ("expression", "grows"),
    [
        ("repeat(shop, 1000000)", True),
        ("upper(Lpad (shop, 1000, 'x'))", True),
        ("array_join(transform(sequence(1, 9), x -> shop), '')", True),
        ("substring(upper(shop), 1, 3)", False),
        ("coalesce(repeat, `space`, rate)", False),
    ],
)
def test_batches_are_bounded_by_size_if_an_expression_may_make_large_values(expression: str, grows: bool) -> None:
    assert may_grow(["rate", expression]) is grows


def test_events_are_small_unless_one_file_has_large_ones(tmp_path: Path) -> None:
    small = [Event(HOURS[0], 1, "a", 0, n, "a", n, n) for n in range(50)]
    texts = [secrets.token_hex(1_000) for _ in range(50)]
    large = [event._replace(shop=text) for event, text in zip(small, texts, strict=True)]
    with patch.object(batches, "_ROWS", 50):
        for files, expected in [([small, small], True), ([small, large], False), ([small, large[:10]], True)]:
            archive = write(tmp_path / str(len(files[-1]) + expected), [[(of, (0, 0)) for of in one] for one in files])
            assert are_small(archive) is expected


def cut(files: list[FileRange], ends: list[int]) -> list[list[FileSlice]]:
    """The row groups of ``files``, which have up to three rows, cut at these numbers of rows."""
    bounds = [0, *sorted({*ends}), sum(file.rows for file in files)]
    slices: list[list[FileSlice]] = [[] for _ in bounds[1:]]
    for place, (low, high) in enumerate(pairwise(bounds)):
        begin = 0
        for file in files:
            first, end = max(low - begin, 0), min(high - begin, file.rows)
            slices[place] += [FileSlice(file.path, first, end)] if first < end else []
            begin += file.rows
    return slices


def write(
    folder: Path,
    files: list[list[tuple[Event, tuple[int, int]]]],
    rows_in_group: int | None = None,
    compacted_after: Collection[int] = (),
) -> DeltaTable:
    """An archive with a file for each of ``files``. It is compacted after the files with these numbers."""
    fields = {"sale": pa.float64(), "shop": pa.string(), "big": pa.int64(), "rate": pa.float64(), "at": pa.string()}
    schema = pa.schema([*EVENT_SCHEMA, *(pa.field(name, of) for name, of in fields.items())])
    DeltaTable.create(folder, schema, name="events", configuration=FORMAT, raise_if_key_not_exists=False)
    for number, rows in enumerate(files):
        columns = {name: [getattr(event, name) for event, _ in rows] for name in Event._fields}
        columns |= {"offset": [file * 100 + place for _, (file, place) in rows], "event_time": columns["hour"]}
        known = {name: pa.array(values, schema.field(name).type) for name, values in columns.items()}
        table = pa.table({of.name: known.get(of.name, pa.nulls(len(rows), of.type)) for of in schema}, schema=schema)
        write_deltalake(folder, table, mode="append", writer_properties=writer_properties(schema, rows_in_group))
        if number in compacted_after:
            compact(DeltaTable(folder))
    return DeltaTable(folder)


def aggregation(source: Source, metric: Metric = METRIC) -> AggregationPlan:
    types = {"greatest": "double", "paid": "double", "average": "double", "any": "boolean", "spread": "int"}
    types |= {"every": "boolean"}
    values = {name: aggregate_of(of).values(types.get(name, "bigint")) for name, of in metric.measures.items()}
    keys = {"hour": TIMESTAMP, "shop": pa.string(), "even": pa.int64()}
    states = {name: of for name, of in STATES.items() if name != "kinds" or metric is METRIC}
    return AggregationPlan(source, metric, pa.schema(list({**keys, **states}.items())), values)


def make_plans(source: Source, archive: DeltaTable, metric: Metric = METRIC) -> tuple[FoldPlan, ReadPlan]:
    projection = Projection([aggregation(source, metric)])
    plan = plan_fold(source, projection)
    read = plan_read(plan, projection, archive, {}, WANTED, CUTOFF)
    assert read
    return plan, read


def fold(plans: tuple[FoldPlan, ReadPlan], shares: list[Share]) -> tuple[pa.Table, HourTotals]:
    numbers = [pa.record_batch({"id": pa.array([number])}) for number in range(len(shares))]
    told = [work_on_shares(pickle.dumps(plans), shares, [number]) for number in numbers]
    folded: list[FoldedShare] = [pickle.loads(one) for one in told]  # noqa: S301 (from this process)
    return merge_shares(plans[0], folded)["turnover"]


def check(source: Source, events: list[tuple[Event, tuple[int, int]]], tiles: pa.Table, totals: HourTotals) -> None:
    read = [one for one in events if one[0].hour in WANTED and one[0].sequence <= CUTOFF]
    seen: set[Any] = set()
    counted = []
    for event, _ in sorted(read, key=lambda one: (one[0].sequence, one[0].topic_id, one[0].partition, one[1])):
        identity = None if event.sale is None else (event.hour, "nan" if math.isnan(event.sale) else event.sale)
        if not (source.id and identity in seen) and event.big not in (None, 7):
            counted.append(event)
        if identity:
            seen.add(identity)
    of_metric = [event for event in counted if event.shop not in (None, "closed")]
    by_hour = {
        hour: [sum(event.hour == hour for event in some) for some in ([e for e, _ in read], counted, of_metric)]
        for hour in WANTED
    }
    assert by_hour == {
        hour: [of.get(hour, 0) for of in (totals.read, totals.counted, totals.of_metric)] for hour in WANTED
    }
    check_ids(source, [e for e, _ in read], totals.ids)
    missing = {hour: sum(e.hour == hour and e.shop is None for e, _ in read) for hour in WANTED}
    assert missing == {hour: totals.without["shop"].get(hour, 0) for hour in WANTED}
    groups: dict[Any, list[Event]] = defaultdict(list)
    for event in of_metric:
        assert event.big is not None
        groups[event.hour, event.shop, abs(event.big) % 2 * (1 if event.big > 0 else -1)].append(event)
    assert by_key(tiles, ["hour", "shop", "even"]) == {key: states(some) for key, some in groups.items()}
    hours = {hour: [event for event in of_metric if event.hour == hour] for hour in WANTED}
    known = {key: size for hour, some in hours.items() if some for key, size in sizes(hour, some).items()}
    assert {key: plain(size) for key, size in totals.sizes.items()} == known
    assert by_key(totals.rows, ["hour"]) == {(hour,): states(some) for hour, some in hours.items() if some}


def check_ids(source: Source, events: list[Event], found: IdCounts | None) -> None:
    if not source.id:
        assert found is None
        return
    assert found
    for hour in WANTED:
        sales = [event.sale for event in events if event.hour == hour]
        ids = {"nan" if math.isnan(sale) else sale for sale in sales if sale is not None}
        kept = len(ids) + sales.count(None)
        assert [of.get(hour, 0) for of in (found.first, found.ids)] == [kept] * 2
        assert [of.get(hour, 0) for of in (found.repeated, found.later)] == [len(sales) - kept] * 2


def by_key(rows: pa.Table, keys: list[str]) -> dict[Any, dict[str, Any]]:
    listed = rows.drop_columns(["kinds"] if "kinds" in rows.column_names else []).to_pylist()
    found = {tuple(row.pop(key) for key in keys): {name: plain(value) for name, value in row.items()} for row in listed}
    assert len(found) == len(listed)
    return found


def states(events: list[Event]) -> dict[str, Any]:
    bigs = [event.big for event in events if event.big is not None]
    sales = [event.sale for event in events if event.sale is not None]
    rates = rates_of(events)
    rests = [math.fmod(big % (4 if big > 0 else -4), 4) for big in bigs]
    greatest = None if not sales else math.nan if any(map(math.isnan, sales)) else max(sales)
    found: dict[str, Any] = {
        "n": len(events),
        "total": sum(bigs),
        "mean__n": len(bigs),
        "mean__total": sum(bigs),
        "least": min(bigs),
    }
    found |= {"paid": sum(rates) if rates else None, "average__n": len(rates)}
    found |= {"average__total": found["paid"], "spread__n": len(rests), "spread__mean": fmean(rests)}
    found |= {"spread__m2": pvariance(rests) * len(rests)}
    small = small_of(events)
    found |= {"small__n": len(small), "small__mean": fmean(small) if small else None}
    found |= {"small__m2": pvariance(small) * len(small) if small else None}
    # NaN is greater than any number.
    found |= {"every": all(rate < 1 for rate in rates) if rates else None}
    found |= {"greatest": greatest, "some": sum(big > 0 for big in bigs), "any": any(big > 0 for big in bigs)}
    return {name: plain(value) for name, value in found.items()}


def small_of(events: list[Event]) -> list[int]:
    return [event.big for event in events if event.big is not None and 0 <= event.big <= 6]


def rates_of(events: list[Event]) -> list[float]:
    return [event.rate for event in events if event.rate is not None]


def sizes(hour: datetime, events: list[Event]) -> dict[Any, Any]:
    """The magnitudes of what is added up in an hour."""
    rates = list(map(abs, rates_of(events)))
    rests = [math.fmod(event.big % (4 if event.big > 0 else -4), 4) for event in events if event.big is not None]
    error = 1e-15 * len(rests) * math.sqrt(fmean([rest * rest for rest in rests]))
    found: dict[str, Any] = {"paid": sum(rates), "average": sum(rates) / len(rates)} if rates else {}
    if small := small_of(events):
        found["small"] = 1e-6 * len(small) * math.sqrt(fmean([value * value for value in small]))
    found["spread"] = error * (pstdev(rests) + error) / 1e-9
    return {(hour, name): plain(size) for name, size in found.items()}


def plain(value: Any) -> Any:
    """A value that equals what it should: NaN equals NaN, and the last digits of a double do not matter."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else float(f"{value:.9g}") + 0.0 if abs(value) > 1e-12 else 0.0
    return int(value) if isinstance(value, Decimal) else value
