"""The page of an audit opens offline, and shows all that was found as text, whatever it holds."""

import json
from datetime import timedelta
from pathlib import Path

from batch_layer.reports.trend_pages import trend_path
from hourline_core.model import Expectation, Measure, Metric, Project, Settings
from tests.support.quality_rows import HOUR, START, row
from tests.support.report_pages import NOW, Page, audit, has_icon_of_the_page, loaded_from_elsewhere, overview


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
    assert "and 2 other findings, in 2 hours" in " ".join(audit(tmp_path, many).text.split())
    blocked = [("views", hour) for hour in found]
    card = " ".join(overview(tmp_path, rows, *blocked).text.split())
    assert "missing: /home (3 hours); missing: /shop (1 hour)" in card


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


def test_an_expectation_has_its_description_owner_and_link_whether_it_passed_or_failed(tmp_path: Path) -> None:
    expected = Expectation(
        type="expect_column_values_to_be_between",
        parameters={"column": "visits"},
        owner="the web desk",
        description="Visits are counted, so they are not negative.",
        link="https://example.com/visits",
    )
    views = Metric(
        name="views", source="pages", dimensions={}, measures={"n": Measure(kind="count")}, expectations=[expected]
    )
    project = Project(Path("shop"), Settings(name="shop"), {}, {"views": views})
    for success in (True, False):
        rows = [row(0, success=success), row(0, about="other")]
        overview(tmp_path, rows, project=project)
        for page in (audit(tmp_path, rows, project=project), Page(tmp_path / trend_path("pages", "views"))):
            assert "Visits are counted, so they are not negative." in page.text, success
            assert "the web desk" in page.text
            assert "https://example.com/visits" in page.links
