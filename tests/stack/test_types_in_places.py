"""A value of any type, in any place of an expression, is refused by `check`, or both layers have the same results.

The types are those that a field can have, and those that only an expression can make; nulls are at each depth.
"""

import json
import random
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as everywhere in Spark code)
from pyspark.sql.pandas.types import to_arrow_schema

from batch_layer.folding.run import FrameFold
from hourline_core.compute.aggregation import plan_aggregation
from hourline_core.compute.archive import read_version
from hourline_core.compute.check import find_unresolved
from hourline_core.compute.explode import explode
from hourline_core.compute.fold_tiles import Fold, connect_for_folds
from hourline_core.compute.projection import Projection
from hourline_core.compute.resolve import empty_events
from hourline_core.model import Metric, Project, Settings, Source, load_project
from hourline_core.model.scratch_columns import (
    EVENT_TIME,
    HOUR,
    ID,
    ID_HASH,
    NOT_TAKEN,
    OFFSET,
    OUTCOME,
    PARTITION,
    PLACE,
    REASON,
    SEQUENCE,
    TOPIC_ID,
    VALUE,
    VALUE_CRC,
)
from hourline_core.runtime.spark import spark_session
from hourline_core.storage.nullable_schema import nullable_schema
from speed_layer.intake.deduplication import with_id
from speed_layer.intake.id_hashes import with_id_hash
from tests.support.project_files import write_project
from tests.support.states import equal, groups

pytestmark = pytest.mark.heavy

FIELDS = {
    "flag": "boolean",
    "n": "int",
    "big": "long",
    "single": "float",
    "real": "double",
    "amount": "decimal(20,4)",
    "text": "string",
    "day": "date",
    "at": "timestamp",
    "many": "array<struct<a: int, b: array<string>>>",
    "pair": "struct<a: int, b: struct<c: string>>",
    "m": "map<string, int>",
}
TYPES = {
    **{f"field_{name}": name for name in FIELDS},
    "wide": "cast(amount as decimal(38,4))",
    "tiny": "cast(n as tinyint)",
    "small": "cast(n as smallint)",
    "binary_": "cast(text as binary)",
    "local": "cast(at as timestamp_ntz)",
    "months": "make_ym_interval(n)",
    "days": "make_dt_interval(n)",
    "calendar": "make_interval(n)",
    "variant_": "try_parse_json(text)",
    "nothing": "null",
    "varchar_": "cast(text as varchar(2))",
    "char_": "cast(text as char(3))",
    "collated": "text collate utf8_lcase",
    "geo": "st_geomfromwkb(unhex('0101000000000000000000F03F0000000000000040'))",
    "entries": "map_entries(m)",
    "entry": "map_entries(m)[0]",
    "map_of_ints": "if(n is null, null, map(n, text))",
    "literals": "if(flag, struct(1 as one, text as t), null)",
    "literals_within": "struct(n as n, struct(1 as one, 'x' as t) as s)",
    "literals_or_null": "if(flag, struct(1 as one, struct('x' as t) as s), null)",
    "array_of_literals": "if(flag, array(1, 2), null)",
    "array_of_structs": "array(if(flag, struct(1 as one), null))",
    "array_of_doubles": "array(real, -0.0D)",
    "array_of_arrays": "array(array(n), null)",
    "array_of_maps": "array(m)",
    "array_of_local": "array(cast(at as timestamp_ntz))",
    "array_of_binary": "array(cast(text as binary))",
    "array_of_days": "array(make_dt_interval(n))",
    "array_of_collated": "array(text collate utf8_lcase)",
    "empty_array": "array()",
    "array_of_null": "array(null)",
    "empty_map": "map()",
    "map_of_literals": "if(flag, map('k', struct(1 as one)), null)",
    "map_of_structs": "map(struct(1 as one), n)",
    "struct_of_null": "struct(null as x)",
    "struct_of_variant": "struct(try_parse_json(text) as v)",
    "struct_of_char": "struct(cast(text as char(3)) as c)",
}
TRICKY = [
    "field_text",
    "entries",
    "entry",
    "literals",
    "literals_or_null",
    "array_of_structs",
    "local",
    "nothing",
    "geo",
]
"""Those that were wrong once, and the plainest one."""
WHOLE_NUMBERS = {"int", "long"}
MET_BY: dict[str, set[str]] = {
    "flag": {"boolean"},
    "n": WHOLE_NUMBERS,
    "big": WHOLE_NUMBERS,
    "cast(n as tinyint)": WHOLE_NUMBERS,
    "pair.a": WHOLE_NUMBERS,
    "text": {"string"},
    "cast(n as string)": {"string"},
    "day": {"date"},
    "at": {"timestamp"},
    "cast(at as timestamp_ntz)": set(),
    "real": set(),
    "amount": set(),
    "many": set(),
    "text collate utf8_lcase": set(),
}
"""By expression of a key, the types of a lookup's column that it meets."""
MEASURES = ["sum", "mean", "min", "max", "first", "last", "distinct", "top", "quantile", "variance", "stddev_pop"]
FORMS = {"top": "top({}, 3)", "quantile": "quantile({}, 0.5)"}
CONDITIONS = ["any({})", "every({})", "count where {}"]
START = datetime(2026, 3, 29, 5, tzinfo=UTC)


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    declared = Settings.model_validate({"spark": {"master": "local[2]"}})
    session = spark_session(Project(tmp_path_factory.mktemp("types"), declared, {}, {}), "test")
    yield session
    session.stop()


@pytest.mark.parametrize(
    "names", [pytest.param(TRICKY, id="tricky"), pytest.param([*TYPES], marks=pytest.mark.long, id="all")]
)
def test_each_type_is_refused_or_has_equal_results_in_both_layers(
    spark: SparkSession, tmp_path: Path, names: list[str]
) -> None:
    types = {name: TYPES[name] for name in names}
    files = {
        "hourline.yaml": "",
        "sources/s.yaml": source_file("s", f"derived: {json.dumps({f'd_{name}': of for name, of in types.items()})}\n"),
    }
    files["metrics/dimensions.yaml"] = metric_file("dimensions", types) + "measures: {n: count}\n"
    files["metrics/derived.yaml"] = (
        metric_file("dimensions", {name: f"d_{name}" for name in types}) + "measures: {n: count}\n"
    )
    for number, form in enumerate([*(FORMS.get(kind, f"{kind}({{}})") for kind in MEASURES), *CONDITIONS]):
        measures = {name: form.format(expression) for name, expression in types.items()}
        files[f"metrics/of_{number}.yaml"] = metric_file("measures", measures)
    project = load_project(write_project(tmp_path, files))
    refused = set()
    for mistake in find_unresolved(spark, project):
        place = re.match(
            r"metrics/(\w+)\.yaml:\d+: \w+\.(\w+)(?:\.where)?: [^\n]*(?:cast it|needs|boolean|takes no)", mistake
        )
        assert place, mistake
        refused.add((place[1], place[2]))
    metrics = [without(metric, file, refused) for file, metric in project.metrics.items()]
    source = project.sources["s"]
    assert names == [*TYPES] or len(metrics[0].dimensions) > 3
    aggregations = [plan_aggregation(spark, source, metric) for metric in metrics if metric.measures]
    events = events_of(spark, source)
    projection = Projection(aggregations)
    projected = projection.add_to(events).toArrow()
    connection = connect_for_folds(metrics)
    archived = events.withColumns({SEQUENCE: F.lit(1).cast("bigint"), TOPIC_ID: F.lit("s")})
    by_batch_layer = FrameFold.of(source, projection, archived, 1).run()
    for aggregation in aggregations:
        columns = aggregation.metric.tile_columns
        folded = Fold(connection, projection.metrics[aggregation.name]).fold(projected).tiles
        of_speed = groups(folded.to_pylist(), columns)
        of_batch, _ = by_batch_layer[aggregation.metric.name]
        assert of_speed.keys() == groups(of_batch.to_pylist(), columns).keys()
        for key, states in groups(of_batch.to_pylist(), columns).items():
            for column, state in states.items():
                assert equal(of_speed[key][column], state), f"{aggregation.name}.{column} of {key}"
        write_deltalake(tmp_path / aggregation.name, folded)
        assert DeltaTable(tmp_path / aggregation.name).to_pyarrow_table().num_rows == folded.num_rows


@pytest.mark.long
def test_elements_of_each_type_are_refused_or_archived(spark: SparkSession, tmp_path: Path) -> None:
    arrays = {name: f"array({expression}, null)" for name, expression in TYPES.items()}
    arrays |= {"entries_alone": "map_entries(m)", "literals_alone": "array(struct(1 as one))", "structs_alone": "many"}
    sources = {f"sources/{name}.yaml": source_file(name, exploding(of)) for name, of in arrays.items()}
    project = load_project(write_project(tmp_path, {"hourline.yaml": "", **sources}))
    refused = set()
    for mistake in find_unresolved(spark, project):
        place = re.match(r"sources/(\w+)\.yaml:\d+: explode\.e: its elements have the type [^\n]* cast them", mistake)
        assert place, mistake
        refused.add(place[1])
    alone = {"entries_alone", "literals_alone", "structs_alone"}
    assert refused.isdisjoint({*alone, *(f"field_{name}" for name in FIELDS)})
    for name in sorted(set(project.sources) - refused):
        source = project.sources[name]
        exploded = explode(records_of(spark, source), source).select("e")
        assert exploded.schema == exploded.schema.toNullable(), name
        assert exploded.schema == empty_events(spark, source).select("e").schema, name
        DeltaTable.create(tmp_path / name, archived_schema(spark, source))
    parts = ", ".join(f"{of} AS {name}" for name, of in TYPES.items() if name not in refused)
    everything = exploding(f"array(struct({parts}), null)")
    (tmp_path / "sources" / "everything.yaml").write_text(source_file("everything", everything))
    project = load_project(tmp_path)
    for name in (*alone, "everything"):
        source = project.sources[name]
        rows = explode(records_of(spark, source), source).select("e").toArrow()
        write_deltalake(tmp_path / "archive" / name, rows.cast(archived_schema(spark, source)))
        read = DeltaTable(tmp_path / "archive" / name).to_pyarrow_table()
        # A table has no order.
        assert sorted(map(repr, read["e"].to_pylist())) == sorted(map(repr, rows["e"].to_pylist()))
        assert len(rows) >= 40


@pytest.mark.long
def test_an_id_of_each_type_is_refused_or_has_a_hash(spark: SparkSession, tmp_path: Path) -> None:
    sources = {f"sources/{name}.yaml": source_file(name, f"id: {json.dumps(of)}\n") for name, of in TYPES.items()}
    project = load_project(write_project(tmp_path, {"hourline.yaml": "", **sources}))
    refused = set()
    for mistake in find_unresolved(spark, project):
        place = re.match(r"sources/(\w+)\.yaml:\d+: id: values of type [^\n]* cannot be compared", mistake)
        assert place, mistake
        refused.add(place[1])
    accepted = {name: source for name, source in project.sources.items() if name not in refused}
    assert {"field_n", "field_text", "field_pair", "binary_", "local"} <= accepted.keys()
    events = events_of(spark, project.sources["field_n"])
    for name, source in accepted.items():
        rank = F.expr(f"row_number() OVER (PARTITION BY {source.id} ORDER BY {OFFSET})")
        events = with_id(events, source).withColumnsRenamed({ID: f"id_{name}"}).withColumn(f"rank_{name}", rank)
    rows = events.toArrow()
    for name in accepted:
        identified = rows.select([f"id_{name}", HOUR]).rename_columns([ID, HOUR])
        hashes, ranks = with_id_hash(identified)[ID_HASH].to_pylist(), rows[f"rank_{name}"].to_pylist()
        assert len(set(hashes)) == ranks.count(1) > 1, name


@pytest.mark.long
def test_an_event_time_of_each_type_is_refused_or_read(spark: SparkSession, tmp_path: Path) -> None:
    sources = {}
    for name, expression in TYPES.items():
        sources[f"sources/{name}.yaml"] = source_file(name).replace(
            "event_time: at", f"event_time: {json.dumps(expression)}"
        )
    project = load_project(write_project(tmp_path, {"hourline.yaml": "", **sources}))
    refused = {}
    for mistake in find_unresolved(spark, project):
        place = re.match(
            r"sources/(\w+)\.yaml:\d+: event_time: (.* is of type .*; encoding iso reads text, or a timestamp)$",
            mistake,
        )
        assert place, mistake
        refused[place[1]] = place[2]
    assert set(TYPES) - set(refused) == {"field_text", "field_at", "varchar_", "char_"}


def test_a_key_of_a_lookup_meets_columns_of_its_own_type_alone(spark: SparkSession, tmp_path: Path) -> None:
    kinds = ("string", "int", "long", "boolean", "date", "timestamp")
    files = {f"lookups/of_{kind}.yaml": f"table: t.csv\nkey: k\ncolumns: {{k: {kind}, other: int}}\n" for kind in kinds}
    for number, key in enumerate(MET_BY):
        lookups = {f"by_{kind}": {"lookup": f"of_{kind}", "key": key} for kind in kinds}
        files[f"sources/s{number}.yaml"] = source_file(f"s{number}", f"lookups: {json.dumps(lookups)}\n")
    project = load_project(write_project(tmp_path, {"hourline.yaml": "", **files}))
    refused = set()
    for mistake in find_unresolved(spark, project):
        place = re.fullmatch(
            r"sources/s(\d+)\.yaml:3: lookups\.by_(\w+): '(.+)' is of type .+, and 'k' of lookup 'of_\2' of type .+; cast it",
            mistake,
        )
        assert place, mistake
        assert [*MET_BY][int(place[1])] == place[3]
        refused.add((place[3], place[2]))
    assert refused == {(key, kind) for key, fit in MET_BY.items() for kind in kinds if kind not in fit}


def test_an_unknown_column_of_a_lookup_is_told_with_those_that_it_has(spark: SparkSession, tmp_path: Path) -> None:
    files = {
        "lookups/plane.yaml": "table: t.csv\nkey: tail\ncolumns: {tail: string, maker: string, seats: int}\n",
        "sources/a.yaml": source_file("a", "lookups: {plane: text}\nderived: {made: upper(plane.makr)}\n"),
        "sources/b.yaml": source_file("b", "lookups: {plane: text}\nwhere: plane.setas > 9\n"),
        "sources/c.yaml": source_file("c", "lookups: {plane: text}\n"),
        "metrics/of_c.yaml": "source: c\ndimensions: {by: plane.makr}\n"
        "measures: {n: count, most: max(plane.setas), few: count where plane.setas < 9}\n",
    }
    project = load_project(write_project(tmp_path, {"hourline.yaml": "", **files}))
    told = find_unresolved(spark, project)
    unknown = {
        "sources/a.yaml:4: derived.made: ": ("makr", "maker"),
        "sources/b.yaml:4: where: ": ("setas", "seats"),
        "metrics/of_c.yaml:2: dimensions.by: ": ("makr", "maker"),
        "metrics/of_c.yaml:3: measures.most: ": ("setas", "seats"),
        "metrics/of_c.yaml:3: measures.few.where: ": ("setas", "seats"),
    }
    assert len(told) == len(unknown), told
    for place, names in unknown.items():
        (line,) = [line for line in told if line.startswith(place)]
        assert all(name in line for name in names), line


def exploding(expression: str) -> str:
    return f"explode: {{e: {json.dumps(expression)}}}\n"


def source_file(topic: str, more: str = "") -> str:
    time = "record.timestamp" if "explode" in more else "at"
    return f"topic: {topic}\nfields: {json.dumps(FIELDS)}\n{more}event_time: {time}\n"


def metric_file(key: str, expressions: dict[str, str]) -> str:
    return f"source: s\n{key}:\n" + "".join(f"  {name}: {json.dumps(of)}\n" for name, of in expressions.items())


def without(metric: Metric, file: str, refused: set[tuple[str, str]]) -> Metric:
    dimensions = {name: of for name, of in metric.dimensions.items() if (file, name) not in refused}
    measures = {name: of for name, of in metric.measures.items() if (file, name) not in refused}
    return metric.model_copy(update={"dimensions": dimensions, "measures": measures})


def archived_schema(spark: SparkSession, source: Source) -> pa.Schema:
    return nullable_schema(to_arrow_schema(empty_events(spark, source).select("e").schema, timezone="UTC"))


def records_of(spark: SparkSession, source: Source) -> DataFrame:
    whole = source.model_copy(update={"explode": {}})
    texts = {name: F.lit(None).cast("string") for name in (NOT_TAKEN, REASON)}
    return events_of(spark, whole).withColumns({**texts, VALUE: F.lit(b"{}"), VALUE_CRC: F.crc32(F.lit(b"{}"))})


def events_of(spark: SparkSession, source: Source) -> DataFrame:
    """Events as validation gives them, all accepted, of one record without a key."""
    rand = random.Random(3)  # noqa: S311 (the same rows each time)
    rows = [(*row(rand), START, START, 0, number, 0) for number in range(40)]
    fields = ", ".join(f"`{name}` {field.spark_type}" for name, field in source.fields.items())
    own = f"{EVENT_TIME} timestamp, {HOUR} timestamp, {PARTITION} int, {OFFSET} bigint, {PLACE} int"
    events = spark.createDataFrame(rows, f"{fields}, {own}")
    record = empty_events(spark, source).drop(*events.columns)
    nulls = {column.name: F.lit(None).cast(column.dataType) for column in record.schema}
    return events.withColumns({**nulls, OUTCOME: F.lit("accepted")})


def row(rand: random.Random) -> tuple[Any, ...]:
    def some(value: Callable[[], Any]) -> Any:
        return None if rand.random() < 0.25 else value()

    return (
        some(lambda: rand.random() < 0.5),
        some(lambda: rand.choice([0, 1, 7, -3])),
        some(lambda: rand.choice([2**62, -5])),
        some(lambda: rand.choice([0.0, -0.0, 1.5])),
        some(lambda: rand.choice([0.0, -0.0, 2.5])),
        some(lambda: Decimal("1.2345")),
        some(lambda: rand.choice(["", "a", "A", "7", "[1, null]"])),
        some(START.date),
        some(lambda: START + timedelta(seconds=rand.randrange(3))),
        some(lambda: [some(lambda: (some(lambda: 1), some(lambda: [some(lambda: "x")]))) for _ in range(2)]),
        some(lambda: (some(lambda: 1), some(lambda: (some(lambda: "c"),)))),
        some(lambda: {key: some(lambda: 2) for key in rand.sample("ab", rand.randrange(3))}),
    )


def test_conditions_on_an_archive_find_each_row_that_is_there(spark: SparkSession, tmp_path: Path) -> None:
    """Files of an older version have ranges without NaN, and of decimals as doubles; so has what Spark caches."""
    values = [1.0, 9.0, float("nan")]
    large, larger = Decimal("12345678901234567890.12"), Decimal("12345678901234567890.13")
    rows = pa.table(
        {
            "real": values,
            "single": pa.array(values, pa.float32()),
            "pair": [{"real": value, "deep": {"real": value}} for value in values],
            "amount": pa.array([Decimal(1), large, larger], pa.decimal128(38, 2)),
        }
    )
    write_deltalake(tmp_path / "table", rows)
    archived = read_version(spark, DeltaTable(tmp_path / "table"))
    cached = archived.persist()
    cached.count()
    conditions = {"amount > 12345678901234567890.12": 1, "amount = 12345678901234567890.13": 1}
    for column in ("real", "single", "pair.real", "pair.deep.real"):
        conditions |= {f"{column} > 9": 1, f"{column} >= 9": 2, f"{column} = double('nan')": 1, f"NOT {column} <= 9": 1}
    found = {condition: cached.where(condition).count() for condition in conditions}
    cached.unpersist()
    assert found == conditions
    assert {condition: archived.where(condition).count() for condition in conditions} == conditions
