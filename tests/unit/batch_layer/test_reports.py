"""The reports as files: they open offline, say what is the matter first, and show all that was found as text, whatever
it holds.
"""

import json
import os
import random
import re
from datetime import datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

import serving_layer
from batch_layer.reports.audit_page import write_page
from batch_layer.reports.overview import write_overview
from batch_layer.reports.site import prune
from hourline_core.ledger.report_pages import page_name, page_path
from tests.support.quality_rows import HOUR, START, problems_of, row, shop, table_of

NOW = START + timedelta(days=30)


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


def overview(site: Path, rows: list[dict[str, Any]], *blocked: tuple[str, int], now: datetime = NOW) -> Page:
    marks = [(metric, START + hour * HOUR) for metric, hour in blocked]
    return Page(write_overview(site, shop(), table_of(rows), problems_of(rows, blocked), marks, now))


def audit(
    site: Path, rows: list[dict[str, Any]], past: list[dict[str, Any]] | None = None, now: datetime = NOW
) -> Page:
    """The page of the audit that found ``rows``."""
    return Page(write_page(site, 7, "pages", "views", table_of(rows), table_of(past or []), now))


def put_page(site: Path, publication: int, metric: str | None = "views") -> Path:
    path = site / page_path(publication, page_name("pages", metric))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


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


def test_the_page_of_an_audit_loads_nothing_from_elsewhere_and_leads_back_to_the_overview(tmp_path: Path) -> None:
    page = audit(tmp_path, [row(0), row(0, success=False, about="other")])
    assert loaded_from_elsewhere(tmp_path, page) == []
    assert has_icon_of_the_page(page)
    assert ("link", {"rel": "stylesheet", "href": "../../style.css"}) in page.elements
    assert page.links == ["../../index.html"]


def test_failing_rows_are_shown_with_their_keys_and_not_all_of_many(tmp_path: Path) -> None:
    kept = [json.dumps({"hour": "2026-03-02T00:00Z", "page": f"/home{place}", "visits": -place}) for place in range(20)]
    failed = row(0, success=False, rows=kept, unexpected=63, found="63 of 64 rows")
    other = row(1, success=False, rows=kept[:2], unexpected=2, found="2 of 9 rows", publication=1)
    page = audit(tmp_path, [failed, other, row(0, about="page")])
    text = " ".join(page.text.split())
    assert "45 more rows are not shown" in text
    few = audit(tmp_path, [row(0, success=False, rows=kept[:5], unexpected=7, found="7 of 64 rows")])
    assert "2 more rows are not shown" in few.text
    assert "1 of 2 expectations failed" in text
    assert "2026-03-02 00:00 UTC: 63 of 64 rows" in text and "2026-03-02 01:00 UTC: 2 of 9 rows" in text
    assert "hour page visits 2026-03-02T00:00Z /home0 0 2026-03-02T00:00Z /home1 -1" in text
    assert text.count("/home19 ") == 1
    assert "45 more rows are not shown" in text


def test_hours_in_which_the_same_was_found_are_told_once(tmp_path: Path) -> None:
    found = {3: "missing: /home", 4: "missing: /home", 9: "missing: /shop", 27: "missing: /home"}
    rows = [row(hour, success=False, found=words) for hour, words in found.items()]
    text = " ".join(audit(tmp_path, rows).text.split())
    assert "3 hours, 2026-03-02 03:00 to 2026-03-03 03:00 UTC: missing: /home" in text
    assert "2026-03-02 09:00 UTC: missing: /shop" in text
    many = [row(hour, success=False, found=f"found {hour}") for hour in range(7)]
    assert "and something else in 2 other hours" in " ".join(audit(tmp_path, many).text.split())
    blocked = [("views", hour) for hour in found]
    card = " ".join(overview(tmp_path, rows, *blocked).text.split())
    assert "missing: /home (3 hours); missing: /shop (1 hour)" in card


def test_a_card_shows_a_value_that_failed_beside_the_bounds(tmp_path: Path) -> None:
    kept = [json.dumps({"hour": "2026-03-02T00:00Z", "page": "/home", "visits": 1107.8579755})]
    failed = row(0, success=False, rows=kept, unexpected=1, found="1 of 3 rows", parameters='{"max_value": 1100}')
    card = " ".join(overview(tmp_path, [failed], ("views", 0)).text.split())
    assert "visits values to be between: max value 1100" in card
    assert "1 of 3 rows, such as visits: 1,107.9" in card


def test_an_audit_has_one_line_for_each_expectation_whatever_the_number_of_hours(tmp_path: Path) -> None:
    rows = [row(hour, about=about, observed=hour) for hour in range(200) for about in ("a", "b", "c")]
    rows += [row(hour, about="d", success=hour != 7, observed=hour / 4, lower=0.0, upper=9.0) for hour in range(200)]
    page = audit(tmp_path, [{**one, "publication": 7} for one in rows])
    text = " ".join(page.text.split())
    labels = [attributes for _, attributes in page.elements if attributes.get("class") == "label"]
    assert len(labels) == 4
    assert text.index("1 of 4 expectations failed") < text.index("1.75") < text.index("3 passed")
    assert "details" in page.tags
    assert "2026-03-02 07:00 UTC failed: d values to be between 1.75 (0 to 9)" in text  # told where the pointer rests
    assert {f"h{START + hour * HOUR:%Y-%m-%dT%H:%MZ}" for hour in range(200)} <= {
        attributes.get("id") for _, attributes in page.elements
    }


def test_an_expectation_that_was_not_applied_is_not_shown_as_passed(tmp_path: Path) -> None:
    rows = [row(0, about="page"), row(0, about="visits", applied=False)]
    text = " ".join(audit(tmp_path, [{**one, "publication": 7} for one in rows]).text.split())
    assert "1 passed" in text and "visits" not in text


def test_an_hour_stands_beside_the_same_hour_of_past_weeks(tmp_path: Path) -> None:
    week = 7 * 24
    past = [row(hour, observed=100.0 + hour, about="views") for hour in range(4 * week) if hour != week]
    now = [row(4 * week, observed=5.0, about="views", lower=90.0, success=False), row(4 * week, about="rows")]
    text = " ".join(audit(tmp_path, now, past).text.split())
    assert "this hour 1 week before 2 weeks before 3 weeks before 4 weeks before" in text
    assert f"views 5 {100 + 3 * week} {100 + 2 * week} 100" in text
    assert "of past weeks" not in audit(tmp_path, now).text


def test_an_expectation_that_is_new_is_told_before_what_is_folded(tmp_path: Path) -> None:
    past = [row(hour, audited=NOW - timedelta(days=3)) for hour in range(5)]
    now = [row(5, audited=NOW), row(5, audited=NOW, about="added")]
    text = audit(tmp_path, now, past).text
    assert text.index("New since yesterday") < text.index("added") < text.index("2 passed") < text.index("visits")


def test_markup_in_values_is_shown_as_text(tmp_path: Path) -> None:
    told = ["<script>alert(1)</script>", "<img src=x>", "<b>$visits</b>", "<em>", "<i>described"]
    rows = [
        row(
            0,
            expectation="<em>",
            about="<b>$visits</b>",
            parameters=json.dumps({"value_set": ["<i>described"]}),
            found="<script>alert(1)</script>",
            success=False,
            rows=[json.dumps({"<img src=x>": "<script>alert(1)</script>"})],
        )
    ]
    for page in (audit(tmp_path, rows), overview(tmp_path, rows, ("views", 0))):
        assert not page.tags & {"script", "img", "em"}
        assert [text for text in told if text not in page.text] == []


def test_a_warning_is_told_from_a_failure(tmp_path: Path) -> None:
    rows = [
        row(0, about="a", severity="warn", success=False),
        row(0, about="b", success=False),
        row(0, about="c"),
        row(
            0, "views", "audit", about="", parameters=None, success=False, found="the audit itself failed: MemoryError"
        ),
    ]
    page = audit(tmp_path, rows)
    assert "2 of 4 expectations failed, 1 more warned" in page.text
    assert "MemoryError" in page.text
    assert "3 expectations passed" not in page.text
    assert "1 expectations passed, 1 warned" in audit(tmp_path, [rows[0], rows[2]]).text


def test_the_overview_tells_blocked_hours_first_with_rows_and_commands(tmp_path: Path) -> None:
    failing = [
        json.dumps({"hour": "2026-03-02T03:00Z", "page": "<b>/boots</b>", "visits": -place}) for place in range(1, 9)
    ]
    rows = [row(hour) for hour in range(5)] + [row(hour, "visitors") for hour in range(5)]
    rows[3] = row(3, success=False, found="11 values are below 0", unexpected=11, rows=failing)
    put_page(tmp_path, 4)
    page = overview(tmp_path, rows, ("views", 3))
    (problem,) = problems_of(rows, [("views", 3)]).open
    assert loaded_from_elsewhere(tmp_path, page) == []
    assert has_icon_of_the_page(page)
    assert "1 problem blocks 1 hour: mend the data" in page.text
    assert page.text.index("Blocked") < page.text.index("11 values are below 0") < page.text.index("Trends")
    assert "<b>/boots</b>" in page.text
    assert "11 failing rows" in page.text and "8 more rows are not shown" in page.text
    assert f"hourline recompute --problem {problem.id} " in page.text
    assert f'hourline publish --accept {problem.id}@4 --reason "…" ' in page.text
    assert page_path(4, "metric-views") in page.links


def test_an_expectation_that_fails_in_many_hours_is_one_card(tmp_path: Path) -> None:
    bad = {2, 3, 4, 5, 7, 30}
    rows = [row(hour, success=hour not in bad) for hour in range(40)]
    rows += [row(hour, None, "expect_table_row_count_to_be_between", success=hour != 5) for hour in range(40)]
    rows += [row(hour, about="calm", severity="warn", success=hour != 9) for hour in range(40)]
    page = overview(tmp_path, rows, *(("views", hour) for hour in bad))
    cards = [attributes["class"] for tag, attributes in page.elements if tag == "article"]
    assert cards == ["problem blocked", "problem blocked", "problem warned"]
    text = " ".join(page.text.split())
    assert "2 problems block 6 hours: mend" in text
    assert "6 hours, Mon 2 Mar 2026, 02:00 to Tue 3 Mar 2026, 06:00 UTC" in text
    assert re.search(r"also blocked by [0-9a-f]{8} \(1 hour\)", text)
    assert "pages (events): visits" in text


def test_the_overview_says_in_one_sentence_that_there_is_nothing_to_do(tmp_path: Path) -> None:
    assert "Nothing has been audited yet." in overview(tmp_path, []).text
    rows = [row(hour, metric) for hour in range(5) for metric in ("views", "visitors", None)]
    page = overview(tmp_path, rows)
    assert "There is nothing to do: every audited hour is published, and nothing warned." in page.text
    assert "Blocked" not in page.text
    rows.append(row(3, severity="warn", success=False))
    assert "There is nothing that must be done; 1 problem only warned." in overview(tmp_path, rows).text


def test_a_problem_older_than_what_is_shown_is_told_all_the_same(tmp_path: Path) -> None:
    page = overview(tmp_path, [row(3, success=False), row(2000)], ("views", 3), ("gone", 4))
    assert "2 problems block 2 hours" in page.text
    assert "Mon 2 Mar 2026, 03:00 UTC" in page.text
    assert "the findings of its audit are no longer kept" in page.text


def test_what_is_new_since_yesterday_is_told(tmp_path: Path) -> None:
    now = START + 50 * HOUR
    rows = [row(hour, success=hour not in (40, 41)) for hour in range(45)]
    rows += [row(45), row(45, about="added")]
    rows.append(row(40, expectation="accepted", origin="person", found="ada: a sale", publication=99, audited=now))
    rows.append(row(41, publication=100, audited=now))
    rows.append(row(44, about="fresh", success=False))
    text = " ".join(overview(tmp_path, rows, ("views", 44), now=now).text.split())
    news = text[text.index("New since yesterday") : text.index("Trends")]
    assert "views: 1 hour accepted by ada: a sale" in news
    assert "views: 1 hour mended" in news
    assert "views: first evaluated: added" in news
    assert "new views: fresh" in text
    later = overview(tmp_path, rows, ("views", 44), now=now + timedelta(days=2)).text
    assert "New since yesterday" not in later and "new views" not in " ".join(later.split())


def test_a_year_with_five_hundred_problems_is_one_small_page(tmp_path: Path) -> None:
    hours = 365 * 24
    rows = [row(hour) for hour in range(hours - 100, hours)]
    bad = [hours - 1 - 17 * place for place in range(500)]
    rows += [row(hour, about=f"field {place}", success=False) for place, hour in enumerate(bad)]
    page = overview(tmp_path, rows, *(("views", hour) for hour in bad))
    assert "500 problems block 500 hours" in page.text
    assert all(f"field {place} " in page.text for place in range(500))
    assert (tmp_path / "index.html").stat().st_size < 500_000


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
