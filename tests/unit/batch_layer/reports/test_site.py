"""The pages of the reports: their names, the links to them, and which of them are pruned."""

from pathlib import Path

from batch_layer.reports.site import prune
from hourline_core.ledger.report_pages import page_name
from tests.support.quality_rows import HOUR, START, row
from tests.support.report_pages import overview, put_page


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


def test_a_source_and_a_metric_of_one_name_have_pages_of_their_own() -> None:
    assert page_name("views", None) != page_name("views", "views")


def test_pruning_keeps_what_the_window_and_open_problems_link_to(tmp_path: Path) -> None:
    for publication in (1, 2, 3, 4, 1_000_000):
        put_page(tmp_path, publication)
    (tmp_path / "runs" / "notes").mkdir()
    assert prune(tmp_path, [2, 4]) == [1, 3]
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["000002", "000004", "1000000", "notes"]
    assert prune(tmp_path / "nowhere", [4]) == []
