"""The form of the tests of metrics. Each mistake is one line: file, line, what was got, what is allowed."""

from pathlib import Path

import pytest

from hourline import load_project
from hourline_core.errors import DeclarationError, UsageError
from hourline_core.model.given_records import GivenRecord, json_text
from hourline_core.model.loaded_tests import chosen_tests, find_mistakes_of_tests, load_tests
from tests.support.project_files import write_project

FILES = {
    "hourline.yaml": "",
    "sources/clicks.yaml": """
        topic: clicks
        fields: {id: string, at: string, n: {type: int, key: number}}
        event_time: at
    """,
    "sources/orders.yaml": "topic: orders\nfields: {at: string, p: string}\nevent_time: at\nlookups: {price: p}\n",
    "sources/rates.yaml": "topic: rates\nfields: {at: string, r: double}\nevent_time: at\nkey_type: string\n",
    "sources/trades.yaml": "topic: trades\nfields: {at: string, p: string}\nevent_time: at\nlookups: {rate: p}\n",
    "lookups/rate.yaml": "table: source:rates\nkey: k\ncolumns: {k: {type: string, column: record.key}, r: double}\n",
    "metrics/traded.yaml": "source: trades\nmeasures: {n: count}\n",
    "lookups/price.yaml": "table: prices.csv\nkey: product\ncolumns: {product: string, price: double}\n",
    "metrics/views.yaml": "source: clicks\ndimensions: [id]\nmeasures: {n: sum(n), views: count}\n",
    "metrics/sold.yaml": "source: orders\nmeasures: {n: count}\n",
    "metrics/by_day.yaml": "from: views\nwindow: 1 day\n",
}
GOOD = "given:\n  - {at: 2026-03-02T08:10:00Z}\nexpect:\n  views: []\n"

SOLD = GOOD.replace("views", "sold")


def write(folder: Path, text: str, name: str = "t") -> Path:
    return write_project(folder, {**FILES, f"tests/{name}.yaml": text})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "1: the file is empty: write a test into it, or delete it"),
        (
            "given: [recompute]\nexpect: {views: []}\n",
            "1: given: got recomputes alone, allowed is a list of records, with at least one",
        ),
        ("given: []\nexpect: {views: []}\n", "1: given: got nothing, allowed is a list of records, with at least one"),
        ("expect: {views: []}\n", "1: given: is missing"),
        (
            "given:\n  - [1]\nexpect: {views: []}\n",
            "2: given.0: got a list, allowed are an event, `{name: value}`, the text of a record, `recompute` and "
            "`recompute all`",
        ),
        (
            "given:\n  - record: {offset: 1}\n    value: x\nexpect: {views: []}\n",
            "2: given.0.record.offset: got the key 'offset', allowed are key, partition, timestamp and headers",
        ),
        (
            "given:\n  - record: {partition: x}\n    value: x\nexpect: {views: []}\n",
            "2: given.0.record.partition: got 'x', allowed is a number from 0 to 99",
        ),
        (
            "given:\n  - record: {key: k}\nexpect: {views: []}\n",
            "2: given.0.record: got a record without a value, allowed is `value: …` beside `record`",
        ),
        (
            "given:\n  - {at: x, idd: 1}\nexpect: {views: []}\n",
            "2: given.0.idd: got 'idd', which is no field of the source 'clicks', allowed are id, at, number — "
            "did you mean 'id'?",
        ),
        (
            "given:\n  - {at: x, n: 1}\nexpect: {views: []}\n",
            "2: given.0.n: got 'n', which is no field of the source 'clicks', allowed are id, at, number",
        ),
        (
            "given:\n  - record: {key: k}\n    value: {when: x}\nexpect: {views: []}\n",
            "3: given.0.value.when: got 'when', which is no field of the source 'clicks', allowed are id, at, number",
        ),
        (
            f"{GOOD}source: click\n",
            "5: source: got 'click', which is no source of this project — did you mean 'clicks'?",
        ),
        (f"{GOOD}expects: 1\n", "5: expects: is not a known key — did you mean 'expect'?"),
        (f"{GOOD}rejected: -1\n", "5: rejected: got '-1', allowed is a whole number from 0"),
        (f"{GOOD}expect: {{}}\n", "5: expect: got the key a second time, allowed is once: see line 3"),
        (f"{GOOD}  view: []\n", "5: expect.view: there is no metric 'view' — did you mean 'views'?"),
        (
            f"{GOOD}  sold: []\n",
            "5: expect.sold: got a metric over the source 'orders', allowed are metrics over 'clicks', the source of "
            "the records; write a test for each source",
        ),
        (
            GOOD.replace("[]", "[{hour: 2026-03-02T08, id: a, view: 1}]"),
            "4: expect.views.0.view: got 'view', which is no column of 'views', allowed are hour, id, n, views, state "
            "— did you mean 'views'?",
        ),
        (
            GOOD.replace("[]", "[{hour: 2026-03-02T08, views: 1}]"),
            "4: expect.views.0: got a row without 'id', allowed is one with each dimension: hour, id",
        ),
        (
            GOOD.replace("[]", "[{id: a, views: 1}]"),
            "4: expect.views.0: got a row without 'hour', allowed is one with the time: hour, id",
        ),
        (
            GOOD.replace("[]", "[{hour: 2026-03-02T08:10, id: a}]"),
            "4: expect.views.0.hour: '2026-03-02T08:10' is not on the hour (UTC); the nearest hours are "
            "2026-03-02T08:00Z and 2026-03-02T09:00Z",
        ),
        (
            GOOD.replace("[]", "[{hour: 2026-03-02T08, id: a, state: finale}]"),
            "4: expect.views.0.state: got 'finale', allowed are final, revised, provisional, stale, incomplete, "
            "blocked, missing — did you mean 'final'?",
        ),
        (
            GOOD.replace("[]", "[{hour: 2026-03-02T08, id: a}, {hour: 2026-03-02T08, id: a}]"),
            "4: expect.views.1: got the row of 2026-03-02T08, a again, allowed is each row once",
        ),
        (
            GOOD.replace("views: []", "by_day: [{hour: 2026-03-02T00, id: a}]"),
            "4: expect.by_day.0.hour: got 'hour', which is no column of 'by_day', allowed are window_start, "
            "window_end, id, n, views, state",
        ),
        (GOOD.replace("[]", "none"), "4: expect.views: got 'none', allowed is a list of rows; `[]` expects none"),
        (
            f"{GOOD}lookups: {{price: []}}\n",
            "5: lookups.price: got 'price', which is no lookup of the source 'clicks': it uses none",
        ),
        (
            f"{SOLD}lookups:\n  prices: []\n",
            "6: lookups.prices: got 'prices', which is no lookup of the source 'orders' — did you mean 'price'?",
        ),
        (
            f"{SOLD}lookups:\n  price:\n    - {{product: a, prize: 1}}\n",
            "7: lookups.price.0.prize: got 'prize', which is no column of 'price', allowed are product, price — did you "
            "mean 'price'?",
        ),
        (
            f"{SOLD}lookups:\n  price:\n    - {{price: 1}}\n",
            "7: lookups.price.0: got a row without 'product', allowed is one with the key",
        ),
        (
            GOOD.replace("views", "traded"),
            "1: lookups: got no rows of 'rate', whose table is a source without records here: allowed is a test with "
            "them, `lookups: {rate: [{…}]}`",
        ),
        (
            f"{SOLD}lookups: {{price: 1}}\n",
            "5: lookups.price: got '1', allowed is a list of rows; `[]` is a table without rows",
        ),
        (GOOD.replace("[]", "[1]"), "4: expect.views.0: got '1', allowed is a row, `{column: value}`"),
        (
            f"{GOOD}arrived: yesterday\n",
            "5: arrived: got 'yesterday', allowed are points in time with their offset from UTC, such as",
        ),
    ],
)
def test_a_mistake_in_a_test_is_one_sentence_with_file_and_line(tmp_path: Path, text: str, said: str) -> None:
    project = load_project(write(tmp_path, text), {})
    with pytest.raises(DeclarationError) as caught:
        load_tests(project, {})
    first = str(caught.value).splitlines()[0]
    assert first.startswith(f"tests/t.yaml:{said}")
    assert find_mistakes_of_tests(project)[0] == first


def test_a_test_has_at_most_200_records(tmp_path: Path) -> None:
    items = "  - x\n" * 201
    with pytest.raises(DeclarationError, match=r"tests/t.yaml:1: given: got 201 records, allowed are 200"):
        load_tests(load_project(write(tmp_path, f"given:\n{items}expect: {{views: []}}\n"), {}), {})


def test_two_files_cannot_declare_the_same_test(tmp_path: Path) -> None:
    write_project(write(tmp_path, GOOD), {"tests/t.yml": GOOD})
    with pytest.raises(DeclarationError, match=r"tests/t.yml:1: got the test 't' again.*see t.yaml"):
        load_tests(load_project(tmp_path, {}), {})


def test_an_event_becomes_json_by_what_stands_in_quotes(tmp_path: Path) -> None:
    text = """
        given:
          - {id: "7", at: 2026-03-02T08:10:00Z, number: 7}
          - {id: true, at: null, number: 1.50e3}
          - "{"
          - recompute all
          - record: {key: k, partition: 2, timestamp: 2026-03-02T08:10:00Z, headers: {a: b}}
            value: {id: yes}
        expect:
          views: []
    """
    (test,) = load_tests(load_project(write(tmp_path, text), {}), {})
    first, second, third, recompute, last = test.declared.given
    assert first.value == '{"id": "7", "at": "2026-03-02T08:10:00Z", "number": 7}'
    assert second.value == '{"id": true, "at": null, "number": 1.50e3}'
    assert (third, recompute) == (GivenRecord("{"), "recompute all")
    assert (last.value, last.key, last.partition, last.headers) == ('{"id": "yes"}', "k", 2, {"a": "b"})
    assert test.source.name == "clicks"
    assert test.declared.rejected == 0


def test_json_text_writes_nested_values() -> None:
    assert json_text({"a": ["1", {"b": None}], "é": "\n"}) == '{"a": [1, {"b": null}], "\\u00e9": "\\n"}'


def test_tests_are_chosen_by_name(tmp_path: Path) -> None:
    tests = load_tests(load_project(write(tmp_path, GOOD, "late"), {}), {})
    assert [test.name for test in chosen_tests(tests, [])] == ["late"]
    with pytest.raises(UsageError, match="there is no test 'lat' — did you mean 'late'"):
        list(chosen_tests(tests, ["lat"]))


@pytest.mark.parametrize(
    ("derived", "what"),
    [
        ("join: {left: clicks, right: orders, on: {id: p}, within: 1h}\n", "joined of 'clicks' and 'orders'"),
        ("snapshot: {of: orders, key: p, columns: at}\n", "a snapshot of 'orders'"),
        ("upsert: {of: orders, key: p, version: at, within: 1d, columns: at}\n", "an upsert of 'orders'"),
    ],
)
@pytest.mark.parametrize(
    ("text", "place"),
    [
        (GOOD.replace("views", "met"), "3: expect"),
        (f"source: made\n{GOOD.replace('views', 'met')}", "1: source"),
        (f"{GOOD}  met: []\n", "5: expect.met"),
        (f"source: clicks\n{GOOD}  met_by_day: []\n", "6: expect.met_by_day"),
    ],
)
def test_metrics_over_a_source_without_records_are_not_tested(
    tmp_path: Path, derived: str, what: str, text: str, place: str
) -> None:
    files = {
        "sources/made.yaml": derived,
        "metrics/met.yaml": "source: made\nmeasures: {n: count}\n",
        "metrics/met_by_day.yaml": "from: met\nwindow: 1 day\n",
        "tests/t.yaml": text,
    }
    project = load_project(write_project(tmp_path, FILES | files))
    assert find_mistakes_of_tests(project) == [
        f"tests/t.yaml:{place}: got metrics over 'made', which is {what} and has no records of its own, allowed are "
        "those over a source of topics: clicks, orders, rates, trades"
    ]
