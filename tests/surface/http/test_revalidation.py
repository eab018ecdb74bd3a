"""Heads, ETags and earlier answers over HTTP: an answer is given again only if it is the same."""

from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from hourline import connect
from hourline_core.ledger.confirmations import confirm_gap
from hourline_core.model import Project, Settings
from serving_layer import snapshots
from serving_layer.http.server import Server
from serving_layer.reports.quality import report_quality
from speed_layer.commit.maintenance import maintain_stopped
from tests.support import bare_tables
from tests.support.bare_tables import BASE, SOURCE, BareTables, hour
from tests.support.http_answers import KEYS, VISITS, next_token, rows, wait_for
from tests.support.visits_tables import Visit, grouped, iso, serving, visit_tables


def test_the_heads_of_answers_can_be_asked_for(client: httpx.Client) -> None:
    for path in ("metrics/visits", "hours?from=noon", "changes"):
        head = client.head(f"/api/v1/{path}")
        assert head.content == b""
        if path != "changes":
            answer = client.get(f"/api/v1/{path}")
            assert (head.status_code, dict(head.headers) | {"date": ""}) == (
                answer.status_code,
                dict(answer.headers) | {"date": ""},
            )


def test_an_answer_that_a_client_has_is_not_sent_again(client: httpx.Client) -> None:
    for path in (
        "metrics/visits?grain=day",
        "project",
        "hours",
        "late",
        "drift",
        "quality",
        f"explain/visits/{iso(hour(2))}",
        f"metrics/visits/hours/{iso(hour(1))}",
    ):
        first = client.get(f"/api/v1/{path}")
        again = client.get(f"/api/v1/{path}", headers={"If-None-Match": f'"other", {first.headers["etag"]}'})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", first.headers["etag"]), path
    assert client.get("/api/v1/project", headers={"If-None-Match": "*"}).status_code == 304
    as_csv = client.get("/api/v1/metrics/visits?grain=day", headers={"Accept": "text/csv"})
    assert as_csv.headers["etag"] != client.get("/api/v1/metrics/visits?grain=day").headers["etag"]


def test_tables_put_in_the_place_of_others_answer_for_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(visits: list[Visit]) -> BareTables:
        tables = visit_tables(tmp_path / "tables", visits, monkeypatch)
        tables.start()
        tables.micro_batch(len(visits))
        return tables

    before = write(VISITS[:3])
    with serving(before.project) as client:
        first = client.get("/api/v1/metrics/visits")
    (tmp_path / "tables").rename(tmp_path / "away")
    with serving(write(VISITS[:5]).project) as client:
        second = client.get("/api/v1/metrics/visits", headers={"If-None-Match": first.headers["etag"]})
    assert first.json()["token"] == second.json()["token"]  # both have seen one micro-batch
    assert (rows(first, *KEYS), rows(second, *KEYS)) == (grouped(VISITS[:3], *KEYS), grouped(VISITS[:5], *KEYS))


def test_an_old_answer_is_given_again_and_a_strict_one_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = visit_tables(tmp_path, VISITS, monkeypatch)
    tables.start()
    tables.micro_batch(30)
    with serving(tables.project) as client:
        before = client.get("/api/v1/metrics/visits")
        tables.micro_batch(30)
        tables.publish(0, 1, metrics=["totals", "visits"], blocked=[1])
        assert wait_for(client, "p1-clicks.2")
        again = client.get("/api/v1/metrics/visits", params={"as_of": before.json()["token"]})
        assert again.content == before.content
        assert again.headers["etag"] == before.headers["etag"]
        refused = client.get("/api/v1/metrics/visits?strict=true")
        assert refused.status_code == 409
        assert "of 'visits' 2024-03-01T01:00Z blocked" in refused.json()["error"]
        assert client.get("/api/v1/metrics/visits", params={"strict": True, "from": iso(hour(2))}).status_code == 200
        told = client.get("/api/v1/quality").json()
        with connect(tables.project) as connection:
            same = report_quality(connection)
        assert told["advice"] == same.advice and told["advice"].startswith("2 problems block 1 hour:")
        assert [(one["id"], one["retry"], one["readers"], len(one["hours"])) for one in told["problems"]] == [
            (one.id, one.retry, {"provisional result": 1}, 1) for one in same.problems
        ]


def test_hours_that_pass_by_wall_time_make_another_answer_of_the_same_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "_RENEWED_BY_WALL_SECONDS", 0)
    tables = visit_tables(tmp_path, [Visit.of(0)], monkeypatch)
    tables.start()
    tables.micro_batch(1)
    now = [hour(1)]
    with (
        Server(_by_wall_time(tables.project), clock=lambda: now[0], environ={}) as server,
        httpx.Client(base_url=server.url, timeout=600) as client,
        client.stream("GET", "/api/v1/changes") as stream,
    ):
        lines = stream.iter_lines()
        next_token(lines)
        first = client.get("/api/v1/metrics/visits")
        now[0] = hour(3)
        told, token = next_token(lines)
        assert {one["hour"] for one in told} == {iso(hour(number)) for number in (1, 2)}
        assert token["token"] == first.json()["token"]
        second = client.get("/api/v1/metrics/visits", headers={"If-None-Match": first.headers["etag"]})
        assert second.status_code == 200
        assert second.json()["states"] == {"provisional": 3}
    assert first.json()["states"] == {"provisional": 1}


def test_an_earlier_answer_by_wall_time_is_the_same_at_any_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = visit_tables(tmp_path, VISITS[:10], monkeypatch)
    tables.start()
    tables.micro_batch(5)
    tables.micro_batch(5)
    answers = []
    now = [hour(1)]
    for number in (1, 3):
        now[0] = hour(number)
        with Server(_by_wall_time(tables.project), clock=lambda: now[0], environ={}) as server:
            path = f"{server.url}/api/v1/metrics/visits?as_of=p0-clicks.1"
            answers.append(httpx.get(path, timeout=600))
    first, second = answers
    assert rows(first, *KEYS) == grouped(VISITS[:5], *KEYS)
    assert (second.content, second.headers["etag"]) == (first.content, first.headers["etag"])


def test_a_metric_that_gets_its_tables_makes_another_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = visit_tables(tmp_path, VISITS[:5], monkeypatch)
    all_metrics = bare_tables.TILINGS
    monkeypatch.setattr(bare_tables, "TILINGS", all_metrics[:1])
    tables.start()
    tables.micro_batch(5)
    with serving(tables.project) as client, client.stream("GET", "/api/v1/changes") as stream:
        lines = stream.iter_lines()
        next_token(lines)
        first = client.get("/api/v1/project")
        monkeypatch.setattr(bare_tables, "TILINGS", all_metrics)
        tables.start()
        told, token = next_token(lines)
        assert {one["metric"] for one in told} == {"visits"}
        assert token["token"] != first.json()["token"], "the start has told progress of it"
        second = client.get("/api/v1/project", headers={"If-None-Match": first.headers["etag"]})
        assert second.status_code == 200
    assert [[one["name"] for one in answer.json()["metrics"]] for answer in (first, second)] == [
        ["totals"],
        ["totals", "visits"],
    ]


def test_a_cell_of_an_old_answer_that_is_no_longer_kept_is_refused_as_its_rows_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = visit_tables(tmp_path, VISITS, monkeypatch)
    tables.project = replace(tables.project, settings=Settings())
    tables.start()
    tables.micro_batch(30)
    with connect(tables.project) as connection:
        token = connection.token
    tables.micro_batch(30)
    tables.publish(*range(5), metrics=["totals", "visits"])
    maintain_stopped(tables.project, SOURCE, kept_hours=0)
    with serving(tables.project) as client:
        for path in ("metrics/visits", f"metrics/visits/hours/{iso(hour(0))}"):
            refused = client.get(f"/api/v1/{path}", params={"as_of": token})
            assert refused.status_code == 400, path
            assert "the result included provisional rows, which are only kept for" in refused.json()["error"]


def test_hours_that_a_person_has_confirmed_make_another_answer_of_the_same_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = visit_tables(tmp_path, [Visit.of(0)], monkeypatch)
    tables.start()
    tables.micro_batch(1)
    gap = tables.lose(0, 0)
    with serving(tables.project) as client, client.stream("GET", "/api/v1/changes") as stream:
        lines = stream.iter_lines()
        next_token(lines)
        first = client.get("/api/v1/metrics/visits")
        confirm_gap(tables.project, SOURCE, gap, "ada", "it was a test", BASE)
        told, token = next_token(lines)
        assert {(one["hour"], one["state"]) for one in told} == {(iso(hour(0)), "provisional")}
        assert token["token"] == first.json()["token"]
        second = client.get("/api/v1/metrics/visits", headers={"If-None-Match": first.headers["etag"]})
        assert second.status_code == 200
        assert second.json()["states"] == {"provisional": 1}
    assert first.json()["states"] == {"incomplete": 1}


def _by_wall_time(project: Project) -> Project:
    sources = {name: source.model_copy(update={"clock": "wall"}) for name, source in project.sources.items()}
    return replace(project, sources=sources)
