"""`hourline test`: both layers give the expected rows, however the records are cut; and what is shown if they do not."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from typer.testing import CliRunner

from hourline import load_project
from hourline.cli import app
from hourline.cli.test import say_outcome
from hourline.metric_tests.junit import junit_xml
from hourline.metric_tests.record_test import record_test
from hourline.metric_tests.run_tests import OutcomeOfTest, run_tests
from hourline_core.errors import DeclarationError, UsageError
from hourline_core.model.hours import parse_hour
from hourline_core.model.loaded_tests import load_tests
from hourline_core.runtime.spark import spark_session
from serving_layer import connect
from speed_layer.import_files import find_history, import_files
from tests.support.project_files import write_project
from tests.support.shown import ROOT

FILES = {
    "hourline.yaml": "",
    "sources/clicks.yaml": """
        topic: clicks
        fields: {id: string, at: {type: string, required: true}, page: string, price: double, tags: json}
        event_time: at
        id: id
        id_horizon: 90m
        derived: {section: "split_part(page, '/', 2)"}
        grace: 30m
    """,
    "metrics/views.yaml": """
        source: clicks
        dimensions: [section]
        measures: {views: count, paid: sum(price), pages: distinct(page)}

    """,
    "metrics/half_hours.yaml": """
        source: clicks
        measures: {last: last(page), mean: mean(price)}
        window: 30m
        where: price IS NOT NULL
    """,
    "metrics/days.yaml": "from: views\ndimensions: []\nwindow: 1 day\n",
}
EVENTS = """
      - {id: a, at: "2026-03-02T08:10:00Z", page: /shop/a, price: 0.1}
      - {id: a, at: "2026-03-02T08:10:00Z", page: /shop/a, price: 0.1}
      - "{"
      - record: {partition: 1, key: k}
        value: {id: b, at: "2026-03-02T08:20:00Z", page: /shop/b, price: 0.2}
      - {id: c, at: "2026-03-02T09:35:00Z", page: null, price: null}
      - {id: c2, at: "2026-03-02T09:35:00Z", page: /help/x, price: 5}
"""
LATE = """
      - {id: d, at: "2026-03-02T08:50:00Z", page: /shop/a, price: 0.3}
      - {id: null, at: "2026-03-02T08:55:00Z", page: /shop/a, price: null}
"""
PASSING = f"""
    given:{EVENTS}
      - recompute all{LATE}
    rejected: 1
    expect:
      views:
        - {{hour: 2026-03-02T08:00Z, section: shop, views: 4, paid: 0.6, pages: 2, state: revised}}
        - {{hour: 2026-03-02T09:00Z, section: null, views: 1, paid: null, pages: 0, state: final}}
        - {{hour: 2026-03-02T09:00Z, section: help, views: 1, paid: 5, state: final}}
      half_hours:
        - {{window_start: 2026-03-02T08:00Z, last: /shop/b, mean: 0.15, state: provisional}}
        - {{window_start: 2026-03-02T08:30Z, last: /shop/a, mean: 0.3, state: provisional}}
        - {{window_start: 2026-03-02T09:30Z, last: /help/x, mean: 5, state: provisional}}
      days:
        - {{window_start: 2026-03-02T00:00Z, views: 6, paid: 5.6, pages: 3}}
"""
WRONG = f"""
    given:{EVENTS}
    expect:
      views:
        - {{hour: 2026-03-02T08:00Z, section: shop, views: 3}}
        - {{hour: 2026-03-02T09:00Z, section: shop, views: 1}}
        - {{hour: 2026-03-02T09:00Z, section: help, views: 1}}
"""
BEYOND_ITS_HORIZON = """
    given:
      - {id: a, at: "2026-03-02T08:10:00Z"}
      - {id: b, at: "2026-03-02T09:05:00Z"}
      - {id: c, at: "2026-03-02T09:55:00Z"}
      - {id: a, at: "2026-03-02T08:10:00Z"}
      - recompute all
    expect:
      views:
        - {hour: 2026-03-02T08:00Z, section: null, views: 1, state: final}
        - {hour: 2026-03-02T09:00Z, section: null, views: 2, state: final}
"""
TESTS = {"passing": PASSING, "wrong": WRONG, "beyond": BEYOND_ITS_HORIZON}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with tests, and one that was recorded from an hour of its workspace."""
    folder = write_project(
        tmp_path_factory.mktemp("project"),
        {**FILES, **{f"tests/{name}.yaml": text for name, text in TESTS.items()}},
    )
    events = [
        {"id": "x", "at": "2026-03-02T08:10:00Z", "page": '/shop/é "${HOME}" \x07', "price": 1e-3, "other": 1},
        {"id": "x", "at": "2026-03-02T08:10:00Z", "page": "/shop/a", "price": 1e-3},
        {"id": "7", "at": "2026-03-02T08:11:00Z", "page": "true", "price": 2, "tags": {"a": [1.50, None, "😀"]}},
        {"id": None, "at": "2026-03-02T09:11:00Z", "page": None, "price": None},
    ]
    (folder / "e.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events), encoding="utf-8")
    declared = load_project(folder)
    clicks = declared.sources["clicks"]
    spark = spark_session(declared, "test", brief=True)  # which `run_tests` goes on with, and stops
    import_files(spark, declared, clicks, find_history(declared, clicks, [str(folder / "e.jsonl")]))
    with connect(declared) as connection:
        text = record_test(connection, "views", parse_hour("2026-03-02T08"))
        write_project(folder, {"tests/recorded.yaml": text})
        with pytest.raises(UsageError, match="'views' has no hour 2026-03-02T07:00Z"):
            record_test(connection, "views", parse_hour("2026-03-02T07"))
        with pytest.raises(UsageError, match="'days' has windows"):
            record_test(connection, "days", parse_hour("2026-03-02T08"))
    return folder


@pytest.fixture(scope="module")
def outcomes(project: Path) -> Mapping[str, OutcomeOfTest]:
    declared = load_project(project)
    return {outcome.test.name: outcome for outcome in run_tests(declared, load_tests(declared))}


def test_all_ways_to_read_the_records_give_the_expected_rows(outcomes: Mapping[str, OutcomeOfTest]) -> None:
    assert {name: outcome.failure for name, outcome in outcomes.items() if name in ("passing", "recorded")} == {
        "passing": None,
        "recorded": None,
    }
    assert outcomes["passing"].ways == 1 + 9 + 20


def test_a_recorded_test_has_the_records_and_rows_of_the_hour(project: Path) -> None:
    text = (project / "tests" / "recorded.yaml").read_text(encoding="utf-8")
    assert '- {id: x, at: "2026-03-02T08:10:00Z", page: "/shop/é \\"$${HOME}\\" \\U00000007", price: 0.001}' in text
    assert 'id: "7"' in text
    assert 'tags: {a: [1.5, null, "😀"]}' in text
    assert "- {hour: 2026-03-02T08:00Z, section: shop, views: 1, paid: 0.001, pages: 1}" in text
    assert "2026-03-02T09" not in text


def test_the_first_difference_is_shown_as_a_table(
    outcomes: Mapping[str, OutcomeOfTest], capsys: pytest.CaptureFixture[str]
) -> None:
    say_outcome(outcomes["wrong"])
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        "wrong: failed, as given: the rows of 'views' differ",
        "hour              section  column  expected  found",
        "2026-03-02 08:00  shop     views   3         2",
        "2026-03-02 09:00                   no row    views 1, paid None, pages 0",
        "2026-03-02 09:00  shop             views 1   no row",
        "1 record(s) are rejected (invalid JSON: the object does not end, at byte 1), expected are 0",
        "again: hourline test wrong; expected in tests/wrong.yaml:11",
    ]


def test_junit_has_each_test_and_what_differs(outcomes: Mapping[str, OutcomeOfTest]) -> None:
    root = ET.fromstring(junit_xml("shop", list(outcomes.values())))  # noqa: S314 (written above)
    assert root.attrib == {"tests": "4", "failures": "2", "errors": "0"}
    cases: dict[str, Any] = {case.attrib["name"]: case.find("failure") for case in root.iter("testcase")}
    assert [name for name, failure in cases.items() if failure is not None] == ["beyond", "wrong"]
    assert cases["wrong"].attrib["message"] == "as given: the rows of 'views' differ"
    assert "views, 3, 2" in cases["wrong"].text


def test_a_case_in_which_the_layers_differ_is_named(outcomes: Mapping[str, OutcomeOfTest]) -> None:
    """The speed layer counts a duplicate beyond the horizon, until its hour is recomputed."""
    failure = outcomes["beyond"].failure
    assert failure is not None
    assert failure.sentence == (
        "cut 3: micro-batches of 3 and 1 records, a recompute after 3: the rows of 'views' differ"
    )
    assert failure.lines[-1].endswith("None, views, 1, 2")


@pytest.mark.long
def test_the_tests_of_the_demo_pass_and_find_a_broken_declaration(tmp_path: Path) -> None:
    """Both declarations of traffic are in one project, since each start of Spark takes seconds."""
    shutil.copytree(ROOT / "examples" / "nyc_flights", tmp_path, dirs_exist_ok=True)
    (recorded,) = (tmp_path / "tests").glob("traffic_*.yaml")
    broken = (
        (tmp_path / "metrics" / "traffic.yaml")
        .read_text(encoding="utf-8")
        .replace("count where cancelled", "count where delay = 2")
    )
    (tmp_path / "metrics" / "broken.yaml").write_text(broken, encoding="utf-8")
    of_broken = recorded.read_text(encoding="utf-8").replace("  traffic:", "  broken:")
    (tmp_path / "tests" / "broken.yaml").write_text(of_broken, encoding="utf-8")
    ran = CliRunner().invoke(app, ["test", "--project", str(tmp_path), "--junit", str(tmp_path / "j.xml")])
    assert ran.exit_code == 1, ran.output
    assert [" ".join(line.split()) for line in ran.stdout.splitlines()] == [
        "blocked_hour: passed, read in 24 ways",
        "broken: failed, as given: the rows of 'broken' differ",
        "hour column expected found",
        "2013-01-01 10:00 cancelled 0 2",
        "again: hourline test broken; expected in tests/broken.yaml:13",
        "late_flight: passed, read in 28 ways",
        f"{recorded.stem}: passed, read in 28 ways",
        "refitted_plane: passed, read in 26 ways",  # Its lookups have other rows.
        "nyc_flights: 4 passed, 1 failed",
    ]
    assert len(list(ET.parse(tmp_path / "j.xml").iter("failure"))) == 1  # noqa: S314 (written above)
    assert not (tmp_path / ".hourline" / "tables").exists()


@pytest.mark.long
@pytest.mark.parametrize("example", ["clickstream", "word_count"])
def test_the_tests_of_the_other_examples_pass(tmp_path: Path, example: str) -> None:
    """Sessions, days in a zone and a keyed fold; and records that become several events."""
    shutil.copytree(ROOT / "examples" / example, tmp_path, dirs_exist_ok=True)
    ran = CliRunner().invoke(app, ["test", "--project", str(tmp_path)])
    assert ran.exit_code == 0, ran.output


LOOKED_UP = {
    "hourline.yaml": "",
    "sources/prices.yaml": """
        topic: prices
        key_type: string
        fields: {price: double}
        event_time: record.timestamp
    """,
    "lookups/price.yaml": """
        table: source:prices
        key: product
        columns: {product: {type: string, column: record.key}, price: double}
        valid_from: event_time
    """,
    "lookups/maker.yaml": """
        table: not_there.csv
        key: product
        columns: {product: string, maker: string}
        on_duplicate: first
    """,
    "sources/orders.yaml": """
        topic: orders
        fields: {product: string, at: timestamp}
        event_time: at
        lookups: {price: product, maker: product}
    """,
    "metrics/paid.yaml": "source: orders\ndimensions: {maker: maker.maker}\nmeasures: {paid: sum(price.price)}\n",
}


def given_lookups(rows: str, paid: object) -> str:
    return f"""
        lookups:
          maker: [{{product: a, maker: Ann}}]
          price: {rows}
        given:
          - {{product: a, at: "2026-03-02T08:10:00Z"}}
          - {{product: a, at: "2026-03-02T08:40:00Z"}}
          - recompute all
          - {{product: b, at: "2026-03-02T08:40:00Z"}}
        expect:
          paid:
            - {{hour: 2026-03-02T08, maker: Ann, paid: {paid}, state: revised}}
            - {{hour: 2026-03-02T08, maker: null, paid: null, state: revised}}
    """


@pytest.mark.long  # In CI, test_lookups.py has their rows in both layers.
def test_a_test_gives_the_rows_of_lookups(tmp_path: Path) -> None:
    always, twice = (
        "[{product: a, price: 2}]",
        """[{product: a, price: 2, valid_to: "2026-03-02T08:30:00Z"},
                {product: a, price: 5, event_time: "2026-03-02T08:30:00Z"}]""",
    )
    tests = {"always": given_lookups(always, 4), "twice": given_lookups(twice, 7), "wrong": given_lookups(always, 7)}
    tests["never"] = given_lookups("[]", "null")
    files = {**LOOKED_UP, **{f"tests/{name}.yaml": text for name, text in tests.items()}}
    project = load_project(write_project(tmp_path, files))
    outcomes = {one.test.name: one.failure for one in run_tests(project, load_tests(project))}
    assert {name for name, failure in outcomes.items() if failure is None} == {"always", "twice", "never"}
    assert "the rows of 'paid' differ" in ((outcomes["wrong"] and outcomes["wrong"].sentence) or "")


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (
            "[{product: a, price: much}]",
            "lookups.price.0.price: got 'much', allowed is a value of type double, such as",
        ),
        (
            "[{product: a, price: 1}, {product: a, price: 2}]",
            "lookups.price: the given table has two rows of product 'a'",
        ),
    ],
)
def test_rows_that_a_lookup_cannot_have_are_refused_with_their_line(rows: str, words: str, tmp_path: Path) -> None:
    files = {**LOOKED_UP, "tests/bad.yaml": given_lookups(rows, 1)}
    project = load_project(write_project(tmp_path, files))
    with pytest.raises(DeclarationError) as refused:
        list(run_tests(project, load_tests(project)))
    assert f"tests/bad.yaml:4: {words}" in str(refused.value)
