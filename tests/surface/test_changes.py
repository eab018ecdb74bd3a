"""`hourline changes` and its route: how results differ from earlier ones, for people and for programs."""

import json
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner, Result

import serving_layer
from hourline.cli import app
from hourline_core.model.hours import iso_text
from tests.support.command_line import hourline
from tests.support.visits import Visit, Visits, hour
from tests.support.visits_tables import serving


@pytest.fixture
def site(tmp_path: Path) -> Visits:
    """The first answer is p0-visits.1. Since then an event has come late, and one is new."""
    visits = Visits(tmp_path)
    visits.start()
    visits.micro_batch(Visit(0, "a", 5), Visit(9, "b=c", 900))
    visits.micro_batch(Visit(0, "a", 50), Visit(9, None, 7))
    return visits


SINCE = "p0-visits.1"


def changes(site: Visits, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["changes", "--project", str(site.project.root), *arguments])


def test_people_see_a_table_and_the_token_of_the_later_result(site: Visits) -> None:
    done = changes(site, "loads", "--since", SINCE)
    rows = [line.split() for line in done.stdout.splitlines()]
    assert rows[0] == [
        "metric",
        "window_start",
        "window_end",
        "dimensions",
        "change",
        "measure",
        "before",
        "after",
        "causes",
    ]
    assert "update visits 1 2 late" in " ".join(rows[1])
    assert "page=null, slow=false" in done.stdout
    assert "7 change(s): loads 7" in done.stderr
    assert done.stderr.splitlines()[-1] == "as of p0-visits.2"
    same = changes(site, "--since", "p0-visits.2")
    assert (same.stdout, same.stderr) == ("", "nothing has changed since p0-visits.2\nas of p0-visits.2\n")


def test_programs_get_the_same_in_each_format(site: Visits) -> None:
    found = json.loads(changes(site, "--since", SINCE, "--format", "json").stdout)
    assert (found["since"], found["token"]) == (SINCE, "p0-visits.2")
    assert found["changes"][0] == {
        "metric": "loads",
        "window_start": iso_text(hour(0)),
        "window_end": iso_text(hour(1)),
        "dimensions": {"page": "a", "slow": "false"},
        "change": "update",
        "measure": "visits",
        "before": "1",
        "after": "2",
        "causes": ["late"],
    }
    changes(site, "--since", SINCE, "--format", "json", "--output", str(site.project.root / "changes.json"))
    assert json.loads((site.project.root / "changes.json").read_text()) == found
    lines = changes(site, "--since", SINCE, "--format", "jsonl").stdout.splitlines()
    assert [json.loads(line)["after"] for line in lines] == [one["after"] for one in found["changes"]]
    with serving(site.project) as client:
        answer = client.get("/api/v1/metrics/loads/changes", params={"since": SINCE})
        assert json.loads(answer.text.replace(".000000Z", "Z")) == {**found, "next": None}
        pages, address = [], f"/api/v1/metrics/loads/changes?since={SINCE}&limit=3"
        while address:
            page = json.loads(client.get(address).text.replace(".000000Z", "Z"))
            pages += page["changes"]
            address = page["next"]
        assert pages == found["changes"]
        text = client.get("/api/v1/metrics/loads/changes", params={"since": SINCE, "format": "csv"})
        assert text.headers["Hourline-Token"] == "p0-visits.2"
        assert len(text.text.splitlines()) == 1 + len(found["changes"])
    with serving_layer.connect(site.project, since=SINCE) as connection:
        assert connection.sql("SELECT after FROM changes").fetchall() == [(one["after"],) for one in found["changes"]]
        assert "changes" in connection.views


def test_mistakes_are_one_sentence(site: Visits) -> None:
    refusal = hourline("changes", "load", "--since", SINCE, folder=site.project.root, status=2)
    assert refusal == "hourline: there is no metric 'load' — did you mean 'loads'?\n"
    nowhere = str(site.project.root / "no/where.json")
    output = ("--format", "json", "--output", nowhere)
    refusal = hourline("changes", "--since", SINCE, *output, folder=site.project.root, status=2)
    assert refusal.endswith(f"the folder {site.project.root / 'no'} is not there; make it, or write elsewhere\n")
    with serving(site.project) as client:
        refused: httpx.Response = client.get("/api/v1/metrics/loads/changes", params={"since": "yesterday"})
        assert (refused.status_code, refused.json()["error"].split(";")[0]) == (
            400,
            "'yesterday' is neither a token nor a time",
        )
