"""Suggested expectations, made from a week of real flights: they pass on the hours they have seen, by Great Expectations
itself, and an hour with doubled, halved, missing or wrong rows is found.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from batch_layer.audit.built_in_expectations import Facts, compare_with_history
from batch_layer.audit.declared_expectations import Check, build_checks
from batch_layer.audit.suggestions.as_yaml import write_suggestion
from batch_layer.audit.suggestions.expectations import Suggested, suggest_on_columns, suggest_on_row_count
from batch_layer.audit.suggestions.history import SuggestedHistory, suggest_history
from batch_layer.audit.suggestions.seen_rows import SEEN, describe_rows
from batch_layer.audit.suggestions.suggest import Suggestion, find_shares
from batch_layer.audit.validator import Validator
from examples.nyc_flights.flights import unpack
from hourline.cli.declared_names import find_declared
from hourline_core.model import Expectation, History, Measure, Metric, load_project
from hourline_core.model.hours import HOUR, hour_text
from hourline_core.model.trial import with_expectations

BEGIN = datetime(2013, 1, 7, 5, tzinfo=UTC)
HOURS = [BEGIN + number * HOUR for number in range(6 * 24)]
THIS = datetime(2013, 1, 9, 14, tzinfo=UTC)
"""An ordinary hour of them."""
FIELDS = "flight_id, carrier, origin, dest, tail, delay, distance"
RESULTS = "origin, count(*) AS flights, max(delay) AS worst, mean(delay) AS mean_delay"
METRIC = Metric(name="flights", source="s", measures={"flights": Measure.parse("count")})


@pytest.fixture(scope="module")
def flights(tmp_path_factory: pytest.TempPathFactory) -> duckdb.DuckDBPyConnection:
    """A table of all flights of January, February and the first day of March."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'America/New_York'")
    connection.execute(f"""
        CREATE TABLE flights AS
        SELECT concat_ws(' ', year, month, day, carrier, flight, origin) AS flight_id, carrier, origin, dest, distance,
               tailnum AS tail, dep_delay AS delay,
               make_timestamptz(year, month, day, sched_dep_time // 100, 0, 0) AS hour
        FROM read_csv('{unpack(tmp_path_factory.mktemp("flights"))}', nullstr = 'NA')
        WHERE month <= 2 OR (month = 3 AND day = 1)""")
    connection.execute("SET TimeZone = 'UTC'")
    return connection


@pytest.fixture(scope="module")
def validator() -> Validator:
    return Validator()


def see(
    flights: duckdb.DuckDBPyConnection, hours: Sequence[datetime], columns: str, grouping: str = ""
) -> pd.DataFrame:
    """The rows of ``hours``, as the view that suggestions are made from, and as the frame that an audit evaluates."""
    rows = f"SELECT hour, {columns} FROM flights WHERE hour BETWEEN '{hours[0]}' AND '{hours[-1]}' {grouping}"
    flights.execute(f"CREATE OR REPLACE TEMP VIEW {SEEN} AS {rows}")
    frame: pd.DataFrame = flights.execute(f"FROM {SEEN}").fetch_df()
    frame["hour"] = [hour_text(moment.to_pydatetime()) for moment in frame["hour"]]
    return frame


def failed(
    validator: Validator, frame: pd.DataFrame, suggested: Sequence[Suggested], hours: Sequence[datetime]
) -> set[tuple[str, str]]:
    """The types of the expectations that failed, and the columns they are on."""
    checks = build_checks([one.expectation for one in suggested], dict(frame.dtypes.map(str)))
    found = validator.evaluate_results(frame, checks, [hour_text(hour) for hour in hours], ["hour"])
    assert {finding.check.type for finding in found.findings} == {one.expectation.type for one in suggested}
    return {(finding.check.type, ", ".join(finding.check.columns)) for finding in found.findings if not finding.success}


def test_what_is_suggested_for_events_passes_on_them_and_finds_wrong_ones(
    flights: duckdb.DuckDBPyConnection, validator: Validator
) -> None:
    hours = HOURS[: 3 * 24]
    frame = see(flights, hours, FIELDS)
    seen = describe_rows(flights, hours)
    suggested = list(suggest_on_columns(seen, all_count=True, keys=frozenset({"flight_id", "tail"})))
    assert failed(validator, frame, suggested, hours) == set()

    here = frame[frame["hour"] == hour_text(THIS)]
    assert len(here) > 20
    wrong = {
        "doubled": pd.concat([here, here], ignore_index=True),
        "without JFK": here[here["origin"] != "JFK"],
        "of an airport that is not known": here.assign(origin="SFO"),
        "without aircraft": here.assign(tail=None),
        "in seconds": here.assign(delay=here["delay"] * 60),
    }
    assert {what: failed(validator, rows, suggested, [THIS]) for what, rows in wrong.items()} == {
        "doubled": {("expect_column_values_to_be_unique", "flight_id")},
        "without JFK": {("expect_column_distinct_values_to_contain_set", "origin")},
        "of an airport that is not known": {
            ("expect_column_values_to_be_in_set", "origin"),
            ("expect_column_distinct_values_to_contain_set", "origin"),
        },
        "without aircraft": {("expect_column_values_to_not_be_null", "tail")},
        "in seconds": {("expect_column_values_to_be_between", "delay")},
    }


def test_what_is_suggested_for_results_passes_on_them_and_finds_a_row_too_many_and_an_hour_without_any(
    flights: duckdb.DuckDBPyConnection, validator: Validator
) -> None:
    frame = see(flights, HOURS, RESULTS, "GROUP BY ALL")
    seen = describe_rows(flights, HOURS)
    suggested = [*suggest_on_row_count(seen), *suggest_on_columns(seen, all_count=True, keys=frozenset())]
    assert failed(validator, frame, suggested, HOURS) == set()

    here = frame[frame["hour"] == hour_text(THIS)]
    count = ("expect_table_row_count_to_be_between", "")
    on_count = [one for one in suggested if one.expectation.type == count[0]]
    assert failed(validator, pd.concat([here, here], ignore_index=True), on_count, [THIS]) == {count}
    assert failed(validator, here.iloc[:0], on_count, [THIS]) == {count}
    # At night, no flight is no fault.
    assert failed(validator, here.iloc[:0], on_count, [THIS.replace(hour=8)]) == set()


def test_nothing_is_suggested_on_an_array(flights: duckdb.DuckDBPyConnection) -> None:
    see(flights, HOURS, "carrier, [distance] AS legs, [delay, delay]::DOUBLE[2] AS delays, [origin, dest] AS airports")
    assert [column.name for column in describe_rows(flights, HOURS).columns] == ["carrier"]


def test_the_suggested_history_blocks_no_hour_seen_and_finds_doubled_and_halved_ones(
    flights: duckdb.DuckDBPyConnection,
) -> None:
    query = "SELECT hour, count(*) FROM flights GROUP BY hour"
    known = {hour.astimezone(UTC): {"flights": count} for hour, count in flights.execute(query).fetchall()}
    events = {hour: values["flights"] for hour, values in known.items()}
    hours = sorted(hour for hour in known if hour > max(known) - timedelta(weeks=4))

    def facts(history: History, factor: float, hours: Sequence[datetime]) -> pd.DataFrame:
        metric = METRIC.model_copy(update={"history": history})
        of_hours = {hour: {"flights": factor * known[hour]["flights"]} for hour in hours}
        return compare_with_history(metric, of_hours, hours, known, events).frame

    suggested = suggest_history(
        METRIC.history,
        lambda history: compare_with_history(
            METRIC.model_copy(update={"history": history}), {hour: known[hour] for hour in hours}, hours, known, events
        ),
        ["flights"],
    )
    assert suggested.history is not None
    usual = facts(suggested.history, 1, hours)
    if suggested.history.severity == "fail":
        assert (usual["flights beyond past days"].fillna(0) == 0).all()
    busy = [hour for hour in hours if known[hour]["flights"] >= 30]
    assert len(busy) > 300
    for factor in (2, 0.5):
        beyond = facts(suggested.history, factor, busy)["flights beyond past days"]
        assert (beyond.fillna(0) != 0).mean() > 0.8


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    for name, text in {
        "hourline.yaml": "",
        "sources/s.yaml": "topic: t\nfields: {a: string}\nevent_time: a\n",
        "metrics/m.yaml": "source: s\nmeasures: {n: count}\n",
    }.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return folder


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6) | st.sampled_from(
    ["null", "no", "~", "${HOME}", "$${", "a: b", "# c", "2013", "x, y", "'", '"', "[", "\\"]
)


@given(values=st.lists(TEXTS, min_size=1, max_size=4), bound=st.integers() | st.floats(allow_nan=False, width=32))
def test_the_written_yaml_reads_as_what_was_suggested(folder: Path, values: list[str], bound: float) -> None:
    expectations = [
        Expectation(type="expect_column_values_to_be_in_set", parameters={"column": "n", "value_set": values}),
        Expectation(type="expect_x", parameters={"column": "order by", "min_value": bound}, when="rows >= 2"),
    ]
    history = SuggestedHistory(History(severity="fail", width=6.0), "seen")
    project = load_project(folder, {})
    metric = project.metrics["m"]
    text = write_suggestion(
        metric, Suggestion(HOURS, 3, [Suggested(one, "#: seen") for one in expectations], history, None)
    )
    file = folder / "written.yaml"
    file.write_text(text, encoding="utf-8")
    read = with_expectations(project, metric, file, {}).metrics["m"]
    assert read.history == history.history
    in_words = [
        one.model_copy(update={"parameters": {**one.parameters, **_as_text(one, "min_value")}}) for one in expectations
    ]
    assert read.expectations == in_words


def test_the_written_command_names_the_declaration_also_if_a_source_has_its_name(folder: Path) -> None:
    project = load_project(folder, {})
    source = project.sources["s"]
    project = replace(project, sources={"s": source, "m": source.model_copy(update={"name": "m", "topic": "u"})})
    text = write_suggestion(project.metrics["m"], Suggestion(HOURS, 3, [], SuggestedHistory(None, "seen"), None))
    (named,) = re.findall("hourline audit ([^ ]+) --from", text)
    assert find_declared(project, named) == ("metric", "m")


def _as_text(expectation: Expectation, name: str) -> dict[str, str]:
    """YAML holds text."""
    return {name: json.dumps(expectation.parameters[name])} if name in expectation.parameters else {}


@pytest.mark.parametrize("greatest", [0.4, 0.9, 1.0])
def test_a_share_is_not_expected_to_be_above_one(greatest: float) -> None:
    database = duckdb.connect()
    database.execute(
        f"CREATE TABLE {SEEN} AS SELECT unnest($1)::TIMESTAMPTZ AS hour, unnest($2) AS share, unnest($2) AS n",
        [HOURS, [greatest * (place % 3) / 2 for place in range(len(HOURS))]],
    )
    seen = describe_rows(database, HOURS)
    suggested = suggest_on_columns(seen, all_count=True, keys=frozenset(), shares=frozenset({"share"}))
    bounds = {
        one.expectation.parameters["column"]: one.expectation.parameters.get("max_value")
        for one in suggested
        if one.expectation.type == "expect_column_values_to_be_between"
    }
    assert bounds["n"] == pytest.approx(1.5 * greatest, rel=0.1)
    assert bounds.get("share") == (bounds["n"] if greatest < 0.6 else None)


def test_a_ratio_of_counts_is_a_share_if_its_divisor_counts_all() -> None:
    texts = {"n": "count", "late": "count where delay > 0", "early": "count where delay < 0", "total": "sum(delay)"}
    measures = {name: Measure.parse(text) for name, text in texts.items()}
    for name, operands in {"a": "ratio(late, n)", "b": "ratio(late, early)", "c": "ratio(total, n)"}.items():
        measures[name] = Measure.parse(operands)
    assert find_shares(Metric(name="m", source="s", dimensions={}, measures=measures)) == {"a"}


@pytest.mark.parametrize(("wide", "is_suggested"), [(3.0, False), (0.2, True)])
def test_a_comparison_that_would_find_nothing_is_not_suggested(wide: float, is_suggested: bool) -> None:
    band = ("flights of the hour", "flights at least", "flights at most")
    rows = {"hour": ["a", "b"], band[0]: [10.0, 20.0], band[1]: [10 - 10 * wide] * 2, band[2]: [20 + 20 * wide] * 2}
    check = Check("expect_column_values_to_be_between", {"column": "flights beyond past days"}, "fail", "history", band)
    found = suggest_history(History(), lambda history: Facts(pd.DataFrame(rows), [check]), ["flights"])
    assert (found.history is not None) == is_suggested
    assert is_suggested or found.seen == "all hours are within; of 2, none would be found if doubled or halved"


def of_two_groups() -> duckdb.DuckDBPyConnection:
    """Hours with a row of each of two groups, whose numbers differ by a factor of 100."""
    rows = [
        (hour, group, size * (1 + place % 5 / 10))
        for place, hour in enumerate(HOURS)
        for group, size in (("small", 10.0), ("large", 1000.0))
    ]
    database = duckdb.connect()
    database.execute(f"CREATE TABLE {SEEN} (hour TIMESTAMPTZ, kind VARCHAR, n DOUBLE)")
    database.executemany(f"INSERT INTO {SEEN} VALUES (?, ?, ?)", rows)
    return database


def ranges(database: duckdb.DuckDBPyConnection) -> list[Suggested]:
    suggested = suggest_on_columns(describe_rows(database, HOURS), all_count=True, keys=frozenset())
    return [one for one in suggested if one.expectation.type == "expect_column_values_to_be_between"]


def test_each_group_gets_a_range_if_groups_differ(validator: Validator) -> None:
    database = of_two_groups()
    found = ranges(database)
    assert {
        one.expectation.parameters.get("row_condition"): (
            one.expectation.parameters["min_value"],
            one.expectation.parameters["max_value"],
        )
        for one in found
    } == {"`kind` == 'small'": (8, 16), "`kind` == 'large'": (800, 1600)}
    frame = database.execute(f"FROM {SEEN}").fetch_df()
    frame["hour"] = [hour_text(moment.to_pydatetime()) for moment in frame["hour"]]
    assert failed(validator, frame, found, HOURS) == set()
    # One range for all rows would find neither.
    for group, value in (("small", 500.0), ("large", 20.0)):
        wrong = frame.assign(n=frame["n"].mask((frame["kind"] == group) & (frame["hour"] == hour_text(THIS)), value))
        assert failed(validator, wrong, found, HOURS) == {("expect_column_values_to_be_between", "n")}
    only = frame[frame["kind"] == "small"]
    assert failed(validator, only, found, HOURS) == set()  # An hour without rows of a group says nothing of it.


def test_of_two_groupings_that_tell_as_much_the_one_with_fewer_groups_is_taken() -> None:
    database = of_two_groups()
    database.execute(
        f"CREATE OR REPLACE TABLE {SEEN} AS SELECT hour, kind || (hour(hour) % 2) AS finer, kind, "
        f"CASE kind WHEN 'small' THEN 10.0 ELSE 1000.0 END AS n FROM {SEEN}"
    )
    assert {one.expectation.parameters["row_condition"] for one in ranges(database)} == {
        "`kind` == 'small'",
        "`kind` == 'large'",
    }


def test_rows_of_no_group_keep_the_range_of_all() -> None:
    database = of_two_groups()
    database.execute(f"UPDATE {SEEN} SET kind = CASE WHEN kind = 'small' THEN kind WHEN n < 1400 THEN 'large' END")
    conditions = [one.expectation.parameters.get("row_condition") for one in ranges(database)]
    assert conditions == [None, "`kind` == 'large'", "`kind` == 'small'"]


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE {} SET n = n + 2000",  # They differ too little.
        "UPDATE {} SET kind = 'it''s' WHERE kind <> 'small'",  # pandas and Spark SQL write it in two ways.
        "UPDATE {} SET n = NULL WHERE kind <> 'small' AND hour > '2013-01-07T20:00:00Z'",  # Little is known of it.
        "UPDATE {} SET kind = hour::VARCHAR",  # Each row is a group of its own.
    ],
)
def test_groups_that_do_not_differ_or_are_hardly_known_have_one_range(change: str) -> None:
    database = of_two_groups()
    database.execute(change.format(SEEN))
    assert [one.expectation.parameters.get("row_condition") for one in ranges(database)] == [None]
