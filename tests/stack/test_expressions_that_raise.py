"""An expression that Spark raises an error for has no value for that event, in both layers. All others count.

The records of which the event time or the elements raise are rejected.
"""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as everywhere in Spark code)

from batch_layer.deduplication import mark_first
from batch_layer.folding.run import FrameFold
from hourline_core.compute.aggregation import plan_aggregation
from hourline_core.compute.check import find_unresolved
from hourline_core.compute.fold_tiles import Fold, connect_for_folds
from hourline_core.compute.projection import Projection
from hourline_core.compute.resolve import empty_events, with_derived
from hourline_core.compute.validation import validate
from hourline_core.model import Project, Settings, Source, load_project
from hourline_core.model.scratch_columns import (
    EVENT_TIME,
    HOUR,
    ID,
    IS_FIRST,
    OFFSET,
    OUTCOME,
    PARTITION,
    PLACE,
    REASON,
    SEQUENCE,
    TOPIC_ID,
)
from hourline_core.runtime.spark import spark_session
from speed_layer.intake.deduplication import with_id
from speed_layer.kafka.read_topics import as_records
from tests.support.project_files import write_project
from tests.support.states import equal, groups

pytestmark = pytest.mark.heavy

RAISING = {
    "json": "parse_json(t)",
    "json_part": "parse_json(t):a::date",
    "json_failing": "from_json(t, 'a int', map('mode', 'FAILFAST'))",
    "csv_failing": "from_csv(t, 'a int, b int', map('mode', 'FAILFAST'))",
    "xml": "xpath(t, 'a')",
    "variant": "variant_get(try_parse_json(t), '$.a', 'date')",
    "number": "to_number(t, '999')",
    "hexadecimal": "to_binary(t, 'hex')",
    "base64": "unbase64(t)",
    "url": "url_decode('%' || t)",
    "utf8": "validate_utf8(cast(unhex('ff') as string) || t)",
    "bytes": "decode(unhex('ff'), if(n = 0, 'none', 'utf-8'))",
    "pattern": "'a' rlike t",
    "groups": "regexp_extract('ab', '(a)', n + 1)",
    "format": "date_format(at, t)",
    "zone": "from_utc_timestamp(at, t)",
    "element": "element_at(array(n), n)",
    "entry": "element_at(map(if(n = 0, null, t), n), t)",
    "entries": "map_from_arrays(array(if(n = 0, null, t)), array(n))[t]",
    "place": "array_insert(array(n), n, 3)",
    "slice": "slice(array(n), n, 1)",
    "steps": "sequence(n, 5, n)",
    "seconds": "timestamp_seconds(9223372036854775807 - n)",
    "interval": "make_dt_interval(2147483647 * (n + 1))",
    "encrypted": "aes_decrypt(cast(t as binary), cast(t as binary))",
    "sketch": "hll_sketch_estimate(cast(t as binary))",
    "geometry": "st_geomfromwkb(cast(t as binary))",
    "within_functions": "transform(array(n), x -> element_at(array(x), x))[0]",
    "in_one_branch": "coalesce(if(n = 0, parse_json(t), null), parse_json('1'))::int",
}
"""Expressions that raise for one of ROWS, by what is wrong. Spark evaluates each: it takes `is not null` of one that is
never null for true, and an entry `[t]` of a `map()` for a comparison.
"""
ROWS = [("{", 0), ('{"a": 1}', 1), ("7", 1), (None, 2)]
START = datetime(2026, 3, 29, 5, tzinfo=UTC)
FIELDS = "fields: {t: string, n: int, at: timestamp}\n"


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    declared = Settings.model_validate({"spark": {"master": "local[2]"}})
    session = spark_session(Project(tmp_path_factory.mktemp("raising"), declared, {}, {}), "test", brief=True)
    yield session
    session.stop()


@pytest.mark.long  # test_native_expressions.py compares the values of both engines.
def test_what_raises_is_null_in_both_layers(spark: SparkSession, tmp_path: Path) -> None:
    known = {name: f"({expression}) is not null" for name, expression in RAISING.items()}
    dimensions = json.dumps(known)
    derived = json.dumps({f"d_{name}": text for name, text in known.items()})
    measures = {f"n_{name}": f"count where {text}" for name, text in known.items()}
    measures |= {f"any_{name}": f"any({text})" for name, text in known.items()}
    files = {
        "hourline.yaml": "",
        "sources/s.yaml": f"topic: s\n{FIELDS}event_time: at\nderived: {derived}\n"
        "where: n > 5 or parse_json(t) is not null\nid: parse_json(t)::string\n",
        "sources/whole.yaml": f"topic: whole\n{FIELDS}event_time: at\nderived: {derived}\n",
        "metrics/some.yaml": "source: s\ndimensions: [t]\nmeasures: {n: count}\n",
        "metrics/grouped.yaml": f"source: whole\ndimensions: {dimensions}\nmeasures: {{n: count}}\n",
        "metrics/derived.yaml": f"source: whole\ndimensions: {json.dumps([f'd_{name}' for name in known])}\n"
        "measures: {n: count}\n",
        "metrics/measured.yaml": f"source: whole\ndimensions: [t]\nmeasures: {json.dumps(measures)}\n",
        "metrics/left.yaml": "source: whole\nwhere: to_binary(t, 'hex') is not null\ndimensions: [t]\n"
        "measures:\n  n: count\n  parts: distinct(to_binary(t, 'hex'))\n",
    }
    project = load_project(write_project(tmp_path, files))
    assert find_unresolved(spark, project) == []
    alone = {name: [value_of(spark, text, row) for row in ROWS] for name, text in known.items()}
    assert [name for name, values in alone.items() if "raised" not in values] == []
    tiles = {name: of_both_layers(spark, project, name) for name in project.metrics}
    null = {name: [None if value == "raised" else value for value in values] for name, values in alone.items()}
    for metric, prefix in (("grouped", ""), ("derived", "d_")):
        found = {tuple(row[f"{prefix}{name}"] for name in known) for row in tiles[metric]}
        assert found == {tuple(values[place] for values in null.values()) for place in range(len(ROWS))}
    of_text = {row["t"]: row for row in tiles["measured"]}
    for place, (text, _) in enumerate(ROWS):
        for name, values in null.items():
            assert of_text[text][f"n_{name}"] == (values[place] is True), name
            assert of_text[text][f"any_{name}"] == values[place], name
    assert {row["t"] for row in tiles["left"]} == {"7"}
    assert {row["t"] for row in tiles["some"]} == {'{"a": 1}', "7"}
    source = project.sources["s"]
    identified = with_id(events_of(spark, source), source).select(ID).collect()
    assert {row[0] for row in identified} == {None, '{"a":1}', "7"}
    address = {SEQUENCE: F.lit(1), TOPIC_ID: F.lit("t")}
    first = mark_first(with_derived(events_of(spark, source), source).withColumns(address), source)
    assert first.where(IS_FIRST).count() == len(ROWS)


def test_records_are_rejected_whose_time_or_elements_raise(spark: SparkSession) -> None:
    fields = {"t": "string", "n": "int"}
    time = "if(parse_json(t) is null, null, timestamp'2026-03-29 05:00:00')"
    source = Source.model_validate({"name": "s", "topic": "s", "fields": fields, "event_time": time})
    words = f"event time: '{time}' raises an error for this event"
    assert reasons_of(spark, source) == {0: words, 1: None, 2: None, 3: f"event time: {time} is null"}
    elements = "if(parse_json(t) is null, null, array(n, 1))"
    exploding = {"explode": {"e": elements}, "event_time": "record.timestamp"}
    source = Source.model_validate({"name": "s", "topic": "s", "fields": fields, **exploding})
    assert reasons_of(spark, source) == {
        0: f"explode: '{elements}' raises an error for this record",
        **dict.fromkeys((1, 2, 3)),
    }


def value_of(spark: SparkSession, text: str, row: tuple[str | None, int]) -> object:
    """The value of an expression for one row, by Spark alone. A row in the query itself needs no job."""
    written = "null" if row[0] is None else f"'{row[0]}'"
    one = spark.sql(f"SELECT * FROM VALUES (cast({written} AS string), {row[1]}, timestamp'{START}') AS v(t, n, at)")
    try:
        return one.select(F.expr(text)).collect()[0][0]
    except (PySparkException, Py4JJavaError):
        return "raised"


def events_of(spark: SparkSession, source: Source) -> DataFrame:
    """ROWS as validation gives them, all accepted."""
    rows = [(*row, START, START, START, 0, number, 0) for number, row in enumerate(ROWS)]
    own = f"{EVENT_TIME} timestamp, {HOUR} timestamp, {PARTITION} int, {OFFSET} bigint, {PLACE} int"
    events = spark.createDataFrame(rows, f"t string, n int, at timestamp, {own}")
    others = empty_events(spark, source).drop(*events.columns).schema
    nulls = {column.name: F.lit(None).cast(column.dataType) for column in others}
    return events.withColumns({**nulls, OUTCOME: F.lit("accepted")})


def of_both_layers(spark: SparkSession, project: Project, name: str) -> list[dict[str, object]]:
    """The tiles of a metric, which are equal in both layers."""
    metric = project.metrics[name]
    source = project.source_of(metric)
    aggregation, events = plan_aggregation(spark, source, metric), events_of(spark, source)
    projection = Projection([aggregation])
    projected = projection.add_to(events).toArrow()
    folded = Fold(connect_for_folds([metric]), projection.metrics[aggregation.name]).fold(projected).tiles
    archived = events.withColumns({SEQUENCE: F.lit(1).cast("bigint"), TOPIC_ID: F.lit("s")})
    of_batch, _ = FrameFold.of(source, projection, archived, 1).run()[name]
    one, other = (groups(rows.to_pylist(), metric.tile_columns) for rows in (folded, of_batch))
    assert one.keys() == other.keys(), name
    for key, states in one.items():
        assert all(equal(state, other[key][column]) for column, state in states.items()), f"{name}: {key}"
    rows: list[dict[str, object]] = of_batch.to_pylist()
    return rows


def reasons_of(spark: SparkSession, source: Source) -> dict[int, str | None]:
    """By offset, the reason for which a record is rejected."""
    values = [json.dumps({"t": text, "n": number}).encode() for text, number in ROWS]
    rows = [(None, value, "s", 0, place, START, 0, None) for place, value in enumerate(values)]
    columns = (
        "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int, "
        "headers array<struct<key: string, value: binary>>"
    )
    validated = validate(as_records(spark.createDataFrame(rows, columns), F.lit(START)), source)
    return {row[OFFSET]: row[REASON] for row in validated.select(OFFSET, REASON).collect()}
