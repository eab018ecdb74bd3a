"""An answer that lacks hours says so, and names the hours for the command that computes them."""

import re
from datetime import timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

import serving_layer
from hourline import load_project
from hourline.cli import app
from hourline_core.errors import UnreliableResultError
from hourline_core.model.hours import HourRange, parse_range
from speed_layer.reset import MetricReset
from tests.support.visits import BASE, Visit, Visits, hour
from tests.support.visits_tables import serving

QUERY = ("query", "SELECT sum(visits) FROM loads")
CLOSED = "2 hour(s) of 'loads' are missing from its results: `hourline recompute` computes them"


@pytest.fixture
def site(tmp_path: Path) -> Visits:
    """Hours 0 to 3, of which 2 and 3 are open. The metric was reset since."""
    site = Visits(tmp_path)
    (site.project.root / "metrics/unseen.yaml").unlink()
    site.project = load_project(site.project.root)
    site.start()
    site.micro_batch(*(Visit(number, "home", 5) for number in range(4)))
    site.publish(0, 1)
    MetricReset(site.project, site.metric).apply(BASE + timedelta(days=2))
    site.cutoffs.clear()
    site.start()
    return site


def said(site: Visits, *arguments: str) -> str:
    """What a command says, on both streams."""
    return CliRunner().invoke(app, [*arguments, "--project", str(site.project.root)], catch_exceptions=False).output


def open_hours(words: str) -> HourRange:
    """The range in the command that computes open hours."""
    (found,) = set(re.findall(r"`hourline recompute --metric loads --from (\S+) --to (\S+) --include-open`", words))
    return parse_range(*found)


def test_an_answer_names_the_hours_that_it_lacks_until_they_are_recomputed(site: Visits) -> None:
    asked: list[tuple[str, ...]] = [QUERY, (*QUERY, "--format", "csv"), ("status",)]
    for arguments in asked:
        assert CLOSED in said(site, *arguments)
        assert list(open_hours(said(site, *arguments))) == [hour(2), hour(3)]
    assert "are missing" not in said(site, "query", f"SELECT sum(visits) FROM loads WHERE hour > '{hour(3)}'")
    assert "are missing" not in said(site, "query", "FROM rejected_visits")
    with serving_layer.connect(site.project, strict=True) as connection, pytest.raises(UnreliableResultError) as weak:
        connection.sql("FROM loads")
    assert CLOSED in str(weak.value) and list(open_hours(str(weak.value))) == [hour(2), hour(3)]
    with serving(site.project) as client:
        lacks = client.get("/api/v1/metrics/loads").json()["lacks"]
    assert lacks[0] == CLOSED and list(open_hours(lacks[1])) == [hour(2), hour(3)]

    # The plan lists what has closed. After its recompute, the rest is still named.
    assert CLOSED not in said(site, "plan")
    site.publish(0, 1)
    asked = [QUERY, ("plan",), ("status",)]
    for arguments in asked:
        assert CLOSED not in said(site, *arguments)
        assert list(open_hours(said(site, *arguments))) == [hour(2), hour(3)]
    assert "hour 2024-03-01T02:00Z" not in said(site, "plan")
    explained = said(site, "explain", "loads", "2024-03-01T03")
    assert list(open_hours(explained)) == [hour(3)]
    site.publish(2, 3)
    for arguments in [*asked, (*QUERY, "--strict")]:
        assert "missing" not in said(site, *arguments)
