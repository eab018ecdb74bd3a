"""The pages of the reports: their names, the links to them, and which of them are pruned."""

from pathlib import Path

from batch_layer.reports.site import prune
from hourline_core.ledger.report_pages import page_name
from tests.support.quality_rows import HOUR, START, row
from tests.support.report_pages import Page, overview, put_page


def test_each_audited_hour_is_a_link_to_a_page_that_is_there(tmp_path: Path) -> None:
    rows = [row(hour, metric) for hour in range(50) for metric in ("views", None)]
    for hour in range(50):
        if hour != 17:
            put_page(tmp_path, hour + 1, "views")
            put_page(tmp_path, hour + 1, None)
    trends = overview(tmp_path, rows).links
    assert trends == ["trends/source-pages.html", "trends/metric-views.html"]
    pages = [Page(tmp_path / trend) for trend in trends]
    assert all(page.links[0] == "../index.html" for page in pages)
    links = [link.partition("#") for page in pages for link in page.links[1:]]
    assert len(links) == 2 * 49
    assert all((tmp_path / "trends" / path).is_file() for path, _, _ in links)
    assert {hour for _, _, hour in links} == {
        f"h{START + hour * HOUR:%Y-%m-%dT%H:%MZ}" for hour in range(50) if hour != 17
    }


def test_trends_of_other_sources_are_not_written_again_and_those_that_are_gone_are_removed(tmp_path: Path) -> None:
    rows = [row(hour, metric) for hour in range(5) for metric in ("views", "visitors")]
    overview(tmp_path, rows)
    views, visitors = (tmp_path / "trends" / f"metric-{name}.html" for name in ("views", "visitors"))
    views.write_text("kept")
    visitors.unlink()
    overview(tmp_path, rows, changed=["another"])
    assert views.read_text() == "kept" and visitors.is_file()
    overview(tmp_path, rows[::2], changed=["pages"])
    assert "views" in views.read_text() and not visitors.exists()


def test_what_did_not_pass_comes_first_and_the_rest_is_folded(tmp_path: Path) -> None:
    rows = [row(hour, f"m{number}") for number in range(12) for hour in range(3)]
    rows[3 * 10] = row(0, "m10", success=False)
    page = overview(tmp_path, rows, ("m10", 0))
    trends = [link for link in page.links if link.startswith("trends/")]
    # The first is that of the card.
    assert trends[:3] == ["trends/metric-m10.html", "trends/metric-m10.html", "trends/metric-m0.html"]
    assert trends[-2:] == ["trends/metric-m9.html", "trends/metric-m11.html"]
    assert "and 11 in which every hour passed" in page.text


def test_a_source_and_a_metric_of_one_name_have_pages_of_their_own() -> None:
    assert page_name("views", None) != page_name("views", "views")


def test_pruning_keeps_what_the_window_and_open_problems_link_to(tmp_path: Path) -> None:
    for publication in (1, 2, 3, 4, 1_000_000):
        put_page(tmp_path, publication)
    (tmp_path / "runs" / "notes").mkdir()
    assert prune(tmp_path, [2, 4]) == [1, 3]
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["000002", "000004", "1000000", "notes"]
    assert prune(tmp_path / "nowhere", [4]) == []
