"""The reports as files: they open offline, say what is the matter first, and show all that was found as text, whatever
it holds.
"""

import json
import os
import random
import re
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pytest

import serving_layer
from batch_layer.reports.overview import write_overview
from batch_layer.reports.site import prune
from hourline_core.ledger.layout import QUALITY_SCHEMA
from hourline_core.ledger.report_pages import page_name, page_path
from hourline_core.runtime.quirks import import_great_expectations

START = datetime(2026, 3, 2, tzinfo=UTC)
NOW = START + timedelta(days=30)
HOUR = timedelta(hours=1)


class Page(HTMLParser):
    """What a browser makes of a page: its elements, and its text."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.text += " "
        self.elements.append((tag, {name: value or "" for name, value in attributes}))

    def handle_data(self, data: str) -> None:
        self.text += data

    @property
    def tags(self) -> set[str]:
        return {tag for tag, _ in self.elements}

    @property
    def links(self) -> list[str]:
        return [attributes["href"] for tag, attributes in self.elements if tag == "a" and "href" in attributes]


def row(
    hour: int, metric: str | None = "views", expectation: str = "expect_column_values_to_be_between", **fields: Any
) -> dict[str, Any]:
    """A row of the quality table; ``hour`` counts from START."""
    return {
        "publication": hour + 1,
        "audited": START + (hour + 2) * HOUR,
        "source": "pages",
        "metric": metric,
        "declaration": "d",
        "hour": START + hour * HOUR,
        "cutoff": 1,
        "expectation": expectation,
        "about": "visits",
        "parameters": "{}",
        "origin": "user",
        "severity": "fail",
        "success": True,
        "rows": [],
        **fields,
    }


def overview(site: Path, rows: list[dict[str, Any]], *blocked: tuple[str, int]) -> Page:
    table = pa.Table.from_pylist(rows, schema=QUALITY_SCHEMA)
    return Page(write_overview(site, "shop", table, [(metric, START + hour * HOUR) for metric, hour in blocked], NOW))


def put_page(site: Path, publication: int, metric: str | None = "views") -> Path:
    path = site / page_path(publication, page_name("pages", metric))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


@pytest.fixture(scope="module")
def validate() -> Any:
    """Validates a data frame with Great Expectations as an audit does."""
    import_great_expectations()
    import great_expectations as gx

    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}  # type: ignore[assignment]
    batches = (
        context.data_sources.add_pandas("tiles")
        .add_dataframe_asset("tiles")
        .add_batch_definition_whole_dataframe("tiles")
    )

    def run(columns: dict[str, list[Any]], *expectations: Any) -> Any:
        import pandas as pd

        batch = batches.get_batch({"dataframe": pd.DataFrame(columns)})
        keys = [column for column in ("hour", "page") if column in columns]
        suite = gx.ExpectationSuite("views", expectations=list(expectations))
        return batch.validate(suite, result_format={"result_format": "COMPLETE", "unexpected_index_column_names": keys})

    return run


def expect(name: str, **parameters: Any) -> Any:
    import_great_expectations()
    import great_expectations.expectations

    return getattr(great_expectations.expectations, name)(**parameters)


def docs(site: Path, result: Any) -> Page:
    from batch_layer.reports.data_docs import write_page

    return Page(write_page(site, 7, page_name("pages", "views"), result, "views", "2 Mar 2026, 14:00 UTC", NOW))


def some_tiles(values: list[Any], page: str = "/home") -> dict[str, list[Any]]:
    return {
        "hour": ["2026-03-02T14:00Z"] * len(values),
        "page": [f"{page}{place}" for place in range(len(values))],
        "visits": values,
    }


def loaded_from_elsewhere(site: Path, page: Page) -> list[object]:
    style = (site / "style.css").read_text()
    loading = [
        item
        for item in page.elements
        if item[0] != "a" and any("//" in item[1].get(name, "") for name in ("src", "href", "srcset", "data"))
    ]
    return [
        *loading,
        *re.findall(r"@import|url\(|https?:", style),
        *(page.tags & {"script", "iframe", "img", "object"}),
    ]


def has_icon_of_the_page(page: Page) -> bool:
    """Whether it brings along the icon of the server's page: a browser asks the server for one that is not named, and
    gets 404.
    """
    icons = [attributes for tag, attributes in page.elements if tag == "link" and attributes.get("rel") == "icon"]
    media, _, data = icons[0]["href"].partition(",") if len(icons) == 1 else ("", "", "")
    svg = (Path(serving_layer.__file__).parent / "http" / "page" / "icon.svg").read_text(encoding="utf-8")
    return media == "data:image/svg+xml" and unquote(data) == svg.strip().replace('"', "'")


def test_data_docs_load_nothing_from_elsewhere_and_lead_back_to_the_overview(tmp_path: Path, validate: Any) -> None:
    page = docs(
        tmp_path,
        validate(some_tiles([1, 2, -3]), expect("ExpectColumnValuesToBeBetween", column="visits", min_value=0)),
    )
    assert loaded_from_elsewhere(tmp_path, page) == []
    assert has_icon_of_the_page(page)
    assert ("link", {"rel": "stylesheet", "href": "../../style.css"}) in page.elements
    assert page.links[0] == "../../index.html"
    assert all(link.startswith(("#", "../../index.html")) for link in page.links)


def test_failing_rows_are_shown_with_their_keys_and_not_all_of_many(tmp_path: Path, validate: Any) -> None:
    result = validate(
        some_tiles([5, *range(-63, 0)]), expect("ExpectColumnValuesToBeBetween", column="visits", min_value=0)
    )
    text = " ".join(docs(tmp_path, result).text.split())
    assert "1 of 1 expectations failed" in text
    assert "hour page visits 2026-03-02T14:00Z /home1 -63 2026-03-02T14:00Z /home2 -62" in text
    assert "/home20 " in text
    assert "/home21 " not in text
    assert "43 more rows are not shown" in text


def test_markup_in_values_is_shown_as_text(tmp_path: Path, validate: Any) -> None:
    tiles = some_tiles(["<script>alert(1)</script>", "<img src=x>"], page="<b>$visits</b>")
    result = validate(
        tiles,
        expect("ExpectColumnValuesToBeInSet", column="visits", value_set=["<em>"], meta={"hour": '"><script>'}),
        expect("ExpectColumnValuesToNotBeNull", column="<script>nowhere"),
        expect(
            "ExpectColumnValuesToMatchRegex", column="visits", regex="^(?!<script)", description="<script>described"
        ),
        expect("ExpectColumnPairValuesToBeEqual", column_A="page", column_B="visits"),
    )
    page = docs(tmp_path, result)
    assert not page.tags & {"script", "img", "b", "em"}
    for text in (
        "<script>alert(1)</script>",
        "<img src=x>",
        "<b>$visits</b>0",
        "<em>",
        "<script>nowhere",
        "<script>described",
        '"><script>',
    ):
        assert text in page.text


def test_markup_in_what_other_renderers_return_is_shown_as_text() -> None:
    import_great_expectations()
    from great_expectations.render.components import RenderedTableContent

    from batch_layer.reports.data_docs import OfflineView

    table = RenderedTableContent(
        table=[["<b>", ["<i>", ("<u>",)], {"<s>": 1}, None, 3]], header_row=["<em>"]
    ).to_json_dict()
    shown = OfflineView().env.get_template("component.j2").render(content_block=table)
    assert not set(re.findall(r"<(b|i|u|s|em)>", shown))


def test_a_warning_is_told_from_a_failure_and_a_crash(tmp_path: Path, validate: Any) -> None:
    result = validate(
        some_tiles([1, 2]),
        expect("ExpectColumnMaxToBeBetween", column="visits", max_value=1, severity="warning"),
        expect("ExpectColumnMinToBeBetween", column="visits", min_value=2, meta={"hour": "2026-03-02T14:00Z"}),
        expect("ExpectColumnMeanToBeBetween", column="visits", min_value=0),
        expect("ExpectColumnValuesToNotBeNull", column="nowhere"),
    )
    page = docs(tmp_path, result)
    badges = [
        attributes["class"] for _, attributes in page.elements if attributes.get("class", "").startswith("badge badge-")
    ]
    assert [badges.count(f"badge badge-{style}") for style in ("danger", "warning", "success", "mild")] == [2, 1, 1, 1]
    assert "2 of 4 expectations failed, 1 more warned" in page.text
    assert ("h2026-03-02T14:00Z") in [attributes.get("id") for _, attributes in page.elements]
    assert "1.5" in page.text  # NumPy's numbers, too


def test_odd_results_make_a_page_all_the_same(tmp_path: Path, validate: Any) -> None:
    import_great_expectations()
    from great_expectations.core.expectation_validation_result import (
        ExpectationSuiteValidationResult,
        ExpectationValidationResult,
    )
    from great_expectations.expectations.expectation_configuration import ExpectationConfiguration

    empty = ExpectationSuiteValidationResult(success=True, results=[], suite_name="views")
    assert "Nothing was evaluated, which counts as a failure" in docs(tmp_path, empty).text
    unknown = ExpectationConfiguration(type="expect_the_unexpected", kwargs={"column": "visits"})
    crashed = ExpectationValidationResult(success=False, expectation_config=unknown)
    page = docs(tmp_path, ExpectationSuiteValidationResult(success=False, results=[crashed], suite_name="views"))
    assert "expect_the_unexpected" in page.text
    page = docs(
        tmp_path,
        validate(
            some_tiles(["ö✈", None, "x" * 9000]),
            expect("ExpectColumnValueLengthsToBeBetween", column="visits", max_value=1),
        ),
    )
    assert "(9,000 characters)" in page.text
    assert "x" * 200 not in page.text
    assert "ö✈" in page.text


def test_the_overview_tells_blocked_hours_first_with_rows_and_commands(tmp_path: Path) -> None:
    failing = [
        json.dumps({"hour": "2026-03-02T03:00Z", "page": "<b>/boots</b>", "visits": -place}) for place in range(1, 9)
    ]
    rows = [row(hour) for hour in range(5)] + [row(hour, "visitors") for hour in range(5)]
    rows[3] = row(3, success=False, found="11 values are below 0", unexpected=11, rows=failing)
    put_page(tmp_path, 4)
    page = overview(tmp_path, rows, ("views", 3))
    assert loaded_from_elsewhere(tmp_path, page) == []
    assert has_icon_of_the_page(page)
    assert "1 hour of views is blocked" in page.text
    assert page.text.index("11 values are below 0") < page.text.index("Trends")
    assert "<b>/boots</b>" in page.text
    assert "and 6 more" in page.text
    assert "hourline recompute --from 2026-03-02T03:00Z --to 2026-03-02T04:00Z --metric views\n" in page.text
    assert 'hourline publish --accept views 2026-03-02T03:00Z --reason "…"' in page.text
    assert page_path(4, "metric-views") in page.links


def test_successive_hours_that_failed_alike_are_one_problem(tmp_path: Path) -> None:
    rows = [row(hour, success=hour not in (2, 3, 4, 5, 7)) for hour in range(8)]
    rows += [row(hour, None, "expect_table_row_count_to_be_between", success=hour != 5) for hour in range(8)]
    page = overview(tmp_path, rows, *(("views", hour) for hour in (7, 5, 3, 2, 4)))
    assert "5 hours of views are blocked" in page.text
    commands = re.findall(r"hourline recompute .*", page.text)
    assert commands == [
        "hourline recompute --from 2026-03-02T07:00Z --to 2026-03-02T08:00Z --metric views",
        "hourline recompute --from 2026-03-02T05:00Z --to 2026-03-02T06:00Z --metric views",
        "hourline recompute --from 2026-03-02T02:00Z --to 2026-03-02T05:00Z --metric views",
    ]
    assert "visits of the events" in page.text


def test_without_blocked_hours_the_overview_says_how_many_are_published(tmp_path: Path) -> None:
    assert "Nothing has been audited yet" in overview(tmp_path, []).text
    assert "The one audited hour of 1 metric is published" in overview(tmp_path, [row(0)]).text
    page = overview(tmp_path, [row(hour, metric) for hour in range(5) for metric in ("views", "visitors", None)])
    assert "All 5 audited hours of 2 metrics are published" in page.text
    assert "Open problems" not in page.text


def test_a_problem_older_than_what_is_shown_is_told_all_the_same(tmp_path: Path) -> None:
    page = overview(tmp_path, [row(2000)], ("views", 3), ("gone", 4))
    assert "2 hours are blocked: 1 of gone, 1 of views" in page.text
    assert "--from 2026-03-02T03:00Z --to 2026-03-02T04:00Z --metric views" in page.text


def test_each_audited_hour_is_a_link_to_a_page_that_is_there(tmp_path: Path) -> None:
    rows = [row(hour, metric) for hour in range(50) for metric in ("views", None)]
    for hour in range(50):
        if hour != 17:
            put_page(tmp_path, hour + 1, "views")
            put_page(tmp_path, hour + 1, None)
    links = [link.partition("#") for link in overview(tmp_path, rows).links if not link.startswith("#")]
    assert len(links) == 2 * 49
    assert all((tmp_path / path).is_file() for path, _, _ in links)
    assert {hour for _, _, hour in links} == {
        f"h{START + hour * HOUR:%Y-%m-%dT%H:%MZ}" for hour in range(50) if hour != 17
    }


def cells_of(site: Path, name: str) -> list[dict[str, set[int]]]:
    """Of each strip of a trend, the places in each state, as they are drawn."""
    text = (site / "index.html").read_text()
    part = text.split(f'id="{name}"')[1].split("</details>")[0]
    strips = re.findall(r'<svg class="strip.*?</svg>', part, re.DOTALL)
    drawn = []
    for strip in strips:
        states: dict[str, set[int]] = {}
        for state, path in re.findall(r'<path class="(\w+)" d="([^"]*)"', strip):
            runs = re.findall(r"M(\d+) [-\d.]+h([\d.]+)", path)
            states[state] = {
                place for start, length in runs for place in range(int(start), int(start) + max(1, int(float(length))))
            }
        drawn.append(states)
    return drawn


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("length", [30, 400])
def test_strips_show_the_newest_audit_of_each_hour_and_who_was_overruled(
    tmp_path: Path, seed: int, length: int
) -> None:
    chance = random.Random(f"{seed} {length}")  # noqa: S311 (the same choices each time)
    rows, expected, overall = [], {}, {}
    publication = 0
    for _ in range(length * 2):  # hours are audited again, in any order
        hour = chance.choice([0, length - 1, chance.randrange(length)])
        publication += 1
        outcomes = {}
        for expectation, severity in (("expect_a", "fail"), ("expect_b", "warn")):
            success = chance.random() < 0.8
            rows.append(row(hour, expectation=expectation, severity=severity, success=success, publication=publication))
            outcomes[expectation] = "passed" if success else {"fail": "failed", "warn": "warned"}[severity]
        expected[hour] = outcomes
        overall[hour] = next(state for state in ("failed", "warned", "passed") if state in outcomes.values())
        if overall[hour] == "failed" and chance.random() < 0.5:
            publication += 1
            rows.append(row(hour, expectation="accepted", origin="person", about=None, publication=publication))
            overall[hour] = "accepted"
    blocked = [hour for hour, state in overall.items() if state == "failed" and chance.random() < 0.5]
    overall.update(dict.fromkeys(blocked, "blocked"))
    chance.shuffle(rows)
    overview(tmp_path, rows, *(("views", hour) for hour in blocked))

    def by_state(states: dict[int, str]) -> dict[str, set[int]]:
        return {
            state: {hour - min(expected) for hour in states if states[hour] == state} for state in set(states.values())
        }

    strips = cells_of(tmp_path, "metric-views")
    assert strips[0] == by_state(overall)
    for expectation in ("expect_a", "expect_b"):
        assert by_state({hour: outcomes[expectation] for hour, outcomes in expected.items()}) in strips[1:]
    assert len(strips) == 3


def test_a_line_goes_on_where_its_bounds_change_and_parts_where_two_are_alike(tmp_path: Path) -> None:
    changed = [row(hour, parameters=json.dumps({"max_value": hour // 5})) for hour in range(10)]
    overview(tmp_path, changed)
    assert len(cells_of(tmp_path, "metric-views")) == 1 + 1
    alike = [row(hour, parameters=json.dumps({"max_value": bound})) for hour in range(10) for bound in (1, 2)]
    overview(tmp_path, alike)
    assert len(cells_of(tmp_path, "metric-views")) == 1 + 2


def test_four_weeks_are_shown_and_no_folder_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a folder was listed")

    put_page(tmp_path, 1)
    monkeypatch.setattr(os, "scandir", refuse)
    monkeypatch.setattr(os, "listdir", refuse)
    overview(tmp_path, [row(hour) for hour in range(1000)])
    (published, _) = cells_of(tmp_path, "metric-views")
    assert published == {"passed": set(range(28 * 24))}


def test_a_number_that_leaves_its_bounds_is_seen(tmp_path: Path) -> None:
    values = [10.0 + hour % 3 for hour in range(40)] + [500.0]
    overview(
        tmp_path,
        [row(hour, observed=value, lower=5.0, upper=20.0, success=value < 20) for hour, value in enumerate(values)],
    )
    text = (tmp_path / "index.html").read_text()
    (drawn,) = re.findall(r'class="values" d="([^"]*)"', text)
    levels = [int(level) for level in re.findall(r"\.5 (\d+)", drawn)]
    assert levels[-1] == 3  # at the upper edge
    assert min(levels[:-1]) >= 3 + 10  # and well above the others
    assert max(levels) - min(levels[:-1]) >= 50  # which are not pressed flat by it
    (dot,) = re.findall(r'class="bad failed" d="([^"]*)"', text)
    assert dot == "M40.5 3h0"


def test_odd_rows_make_an_overview_all_the_same(tmp_path: Path) -> None:
    numbers = [None, float("nan"), float("inf"), -float("inf"), 1e300, -0.0, 3.0]
    rows = [
        row(hour, observed=number, lower=numbers[-hour], upper=number, success=None)
        for hour, number in enumerate(numbers)
    ]
    nothing = dict.fromkeys(("about", "parameters", "found", "unexpected", "rows", "observed", "lower", "upper"))
    rows.append({**row(3, "vïews ✈"), **nothing})
    rows.append(
        row(
            4,
            "<script>",
            "audit",
            about="x" * 9000,
            found="<script>" * 900,
            success=False,
            rows=["no json", None, "[1]", "x" * 9000],
        )
    )
    page = overview(tmp_path, rows, ("<script>", 4))
    assert "script" not in page.tags
    assert "vïews ✈" in page.text
    assert "x" * 200 not in page.text


def test_a_source_and_a_metric_of_one_name_have_pages_of_their_own() -> None:
    assert page_name("views", None) != page_name("views", "views")


def test_pruning_keeps_what_the_window_and_open_problems_link_to(tmp_path: Path) -> None:
    for publication in (1, 2, 3, 4, 1_000_000):
        put_page(tmp_path, publication)
    (tmp_path / "runs" / "notes").mkdir()
    assert prune(tmp_path, [2, 4]) == [1, 3]
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["000002", "000004", "1000000", "notes"]
    assert prune(tmp_path / "nowhere", [4]) == []
