"""Declarations: what is read from files, built in Python, and what identifies a metric."""

import json
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hourline.initialise import initialise
from hourline_core.errors import DeclarationError, UsageError
from hourline_core.model import (
    EventTime,
    Field,
    Measure,
    Metric,
    Project,
    Settings,
    Source,
    Volume,
    declaration_hash,
    from_stored,
    json_schema,
    load_project,
    to_stored,
)
from hourline_core.model.environment import substitute
from hourline_core.model.measure_text import KINDS
from hourline_core.model.times import duration_text, parse_duration

SOURCE = """\
topic: flights
fields:
  origin: string
  delay: {type: double, required: true}
  seen: timestamp
event_time: seen
"""
METRIC = """\
source: flights
dimensions: [origin, {late: delay > 15}]
measures:
  n: count
  mean_delay: mean( coalesce(delay, 0) )
"""


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def flights_source(**changed: Any) -> Source:
    fields = {
        "origin": Field(type="string"),
        "delay": Field(type="double", required=True),
        "seen": Field(type="timestamp"),
    }
    return Source(
        **{
            "name": "flights",
            "topic": "flights",
            "fields": fields,
            "event_time": EventTime(expression="seen"),
            **changed,
        }
    )


def delays_metric(**changed: Any) -> Metric:
    measures = {"n": Measure(kind="count"), "mean_delay": Measure(kind="mean", argument="coalesce(delay, 0)")}
    dimensions = {"origin": "origin", "late": "delay > 15"}
    return Metric(**{"name": "delays", "source": "flights", "dimensions": dimensions, "measures": measures, **changed})


def test_files_and_python_build_the_same_declarations(tmp_path: Path) -> None:
    project = load_project(
        write(tmp_path, {"hourline.yaml": "", "sources/flights.yaml": SOURCE, "metrics/delays.yml": METRIC}), {}
    )
    assert project.sources == {"flights": flights_source()}
    assert project.metrics == {"delays": delays_metric()}
    assert project.metrics_of("flights") == [delays_metric()]
    assert project.metrics_of("others") == []


def test_dimensions_are_a_list_or_a_mapping() -> None:
    as_list = delays_metric(dimensions=["origin", {"late": "delay > 15"}])
    assert as_list == delays_metric(dimensions={"origin": "origin", "late": "delay > 15"})
    assert delays_metric(dimensions=[]).dimensions == {}


def test_every_item_knows_its_line(tmp_path: Path) -> None:
    project = load_project(
        write(tmp_path, {"hourline.yaml": "", "sources/flights.yaml": SOURCE, "metrics/delays.yml": METRIC}), {}
    )
    assert project.where_declared("metric", "delays", ("measures", "mean_delay")) == "metrics/delays.yml:5"
    assert project.where_declared("metric", "delays", ("dimensions", "late")) == "metrics/delays.yml:2"
    assert project.where_declared("source", "flights", ("fields", "delay", "type")) == "sources/flights.yaml:4"
    assert project.where_declared("source", "flights", ("where",)) == "sources/flights.yaml:1"


def test_a_project_built_in_python_is_checked_too(tmp_path: Path) -> None:
    project = Project(tmp_path, Settings(), {"flights": flights_source()}, {"delays": delays_metric()})
    assert project.where_declared("metric", "delays", ("measures", "n")) == "metric 'delays'"
    with pytest.raises(DeclarationError, match=r"metric 'delays': source: got 'flihgts', .* did you mean 'flights'"):
        Project(tmp_path, Settings(), {"flights": flights_source()}, {"delays": delays_metric(source="flihgts")})
    with pytest.raises(DeclarationError, match="source 'flights': got the key 'f', allowed is its name"):
        Project(tmp_path, Settings(), {"f": flights_source()}, {})


def test_declarations_are_frozen() -> None:
    with pytest.raises(pydantic.ValidationError):
        flights_source().topic = "another"


def test_yaml_does_not_guess_types(tmp_path: Path) -> None:
    source = "topic: 2024\nfields: {no: string, on: int, null: date}\nevent_time: no\nwhere: yes\nderived:\n"
    settings = "name: 007\nspark:\n  config: {spark.a: 1.10, spark.b: true}\nkafka:\n  # bootstrap: somewhere\nbatch: {hours_per_job: 24}\n"
    project = load_project(write(tmp_path, {"hourline.yaml": settings, "sources/s.yaml": source}), {})
    assert project.sources["s"].topic == "2024"
    assert list(project.sources["s"].fields) == ["no", "on", "null"]
    assert project.sources["s"].where == "yes"
    assert project.sources["s"].derived == {}
    assert project.name == "007"
    assert project.settings.spark.config == {"spark.a": "1.10", "spark.b": "true"}
    assert project.settings.batch.hours_per_job == 24


def test_workspace_and_tables_lie_where_the_settings_say(tmp_path: Path) -> None:
    folder = write(tmp_path / "shop", {"hourline.yaml": "", "sources/flights.yaml": SOURCE})
    assert load_project(folder, {}).name == "shop"
    assert load_project(folder, {}).workspace == folder / ".hourline"
    assert load_project(folder, {}).tables == str(folder / ".hourline" / "tables")
    elsewhere = load_project(folder, {}, workspace=tmp_path / "elsewhere")
    assert (elsewhere.workspace, elsewhere.tables) == (tmp_path / "elsewhere", str(tmp_path / "elsewhere" / "tables"))
    write(folder, {"hourline.yaml": "workspace: work\ntables: s3://bucket/prefix/\n"})
    assert load_project(folder, {}).workspace == folder / "work"
    assert load_project(folder, {}).tables == "s3://bucket/prefix"
    write(folder, {"hourline.yaml": "tables: data\n"})
    assert load_project(folder, {}).tables == str(folder / "data")


@pytest.mark.parametrize("odd", ["%", "a%20b", "back\\slash", "new\nline", "tab\tbed"])
def test_tables_lie_where_all_that_reads_them_finds_them(odd: str, tmp_path: Path) -> None:
    folder = write(tmp_path / "shop", {"hourline.yaml": "", "sources/flights.yaml": SOURCE})
    with pytest.raises(
        UsageError,
        match=r"^tables cannot be in '.*': the Delta libraries misread '.{1,4}' in a path; choose another",
    ):
        load_project(folder, {}, workspace=tmp_path / odd)


def test_secrets_come_from_the_environment_and_are_never_shown(tmp_path: Path) -> None:
    text = "kafka:\n  bootstrap: ${KAFKA:}\n  options: {sasl.password: '${PW}'}\nstorage_options: {aws_secret_access_key: '${PW}'}\n"
    folder = write(tmp_path, {"hourline.yaml": text, "sources/flights.yaml": SOURCE})
    project = load_project(folder, {"PW": "open sesame"})
    assert project.settings.kafka.bootstrap is None
    assert project.settings.kafka.options == {"sasl.password": "open sesame"}
    assert "sesame" not in repr(project) + str(project.settings)
    with pytest.raises(pydantic.ValidationError) as caught:
        Settings(storage_options={"key": ["open sesame"]})  # type: ignore[dict-item]  # the point of the test
    assert "sesame" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("30s", timedelta(seconds=30)),
        ("90m", timedelta(minutes=90)),
        ("2h", timedelta(hours=2)),
        ("1d", timedelta(days=1)),
        ("1d 2h 3m 4s 5ms", timedelta(days=1, hours=2, minutes=3, seconds=4, milliseconds=5)),
        ("500ms", timedelta(milliseconds=500)),
        ("0s", timedelta(0)),
        ("PT2H", timedelta(hours=2)),
        ("P1DT30M", timedelta(days=1, minutes=30)),
    ],
)
def test_durations(text: str, duration: timedelta) -> None:
    assert parse_duration(text) == duration


@given(st.timedeltas(timedelta(0), timedelta(days=36_500)).map(lambda time: time - time % timedelta(milliseconds=1)))
def test_the_text_of_a_duration_is_read_as_the_same_duration(duration: timedelta) -> None:
    assert parse_duration(duration_text(duration)) == duration


def test_the_text_of_a_duration_is_short() -> None:
    assert [duration_text(timedelta(minutes=minutes)) for minutes in (0, 90, 1440)] == ["0s", "1h 30m", "1d"]


def test_moments_become_utc() -> None:
    source = flights_source(earliest="2013-01-01T00:00:00-05:00", latest=datetime(2014, 1, 1, tzinfo=UTC))
    assert source.earliest == datetime(2013, 1, 1, 5, tzinfo=UTC)
    assert source.earliest.tzinfo is UTC


@pytest.mark.parametrize(
    ("declared", "spark"),
    [
        ("long", "bigint"),
        ("boolean", "boolean"),
        ("decimal( 10, 2)", "decimal(10,2)"),
        ("struct<lat: double, tags: array<string>>", "struct<lat: double, tags: array<string>>"),
        ("map<string, decimal(10,2)>", "map<string, decimal(10,2)>"),
    ],
)
def test_field_types_are_spark_types(declared: str, spark: str) -> None:
    assert Field(type=declared).spark_type == spark


@given(
    st.text(alphabet="ab${}:A"),
    st.dictionaries(st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,5}", fullmatch=True), st.text()),
)
def test_text_without_references_and_escaped_text_stay(text: str, environ: dict[str, str]) -> None:
    plain = text.replace("$", "")
    assert substitute(plain, environ) == plain
    assert substitute(text.replace("${", "$${"), environ) == text


@given(
    st.text(alphabet="ab {}$:", max_size=8),
    st.from_regex(r"[A-Z_][A-Z0-9_]{0,5}", fullmatch=True),
    st.text(alphabet="ab${:A", max_size=8),
    st.text(),
)
def test_a_reference_is_its_variable_or_its_default(before: str, name: str, default: str, value: str) -> None:
    before = before.replace("$", "")
    assert substitute(f"{before}${{{name}}}", {name: value}) == before + value
    assert substitute(f"{before}${{{name}:{default}}}", {name: value}) == before + value
    assert substitute(f"{before}${{{name}:{default}}}!", {}) == f"{before}{default}!"


arguments = st.recursive(
    st.sampled_from(["delay", "1", "'it)s'", '"("', "`a,b`", "a -> b", "x = 'q\\'('"]),
    lambda inner: st.one_of(
        inner.map(lambda one: f"({one})"),
        st.tuples(inner, inner).map(lambda two: f"coalesce({two[0]}, {two[1]})"),
        st.tuples(inner, inner).map(lambda two: f"{two[0]} + {two[1]}"),
    ),
    max_leaves=6,
)


@given(
    st.sampled_from([kind for kind in KINDS if kind not in ("count", "quantile", "top", "ratio", "rate")]),
    arguments,
    st.none() | arguments,
    st.sampled_from(["", " ", "\n\t"]),
)
def test_measures_survive_their_text_form(kind: str, argument: str, where: str | None, space: str) -> None:
    condition = "" if where is None else f"wHere {where}"
    measure = Measure.parse(f"{space}{kind}{space}({space}{argument}{space}){space}{condition}")
    assert (measure.kind, measure.argument, measure.where) == (kind, argument, where)
    assert Measure.parse(str(measure)) == measure


@given(arguments, st.floats(0, 1))
def test_a_quantile_survives_its_text_form(argument: str, quantile: float) -> None:
    measure = Measure.parse(f"quantile({argument}, {quantile} ) where x")
    assert measure == Measure(kind="quantile", argument=argument, quantile=quantile, where="x")
    assert Measure.parse(str(measure)) == measure
    assert Measure.parse(f"median({argument})") == Measure.parse(f"quantile({argument}, 0.50)")


@given(arguments, st.integers(1, 100))
def test_a_top_survives_its_text_form(argument: str, limit: int) -> None:
    measure = Measure.parse(f"approx_top_k({argument}, {limit} ) where x")
    assert measure == Measure(kind="top", argument=argument, limit=limit, where="x")
    assert Measure.parse(str(measure)) == measure


@pytest.mark.parametrize(
    ("text", "argument", "where"),
    [
        ("sum(x)where y", "x", "y"),
        ("sum(where) WHERE where > 1", "where", "where > 1"),
        ("sum(if(a = ' where ', `where`, 0)) where a <> ')'", "if(a = ' where ', `where`, 0)", "a <> ')'"),
        ("sum(x) where (somewhere > 0)", "x", "(somewhere > 0)"),
        ("sum(somewhere) where whereabouts > 0", "somewhere", "whereabouts > 0"),
    ],
)
def test_the_condition_begins_at_the_first_where_outside_brackets_and_quotes(
    text: str, argument: str, where: str
) -> None:
    assert Measure.parse(text) == Measure(kind="sum", argument=argument, where=where)


@given(arguments, st.sampled_from(["distinct ", "DISTINCT\n"]))
def test_sql_words_are_read_as_the_one_form_of_a_measure(argument: str, distinct: str) -> None:
    assert str(Measure.parse(f"avg({argument})")) == f"mean({argument})"
    assert str(Measure.parse(f"count({distinct}{argument})")) == f"distinct({argument})"
    assert str(Measure.parse("count(*)")) == "count"
    assert str(Measure.parse(f"count_if({argument})")) == f"count where {argument}"
    assert str(Measure.parse(f"count_if({argument}) where b")) == f"count where ({argument}) and (b)"
    assert str(Measure.parse(f"bool_or({argument})")) == str(Measure.parse(f"some({argument})")) == f"any({argument})"
    assert str(Measure.parse(f"bool_and({argument})")) == f"every({argument})"


@given(st.text(max_size=30))
def test_any_text_is_a_measure_or_a_clean_refusal(text: str) -> None:
    try:
        measure = Measure.parse(text)
    except pydantic.ValidationError as error:
        assert [details["type"] for details in error.errors()] == ["declaration"]
    else:
        assert Measure.parse(str(measure)) == measure


def test_the_hash_tells_what_changes_numbers() -> None:
    known = declaration_hash(flights_source(), delays_metric())
    assert known == "40931491212c"

    def changed(source: dict[str, Any] | None = None, metric: dict[str, Any] | None = None) -> str:
        return declaration_hash(flights_source(**(source or {})), delays_metric(**(metric or {})))

    fields = flights_source().fields
    same = [
        changed(source={"topic": "t2", "grace": timedelta(0), "clock": "wall", "ahead": timedelta(0), "partitions": 3}),
        changed(source={"volume": Volume(min=100)}),
        changed(source={"description": "Departures"}),
        changed(source={"fields": dict(reversed(fields.items()))}),
        changed(source={"fields": {**fields, "more": "string"}}),
        changed(source={"derived": {"unused": "delay"}}),
        changed(source={"event_time": EventTime(expression="seen", encoding="epoch_seconds")}),
        changed(source={"fields": {**fields, "origin": {"type": "string", "required": True}}}),
        changed(metric={"name": "other", "description": "words"}),
        changed(metric={"dimensions": {"late": " delay > 15", "origin": "origin"}}),
        changed(metric={"measures": {"mean_delay": "mean(coalesce(delay, 0))", "n": "count"}}),
        changed(metric={"measures": {**delays_metric().measures, "of_each": "ratio(mean_delay, n)"}}),
    ]
    assert set(same) == {known}
    different = [
        changed(source={"name": "f2"}, metric={"source": "f2"}),
        changed(source={"fields": {**fields, "origin": "date"}}),
        changed(source={"id": "origin"}),
        changed(source={"derived": {"x": "delay"}, "where": "x > 0"}),
        changed(source={"derived": {"x": "delay + 1"}, "where": "x > 0"}),
        changed(source={"derived": {"y": "delay", "x": "y + 1"}, "where": "x > 0"}),
        changed(source={"where": "delay > 0"}),
        changed(metric={"where": "delay > 0"}),
        changed(metric={"dimensions": {"late": "delay > 16", "origin": "origin"}}),
        changed(metric={"measures": {"n": "count"}}),
        changed(metric={"measures": {"n": "count", "mean_delay": "mean(delay)"}}),
        changed(metric={"measures": {"n": "count where late", "mean_delay": "mean(coalesce(delay, 0))"}}),
    ]
    assert len({known, *different}) == len(different) + 1


def test_the_hash_tells_the_element_but_not_how_it_is_made() -> None:
    """Archived events have their element, as they have their event time."""
    fields = {"line": Field(type="string"), "seen": Field(type="timestamp")}
    words = delays_metric(dimensions={"word": "word"}, measures={"n": "count"})
    total = delays_metric(dimensions={}, measures={"n": "count"})

    def known(metric: Metric, **changed: Any) -> str:
        return declaration_hash(flights_source(fields=fields, **changed), metric)

    assert known(total) == known(total, explode={"word": "split(line, ' ')"})
    assert known(words, explode={"word": "split(line, ' ')"}) == known(words, explode={"word": "split(line, ',')"})
    assert known(words, explode={"word": "split(line, ' ')"}) != known(words, explode={"part": "split(line, ' ')"})


def test_what_is_stored_with_a_table_gives_back_the_same_declaration() -> None:
    source = flights_source(explode={"item": "array(origin)"}, derived={"x": "item"})
    metric = delays_metric(dimensions={"x": "x"})
    now = flights_source(explode={"other": "array(delay)"})
    stored_source, stored_metric = from_stored(to_stored(source, metric), now, metric.window)
    assert declaration_hash(stored_source, stored_metric) == declaration_hash(source, metric)
    assert stored_source.event_fields == ("delay", "seen", "item")
    older = json.loads(to_stored(flights_source(), metric))
    del older["source"]["explode"]  # as Hourline 0.2 wrote it
    assert from_stored(json.dumps(older), now, metric.window)[0].explode == {}


@pytest.mark.parametrize(
    ("expression", "kept"),
    [
        ("items", {"other", "line"}),
        ("split(lower(line), 'items')", {"items", "other"}),
        ('split(`Line`, "other")', {"items", "other"}),
        ("transform(items, i -> struct(i.other, line))", {"other"}),
        ("items.line", {"other", "line"}),
        ("sequence(1, 3)", {"items", "other", "line"}),
        ("items (other)", {"items", "line"}),
    ],
)
def test_the_fields_that_explode_reads_are_not_kept(expression: str, kept: set[str]) -> None:
    fields = {"items": Field(type="array<string>"), "other": Field(type="int"), "line": Field(type="string")}
    source = flights_source(fields=fields, explode={"element": expression}, event_time=EventTime(expression="element"))
    assert set(source.event_fields) == {*kept, "element"}


def test_the_schema_has_the_short_forms() -> None:
    schema = json_schema()
    definitions = schema["$defs"]
    assert {"Settings", "Source", "Metric"} <= definitions.keys()
    source, metric = definitions["Source"], definitions["Metric"]
    assert source["required"] == ["topic", "fields", "event_time"]
    assert metric["anyOf"] == [{"required": ["source", "measures"]}, {"required": ["sql"]}]
    assert source["additionalProperties"] is False
    (field_forms,) = source["properties"]["fields"]["patternProperties"].values()
    assert {"$ref": "#/$defs/Field"} in field_forms["anyOf"]
    assert "long" in json.dumps(field_forms)
    assert {"$ref": "#/$defs/EventTime"} in source["properties"]["event_time"]["anyOf"]
    assert any(
        form.get("type") == ["string", "number", "boolean"] for form in source["properties"]["event_time"]["anyOf"]
    )
    (measure,) = metric["properties"]["measures"]["patternProperties"].values()
    for text in ("count", "sum(delay)", "mean(coalesce(delay, 0))", "avg(delay)", "count(distinct id)"):
        for condition in ("", " where delay > 15", "\nWHERE\n(delay > 15)"):
            assert re.search(measure["pattern"], f"{text}{condition}")
    for text in ("mode(delay)", "countwhere x", "count where", "count wherever x", "sum(x) / count"):
        assert not re.search(measure["pattern"], text)
    dimension_forms = json.dumps(metric["properties"]["dimensions"])
    assert '"array"' in dimension_forms
    assert '"object"' in dimension_forms
    references = set(re.findall(r'"#/\$defs/(\w+)"', json.dumps(schema)))
    assert references <= definitions.keys()


@pytest.mark.parametrize(("kind", "model"), [("settings", "Settings"), ("source", "Source"), ("metric", "Metric")])
def test_the_schema_of_one_kind_knows_the_keys_of_the_template(tmp_path: Path, kind: str, model: str) -> None:
    schema = json_schema(kind)
    references = [form["$ref"] for form in schema.get("anyOf", [schema])]
    assert references[0] == f"#/$defs/{model}"
    initialise(tmp_path)
    files = [tmp_path / "hourline.yaml"] if kind == "settings" else sorted((tmp_path / f"{kind}s").iterdir())
    for file in files:
        keys = set(re.findall(r"^(\w+):", file.read_text(encoding="utf-8"), re.MULTILINE))
        assert keys
        assert keys <= schema["$defs"][model]["properties"].keys()
        assert all(schema["$defs"][model]["properties"][key].get("description") for key in keys - {"kafka"})


def test_init_writes_a_project_that_loads(tmp_path: Path) -> None:
    written = initialise(tmp_path / "new")
    assert [path.relative_to(tmp_path / "new").as_posix() for path in written] == [
        "events.jsonl",
        "hourline.yaml",
        "metrics/load_by_country.yaml",
        "metrics/views_by_page.yaml",
        "sources/pageviews.yaml",
    ]
    project = load_project(tmp_path / "new", {})
    (source,) = project.sources.values()
    assert [metric.name for metric in project.metrics_of(source.name)] == ["load_by_country", "views_by_page"]
    events = [json.loads(line) for line in (tmp_path / "new" / "events.jsonl").read_text(encoding="utf-8").splitlines()]
    assert len(events) == 200
    assert {tuple(event) for event in events} == {tuple(source.fields)}
    assert all(datetime.fromisoformat(event["viewed_at"]).utcoffset() == timedelta(0) for event in events)
    # A duplicate and a late event are there to be seen.
    assert len({event["view_id"] for event in events}) < len(events)
    hours = [event["viewed_at"][:13] for event in events]
    assert hours != sorted(hours)


def test_init_overwrites_nothing(tmp_path: Path) -> None:
    (tmp_path / "hourline.yaml").write_text("name: mine\n", encoding="utf-8")
    with pytest.raises(UsageError, match=r"hourline\.yaml is already there and is not overwritten"):
        initialise(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["hourline.yaml"]
    with pytest.raises(UsageError, match="cannot be written into"):
        initialise(tmp_path / "hourline.yaml" / "below")


def test_declarations_import_no_engine() -> None:
    blocked = "import sys\nfor name in ('pyspark', 'duckdb', 'airflow', 'deltalake', 'confluent_kafka'): sys.modules[name] = None\n"
    subprocess.run([sys.executable, "-c", blocked + "import hourline_core.model, hourline.initialise"], check=True)
