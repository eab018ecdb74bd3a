"""The events of a metric, folded by hour and dimensions and by hour alone in tasks of Spark, beside plain Python."""

import math
import pickle
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as everywhere in Spark code)

from batch_layer.folding import shares
from batch_layer.folding.batches import bounded_by_rows
from batch_layer.folding.plan import plan_fold, plan_read
from batch_layer.folding.run import ArchiveFold, DriverFold, FrameFold, RunnableFold
from batch_layer.hour_totals import HourTotals
from batch_layer.job import Job
from batch_layer.read_archive import ArchivedEvents
from hourline_core.compute.aggregation import plan_aggregation
from hourline_core.compute.projection import Projection
from hourline_core.compute.resolve import empty_events
from hourline_core.compute.tasks import run_tasks
from hourline_core.compute.worker_database import open_database
from hourline_core.errors import TableError
from hourline_core.model import EventTime, Field, Measure, Metric, Project, Settings, Source
from hourline_core.model.scratch_columns import EVENT_TIME, HOUR, OFFSET, PARTITION, PLACE, TOPIC, TOPIC_ID
from hourline_core.runtime.spark import spark_session
from hourline_core.storage.data_files import data_files
from tests.protocol import test_folding as folding
from tests.support.examples import examples
from tests.support.user_classes import user_measure

HOURS = [datetime(2024, 5, 6, 20, tzinfo=UTC) + number * timedelta(hours=1) for number in range(3)]
FIELDS = {"shop": "string", "rate": "double", "big": "long", "counted": "boolean"}
SOURCE = Source(
    name="sales",
    topic="sales",
    fields={"at": Field(type="string"), **{name: Field(type=kind) for name, kind in FIELDS.items()}},
    event_time=EventTime(expression="at"),
    where="counted",
)
MEASURES = ["count", "sum(big)", "sum(rate)", "mean(rate)", "min(big)", "max(shop)", "distinct(big)"]
MEASURES += ["quantile(rate, 0.5)", "count where big > 0", "any(rate > 0)", "last(shop)"]
METRIC = Metric(
    name="turnover",
    source="sales",
    where="big <> 7",
    dimensions={"shop": "shop", "rate": "rate", "kind": "'x'"},
    measures={
        **{f"m{place}": Measure.parse(text) for place, text in enumerate(MEASURES)},
        "words": user_measure("known_words", "shop"),
    },
)
ROW = st.fixed_dictionaries(
    {
        HOUR: st.sampled_from(HOURS[:2]),
        "counted": st.booleans(),
        "shop": st.none() | st.sampled_from(["", "a", "b"]),
        # Sums of quarters do not depend on their order.
        "rate": st.none() | st.sampled_from([0.0, -0.0, math.nan]) | st.integers(-40, 40).map(lambda n: n / 4),
        "big": st.none() | st.sampled_from([7, 2**63 - 1, -(2**63)]) | st.integers(-9, 9),
    }
)


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    project = Project(
        tmp_path_factory.mktemp("totals"),
        Settings.model_validate({"spark": {"master": "local[2]"}}),
        {"sales": SOURCE},
        {"turnover": METRIC},
    )
    session = spark_session(project, "test", brief=True)
    yield session
    session.stop()


@settings(max_examples=examples(2), deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(rows=st.lists(ROW, max_size=30))
def test_tiles_and_totals_count_each_event_once(spark: SparkSession, rows: list[dict[str, Any]]) -> None:
    tiles, totals = fold(spark, METRIC, rows)
    groups = Counter(
        (row[HOUR], row["shop"], text_of(row["rate"])) for row in rows if row["counted"] and row["big"] not in (None, 7)
    )
    assert {(row["hour"], row["shop"], text_of(row["rate"])): row["m0"] for row in tiles.to_pylist()} == groups
    check_totals(totals, rows)


@pytest.mark.parametrize("values", [(-0.0, 0.0), (0.0, -0.0), (-0.0,)])
def test_a_minimum_or_maximum_among_zeros_is_zero_without_a_sign(spark: SparkSession, values: tuple[float]) -> None:
    measures = {kind: Measure(kind=kind, argument="rate") for kind in ("min", "max")}
    metric = Metric(name="zeros", source="sales", dimensions={"big": "big"}, measures=measures)
    row = {HOUR: HOURS[0], "counted": True, "shop": None}
    tiles, totals = fold(spark, metric, [{**row, "rate": value, "big": big} for big, value in enumerate(values)])
    found = [str(row[kind]) for table in (tiles, totals.rows) for row in table.to_pylist() for kind in measures]
    assert found == ["0.0"] * 2 * (len(values) + 1)


def test_a_session_plans_an_aggregation_once_and_a_changed_one_anew(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = plan_aggregation(spark, SOURCE, METRIC)
    monkeypatch.setattr(F, "expr", lambda expression: pytest.fail("Spark resolves it again"))
    described = METRIC.model_copy(update={"description": "changes no number"})
    again = plan_aggregation(spark, SOURCE.model_copy(update={"grace": timedelta(hours=9)}), METRIC)
    assert (again.source.grace, again.metric) == (timedelta(hours=9), METRIC)
    assert (again.schema, again.values) == (known.schema, known.values)
    monkeypatch.undo()
    swapped = METRIC.model_copy(update={"measures": dict(reversed(METRIC.measures.items()))})
    assert plan_aggregation(spark, SOURCE, swapped).schema.names[-1] == "m0"
    assert "m0" not in plan_aggregation(spark, SOURCE, described).schema.names[-1:]


def test_the_archive_is_read_by_tasks_and_here_and_a_missing_file_is_named(spark: SparkSession, tmp_path: Path) -> None:
    events = [[folding.Event(folding.HOURS[0], 1, "a", 0, 1.5, "b", place, 0.5) for place in range(3)]] * 2
    folder = tmp_path / "events" / "sales"
    archive = folding.write(folder, [list(enumerate_events(number, file)) for number, file in enumerate(events)])
    plan, read = folding.make_plans(folding.SOURCE, archive)
    ways: list[RunnableFold] = [ArchiveFold(plan, read, archive, spark), DriverFold(plan, read, archive)]
    for way in ways:
        tiles, totals = way.run()["turnover"]
        assert tiles.select(["hour", "shop", "even", "n"]).to_pylist() == [
            {"hour": folding.HOURS[0], "shop": "b", "even": 0, "n": 1}
        ]
        assert (totals.read, totals.counted) == ({folding.HOURS[0]: 6}, {folding.HOURS[0]: 1})
    path = data_files(archive)[0]
    (folder / path).unlink()
    for way in ways:
        with pytest.raises(TableError, match=f"its file {path} is missing; bring it back from a backup"):
            way.run()


@pytest.mark.parametrize(
    ("has_id", "metric"),
    [
        pytest.param(True, folding.METRIC, id="with an id"),
        pytest.param(False, folding.METRIC, id="without an id", marks=pytest.mark.long),
        pytest.param(False, folding.EXACT, id="files that DuckDB reads"),
    ],
)
@settings(max_examples=2, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(files=st.lists(st.lists(folding.EVENT, min_size=8, max_size=20), min_size=2, max_size=3))
def test_events_that_tasks_or_spark_or_this_process_read_are_folded_as_a_naive_pass_finds(
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    files: list[list[folding.Event]],
    has_id: bool,
    metric: Metric,
) -> None:
    root = tmp_path_factory.mktemp("archive")
    source = folding.SOURCE if has_id else folding.SOURCE.model_copy(update={"id": None})
    events = [list(enumerate_events(number, file)) for number, file in enumerate(files)]
    archive = folding.write(root / "tables" / "events" / "sales", events)
    project = Project(root, Settings.model_validate({"tables": "tables"}), {"sales": source}, {})
    tables = {"events/sales": archive.version()}
    snapshot = SimpleNamespace(other_tables=tables)
    job = SimpleNamespace(project=project, spark=lambda: spark, snapshot=snapshot, pin_lookups=lambda source: {})
    projection = Projection([plan_aggregation(spark, source, metric)])
    plan = plan_fold(source, projection)
    read = plan_read(plan, projection, archive, {}, folding.WANTED, folding.CUTOFF)
    assert read
    assert (read.files is None) == (metric is folding.METRIC)
    events_read = ArchivedEvents(cast(Job, job), source, folding.WANTED, folding.CUTOFF).with_fields()
    frame = FrameFold.of(source, projection, events_read, sum(map(len, files)), small=True)
    for one in (ArchiveFold(plan, read, archive, spark), DriverFold(plan, read, archive), frame):
        with patch.multiple(
            shares, ROWS_WITH_IDS=5, ROWS_OF_TASK=5
        ):  # so that several tasks have the events of an hour
            folded = one.run()
        folding.check(source, list(chain(*events)), *folded["turnover"])


def test_small_events_come_in_batches_of_a_number_of_rows(spark: SparkSession) -> None:
    rows = spark.range(0, 6_000, 1, 1).selectExpr("repeat('x', 20000) AS text")
    before = run_tasks(rows, sizes_of_batches)
    with bounded_by_rows(spark):
        assert pickle.loads(run_tasks(rows, sizes_of_batches)[0]) == [2_500, 2_500, 1_000]  # noqa: S301
    assert run_tasks(rows, sizes_of_batches) == before


def sizes_of_batches(batches: Iterable[pa.RecordBatch]) -> bytes:
    return pickle.dumps([batch.num_rows for batch in batches])


def test_what_a_worker_cannot_hold_goes_to_sparks_folder_and_is_deleted(spark: SparkSession) -> None:
    (told,) = run_tasks(spark.range(0, 1, 1, 1), spill)
    limit, default, folder, spilled, left = pickle.loads(told)  # noqa: S301 (from a task of this process)
    assert limit < default
    assert Path(spark.conf.get("spark.local.dir") or "") in Path(folder).parents
    assert spilled
    assert not left


def spill(batches: Iterable[pa.RecordBatch]) -> bytes:
    with open_database() as database, duckdb.connect() as plain:
        limit, default = (memory_limit(one) for one in (database, plain))
        folder = database.sql("SELECT current_setting('temp_directory')").fetchall()[0][0]
        database.execute("SET memory_limit = '60MB'")
        database.execute("SELECT count(*) FROM (SELECT i, sum(i) FROM range(3000000) AS t(i) GROUP BY i)").fetchall()
        spilled = Path(folder).exists()
    return pickle.dumps((limit, default, folder, spilled, Path(folder).exists()))


def memory_limit(connection: duckdb.DuckDBPyConnection) -> float:
    """In GiB."""
    number, unit = connection.sql("SELECT current_setting('memory_limit')").fetchall()[0][0].split()
    return float(number) * {"MiB": 2**-10, "GiB": 1, "TiB": 2**10}[unit]


def enumerate_events(file: int, events: list[folding.Event]) -> Iterator[tuple[folding.Event, tuple[int, int]]]:
    return ((event, (file, place)) for place, event in enumerate(events))


def fold(spark: SparkSession, metric: Metric, rows: list[dict[str, Any]]) -> tuple[pa.Table, HourTotals]:
    """The tiles and totals of events."""
    kinds = {HOUR: "timestamp", **{name: SOURCE.fields[name].spark_type for name in FIELDS}}
    schema = ", ".join(f"{name} {kind}" for name, kind in kinds.items())
    # The offset alone says which event is the last.
    numbered = [(*(row[name] for name in kinds), number) for number, row in enumerate(rows)]
    events = spark.createDataFrame(numbered, f"{schema}, {OFFSET} bigint")
    known = {EVENT_TIME: F.col(HOUR), PARTITION: F.lit(0), PLACE: F.lit(0), TOPIC: F.lit("sales")}
    nulls = {of.name: F.lit(None).cast(of.dataType) for of in empty_events(spark, SOURCE).schema}
    events = events.withColumns({**{name: of for name, of in nulls.items() if name not in events.columns}, **known})
    events = events.withColumn(TOPIC_ID, F.lit("sales"))
    projection = Projection([plan_aggregation(spark, SOURCE, metric)])
    return FrameFold.of(SOURCE, projection, events, len(rows)).run()[metric.name]


def check_totals(totals: HourTotals, rows: list[dict[str, Any]]) -> None:
    of_hour: dict[datetime, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        of_hour[row[HOUR]].append(row)
    measured = {row["hour"]: row for row in totals.rows.to_pylist()}
    for hour in HOURS:
        counting = [row for row in of_hour[hour] if row["counted"]]
        wanted = [row for row in counting if row["big"] is not None and row["big"] != 7]
        found = [of.get(hour, 0) for of in (totals.read, totals.counted, totals.of_metric)]
        assert found == [len(of_hour[hour]), len(counting), len(wanted)]
        assert (hour in measured) == bool(wanted)
        if not wanted:
            continue
        assert measured[hour]["m0"] == len(wanted)
        assert measured[hour]["m1"] == sum(row["big"] for row in wanted)
        assert measured[hour]["m4"] == min(row["big"] for row in wanted)
        assert measured[hour]["m5"] == max((row["shop"] for row in wanted if row["shop"] is not None), default=None)
        assert not {"m6", "m7", "words"} & measured[hour].keys(), "sketches and classes are not compared"
        assert measured[hour]["m8"] == sum(row["big"] > 0 for row in wanted)
        above = [row["rate"] > 0 or math.isnan(row["rate"]) for row in wanted if row["rate"] is not None]
        assert measured[hour]["m9"] == (any(above) if above else None)
        shops = [row["shop"] for row in wanted if row["shop"] is not None]
        assert (measured[hour]["m10"] or {}).get("value") == (shops[-1] if shops else None)
        rates = [abs(row["rate"]) for row in wanted if row["rate"] is not None]
        size = totals.sizes.get((hour, "m2"))
        assert rates if size is not None else not rates
        assert size is None or size == pytest.approx(sum(rates), nan_ok=True)


def text_of(rate: float | None) -> str:
    """A dimension: both zeros are one, and so is NaN."""
    return str(rate if rate is None else rate + 0.0)
