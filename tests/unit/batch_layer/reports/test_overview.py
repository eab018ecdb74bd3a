"""The overview opens offline, and says first what is the matter and what to do."""

import json
import re
from datetime import timedelta
from pathlib import Path

from hourline_core.ledger.report_pages import page_path
from tests.support.quality_rows import HOUR, START, problems_of, row
from tests.support.report_pages import has_icon_of_the_page, loaded_from_elsewhere, overview, put_page


def test_a_card_shows_a_value_that_failed_beside_the_bounds(tmp_path: Path) -> None:
    kept = [json.dumps({"hour": "2026-03-02T00:00Z", "page": "/home", "visits": 1107.8579755})]
    failed = row(0, success=False, rows=kept, unexpected=1, found="1 of 3 rows", parameters='{"max_value": 1100}')
    card = " ".join(overview(tmp_path, [failed], ("views", 0)).text.split())
    assert "visits values to be between: max value 1100" in card
    assert "1 of 3 rows, such as visits: 1,107.9" in card


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
    assert "1 problem blocks 1 hour: fix the data" in page.text
    assert page.text.index("Blocked") < page.text.index("11 values are below 0") < page.text.index("Trends")
    assert "<b>/boots</b>" in page.text
    assert "11 failing rows" in page.text and "8 more rows are not shown" in page.text
    assert f"hourline recompute --problem {problem.id} " in page.text
    assert f'hourline accept {problem.id}@4 --reason "…" ' in page.text
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
    assert "2 problems block 6 hours: fix" in text
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
    assert "You need not do anything; 1 problem only warned." in overview(tmp_path, rows).text


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
    assert "views: 1 hour repaired" in news
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
